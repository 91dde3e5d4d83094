"""Does an engine give the results of the index in a folder? Writes one corpus to both, and compares.

    python -m research.bench.backends --address milvus://bench.db/pages --pages 100000

A query agrees where every score of its top k is that of the folder up to rounding, and every page is, but for
those whose scores are equal up to rounding to the last one.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.bench.corpus import CorpusSpec, generate, make_queries
from research.bench.measured import say
from research.command import main, option
from vsplade.backends.address import Where
from vsplade.backends.open_writer import open_writer
from vsplade.search.hits import Hit
from vsplade.search.open_index import open_index
from vsplade.store.identity import EncoderIdentity
from vsplade.types import SparseVector

ROUNDING = 2e-6
"""Of a sum of a dozen products in float32, as a share of it."""


@dataclass(frozen=True)
class BackendsOptions:
    address: str = option("where the engine's index is; it must not exist yet")
    pages: int = option("pages of the corpus", 100_000)
    queries: int = option("queries that are compared", 200)
    k: int = option("results a query", 10)


def compare(options: BackendsOptions) -> dict[str, Any]:
    spec = CorpusSpec(options.pages, piece_pages=min(options.pages, 5000))
    queries = make_queries(spec, options.queries)
    folder = Path(tempfile.mkdtemp(prefix="vsplade-backends-"))
    try:
        ours = _measure(folder / "index", spec, queries, options.k)
        theirs = _measure(options.address, spec, queries, options.k)
    finally:
        shutil.rmtree(folder)
    pairs = list(zip(theirs.pop("answers"), ours.pop("answers"), strict=True))
    return {
        "pages": options.pages,
        "k": options.k,
        "queries": len(queries),
        "agree": sum(agree(found, expected) for found, expected in pairs),
        "same_order": sum([a.id for a in found] == [b.id for b in expected] for found, expected in pairs),
        "largest_difference": max(
            (
                abs(a.score - b.score) / b.score
                for found, expected in pairs
                for a, b in zip(found, expected, strict=False)
            ),
            default=0.0,
        ),
        "folder": ours,
        "engine": {"address": options.address, **theirs},
    }


def _measure(place: Where, spec: CorpusSpec, queries: Sequence[SparseVector], k: int) -> dict[str, Any]:
    started = time.perf_counter()
    with open_writer(place, EncoderIdentity("bench", "1", spec.vocabulary)) as writer:
        for piece in generate(spec):
            for page, vector in piece.vectors():
                writer.add(f"p{page}", vector, {"page_num": page})
            say(f"{place}: {piece.first_page + len(piece):,} pages")
    write_s = time.perf_counter() - started
    index = open_index(place)
    index.search(queries[0], k)
    answers, milliseconds = [], []
    for query in queries:
        start_s = time.perf_counter()
        answers.append([Hit(hit.id, hit.score, "", 1, {}) for hit in index.search(query, k)])
        milliseconds.append(1000 * (time.perf_counter() - start_s))
    return {
        "answers": answers,
        "write_s": round(write_s, 1),
        "p50_ms": round(statistics.median(milliseconds), 2),
    }


def agree(found: Sequence[Hit], expected: Sequence[Hit]) -> bool:
    if len(found) != len(expected):
        return False
    scores = {hit.id: hit.score for hit in expected}
    last = expected[-1].score if expected else 0.0
    return all(
        abs(mine.score - theirs.score) <= ROUNDING * theirs.score
        and abs(scores.get(mine.id, last) - mine.score) <= ROUNDING * mine.score
        for mine, theirs in zip(found, expected, strict=True)
    )


if __name__ == "__main__":
    main(compare, BackendsOptions)
