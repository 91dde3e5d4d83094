"""``vsplade search``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    INDEX,
    Number,
    encoder_option,
    filter_option,
    fusion_option,
    indexes_option,
    json_option,
    password_options,
    print_json,
)
from vsplade.cli.show_hits import Shown, document, print_hits, show_marked
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.search.fused_search import Source
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
@fusion_option
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
    type=Number(min=0.0),
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
    from vsplade.search.fused_search import READER_AND_TEXT, fused_search
    from vsplade.search.open_index import open_index
    from vsplade.store.damage import damage_of

    index = open_index(index_dirs, encoder=load_encoder(encoder) if encoder else None)
    wanted = max(k, rerank_depth) if rerank else k
    others = [open_index(where) for where in fuse_with]
    hits: Sequence[Hit]
    if fuse or fuse_with:
        sources = _sources(index, fuse, others, words_only)
        shares = READER_AND_TEXT if weights is None and not fuse_with else parse_weights(weights)
        hits = fused_search(sources, query, wanted, shares, fusion, filters)
    elif weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse or --fuse-with too.")
    else:
        least = 0.0 if rerank else min_score  # the reranker's scores are of another kind
        hits = index.search(query, k=wanted, filter=filters, min_score=least, words_only=words_only)
    if rerank:
        hits = reranked(query, hits, rerank, rerank_depth)[:k]
    if fuse or fuse_with or rerank:
        hits = [hit for hit in hits if hit.score >= min_score]
    if picture or open_best:
        show_marked(hits, picture, open_best)
    if as_json:
        damage = damage_of([index, *others])
        print_json(document(index, query, filters, hits, bool(snippets), damage))
    else:
        snippets = sys.stdout.isatty() if snippets is None else snippets
        print_hits(index, query, hits, Shown(filters, min_score, words_only, explain, snippets))


def _sources(
    index: PageIndex, text_layers: bool, others: Sequence[PageIndex], words_only: bool
) -> list[Source]:
    """The index, its text layers where asked for, and other indexes: what is joined into one ranking."""
    from vsplade.search.fused_search import text_layer, whole

    own = [whole(index, words_only), *([text_layer(index)] if text_layers else [])]
    return own + [whole(other, words_only) for other in others]


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
