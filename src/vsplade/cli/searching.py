"""``vsplade search``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    INDEX,
    encoder_option,
    filter_option,
    indexes_option,
    json_option,
    password_options,
    print_json,
)
from vsplade.cli.show_hits import document, print_hits, show_marked
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.search.hits import Hit
    from vsplade.search.page_index import PageIndex


@click.command()
@click.argument("query")
@indexes_option
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="Results to show.")
@filter_option
@click.option(
    "--fuse",
    is_flag=True,
    help="Join what the reader saw with BM25 on the text layers, in an index that was built with "
    "--encoder reader+text. Pages without a text layer are ranked by the reader alone.",
)
@click.option(
    "--fuse-with",
    type=INDEX,
    multiple=True,
    metavar="DIR",
    help="Join with the results of another index of the same pages. May be given several times.",
)
@click.option(
    "--weights",
    metavar="W,W",
    help="Weights of the joined rankings, in their order (this index, its text layers, other indexes); they "
    "sum to 1. Default: 0.8,0.2 for --fuse alone, else equal.",
)
@click.option(
    "--fusion",
    type=click.Choice(["rsf", "rrf"]),
    default="rsf",
    show_default=True,
    help="Relative score fusion (the paper's), or reciprocal rank fusion.",
)
@click.option(
    "--rerank",
    metavar="MODEL",
    help="Order the best hits anew with a ColModernVBERT model, a folder or a name on the hub. Reads those "
    "pages again; slow, and a neural network at query time.",
)
@click.option(
    "--rerank-depth",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many hits --rerank looks at.",
)
@click.option(
    "--min-score",
    type=click.FloatRange(min=0.0),
    default=0.0,
    metavar="SCORE",
    help="Leave out hits with a lower score.",
)
@click.option(
    "--open", "open_best", is_flag=True, help="Show the best hit's page, its words marked, in a viewer."
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT.png",
    help="Write the best hit's page, its words marked, to this file.",
)
@click.option(
    "--snippets/--no-snippets",
    default=None,
    help="Show the words around the best place of each hit. Default: on a terminal. Opens the hits' files.",
)
@click.option(
    "--words-only",
    is_flag=True,
    help="Find pages by their words alone, and not by what they are about.",
)
@click.option("--explain", is_flag=True, help="Show every matched term and what it added to the score.")
@password_options
@encoder_option
@json_option
def search(
    query: str,
    index_dirs: tuple[Where, ...],
    k: int,
    filters: tuple[str, ...],
    fuse: bool,
    fuse_with: tuple[Where, ...],
    weights: str | None,
    fusion: str,
    rerank: str | None,
    rerank_depth: int,
    min_score: float,
    words_only: bool,
    open_best: bool,
    picture: Path | None,
    snippets: bool | None,
    explain: bool,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Find the pages that answer QUERY, best first.

    "a phrase" and +word must stand on a page, -word must not; word* is any word with this beginning. Write
    -- before a query that begins with -.
    """
    from vsplade.encode import load_encoder
    from vsplade.search.open_index import open_index

    index = open_index(index_dirs, encoder=load_encoder(encoder) if encoder else None)
    joined = FusionChoice(fuse, fuse_with, weights, fusion)
    asked = Asked(query, filters, max(k, rerank_depth) if rerank else k, min_score, words_only)
    hits = find(index, asked, joined)
    if rerank:
        hits = reranked(asked.query, hits, rerank, rerank_depth)[:k]
    if joined or rerank:
        hits = [hit for hit in hits if hit.score >= min_score]
    if picture or open_best:
        show_marked(hits, picture, open_best)
    if as_json:
        print_json(document(index, query, filters, hits, bool(snippets)))
    else:
        snippets = sys.stdout.isatty() if snippets is None else snippets
        print_hits(index, query, filters, hits, explain, snippets)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    query: str
    filters: tuple[str, ...]
    k: int
    min_score: float
    words_only: bool = False


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """Which rankings are joined, and how."""

    text_layers: bool
    others: tuple[Where, ...]
    weights: str | None
    method: str

    def __bool__(self) -> bool:
        return bool(self.text_layers or self.others)


def find(index: PageIndex, asked: Asked, joined: FusionChoice) -> Sequence[Hit]:
    """The hits, by one search or several that are joined."""
    if joined:
        return fused_hits(index, asked, joined)
    if joined.weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse or --fuse-with too.")
    return index.search(
        asked.query,
        k=asked.k,
        filter=asked.filters,
        min_score=asked.min_score,
        words_only=asked.words_only,
    )


def fused_hits(index: PageIndex, asked: Asked, joined: FusionChoice) -> Sequence[Hit]:
    """The index, its text layers where asked for, and other indexes, as one ranking."""
    from vsplade.search.fused_search import READER_AND_TEXT, fused_search, text_layer, whole
    from vsplade.search.open_index import open_index

    sources = [whole(index, asked.words_only)]
    if joined.text_layers:
        sources.append(text_layer(index))
    sources += [whole(open_index(folder), asked.words_only) for folder in joined.others]
    known = joined.weights is None and not joined.others
    shares = READER_AND_TEXT if known else parse_weights(joined.weights)
    return fused_search(sources, asked.query, asked.k, shares, joined.method, asked.filters)


def reranked(query: str, hits: Sequence[Hit], model: str, depth: int) -> Sequence[Hit]:
    """The first ``depth`` hits by late interaction; what is below them is left out."""
    from vsplade.search.rerank import LONGEST_EDGE, ColModernVbert, render_hits, rerank_hits
    from vsplade.search.syntax import parse

    loaded = ColModernVbert(model)
    text = parse(query).text
    return rerank_hits(text, hits[:depth], loaded, lambda chosen: render_hits(chosen, LONGEST_EDGE))


def parse_weights(text: str | None) -> tuple[float, ...] | None:
    """``0.7,0.3``; how many there are and what they sum to is checked where they are used."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"Cannot read --weights {text!r}: write numbers, as in 0.7,0.3.") from error


COMMANDS = (search,)
