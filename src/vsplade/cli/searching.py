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
    FUSION,
    INDEX,
    Number,
    encoder_option,
    filter_option,
    indexes_option,
    json_option,
    password_options,
    print_json,
)
from vsplade.cli.options import NEW_FILE, option, takes
from vsplade.cli.show_hits import Shown, document, print_hits, show_marked
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.search.fused_search import Source
    from vsplade.search.hits import Hit
    from vsplade.search.page_index import PageIndex


@dataclass(frozen=True)
class SearchOptions:
    k: int = option("Results to show.", 10, flag="-k", kind=click.IntRange(min=1))
    fuse: bool = option(
        "Join what the reader saw with BM25 on the text layers, in an index that was built with "
        "--encoder reader+text. Pages without a text layer are ranked by the reader alone.", False,
    )  # fmt: skip
    fuse_with: tuple[Where, ...] = option(
        "Join with the results of another index of the same pages. May be given several times.", (),
        kind=INDEX, metavar="DIR",
    )  # fmt: skip
    weights: str | None = option(
        "Weights of the joined rankings, in their order (this index, its text layers, other indexes); they "
        "sum to 1. Default: 0.8,0.2 for --fuse alone, else equal.", None, metavar="W,W",
    )  # fmt: skip
    fusion: str = option(FUSION, "rsf", choices=("rsf", "rrf"))
    rerank: str | None = option(
        "Order the best hits anew with a ColModernVBERT model, a folder or a name on the hub. Reads those "
        "pages again; slow, and a neural network at query time.", None, metavar="MODEL",
    )  # fmt: skip
    rerank_depth: int = option(
        "How many hits --rerank looks at.", 20, kind=click.IntRange(min=1), metavar="N"
    )
    min_score: float = option(
        "Leave out hits with a lower score.", 0.0, kind=Number(min=0.0), metavar="SCORE"
    )
    open: bool = option("Show the best hit's page, its words marked, in a viewer.", False)
    picture: Path | None = option(
        "Write the best hit's page, its words marked, to this file.", None, kind=NEW_FILE, metavar="OUT.png"
    )
    snippets: bool | None = option(
        "Show the words around the best place of each hit. Default: on a terminal. Opens the hits' files.",
        None, flag="--snippets/--no-snippets",
    )  # fmt: skip
    words_only: bool = option("Find pages by their words alone, and not by what they are about.", False)
    explain: bool = option("Show every matched term and what it added to the score.", False)


@click.command()
@click.argument("query")
@indexes_option
@filter_option
@takes(SearchOptions)
@password_options
@encoder_option
@json_option
def search(
    query: str,
    index_dirs: tuple[Where, ...],
    filters: tuple[str, ...],
    asked: SearchOptions,
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
    joined, rerank = asked.fuse or asked.fuse_with, asked.rerank
    wanted = max(asked.k, asked.rerank_depth) if rerank else asked.k
    others = [open_index(where) for where in asked.fuse_with]
    hits: Sequence[Hit]
    if joined:
        sources = _sources(index, others, asked)
        default = asked.weights is None and not asked.fuse_with
        shares = READER_AND_TEXT if default else parse_weights(asked.weights)
        hits = fused_search(sources, query, wanted, shares, asked.fusion, filters)
    elif asked.weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse or --fuse-with too.")
    else:
        least = 0.0 if rerank else asked.min_score  # the reranker's scores are of another kind
        hits = index.search(query, k=wanted, filter=filters, min_score=least, words_only=asked.words_only)
    if rerank:
        hits = reranked(query, hits, rerank, asked.rerank_depth)[: asked.k]
    if joined or rerank:
        hits = [hit for hit in hits if hit.score >= asked.min_score]
    if asked.picture or asked.open:
        show_marked(hits, asked.picture, asked.open)
    if as_json:
        damage = damage_of([index, *others])
        print_json(document(index, query, filters, hits, bool(asked.snippets), damage))
    else:
        snippets = sys.stdout.isatty() if asked.snippets is None else asked.snippets
        print_hits(
            index, query, hits, Shown(filters, asked.min_score, asked.words_only, asked.explain, snippets)
        )


def _sources(index: PageIndex, others: Sequence[PageIndex], asked: SearchOptions) -> list[Source]:
    """The index, its text layers where asked for, and other indexes: what is joined into one ranking."""
    from vsplade.search.fused_search import text_layer, whole

    own = [whole(index, asked.words_only), *([text_layer(index)] if asked.fuse else [])]
    return own + [whole(other, asked.words_only) for other in others]


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
