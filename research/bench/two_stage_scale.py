"""Does two-stage search pay? One index, searched in full and in two stages by turns, on a made-up corpus.

    python -m research.bench.two_stage_scale --pages 1000000 --answers exact.npz --out rows.jsonl
    python -m research.bench.two_stage_scale --pages 1000000 --answers exact.npz --out rows.jsonl --pisa

The second line times PISA in the same way, over all terms and over the 50 heaviest of a page, then rescored.
It may be run by another environment's interpreter: it needs numpy, numba and pyterrier-pisa. Recall is the
share of the exact top k, which the first line keeps in ``--answers``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.corpus import CorpusSpec, make_queries
from research.bench.engines import FIRST_STAGE_TERMS, Engine, VspladeIds, VspladeTwoStage
from research.bench.peers import Pisa, PisaTwoStage
from research.bench.worker import measure, summary
from vsplade.types import SparseVector

Row = dict[str, Any]
Answers = dict[int, list[list[int]]]
"""For every k the pages of each query."""


def told(pages: int) -> None:
    print(f"{pages:,} pages", file=sys.stderr, flush=True)


class SameIndex(VspladeIds):
    """Another way to search the index of an engine that is built already."""

    def __init__(self, built: VspladeTwoStage, plain: bool | None, times_k: int = 0) -> None:
        super().__init__()
        self._index, self._plain, self._times_k = built._index, plain, times_k
        self._ways: dict[int, Any] = {}

    def prepare(self, query: SparseVector, k: int) -> Any:
        from research.two_stage import TwoStage, TwoStageIndex

        if k not in self._ways:
            self._ways[k] = self._index
            if self._plain is not None:
                stages = TwoStage(FIRST_STAGE_TERMS, self._times_k * k, self._plain)
                self._ways[k] = TwoStageIndex(self._index, stages)
        return [query], k, self._ways[k]

    def search(self, prepared: Any) -> Any:
        queries, k, way = prepared
        (ranking,) = way.rank(queries, k)
        return self._index.page_ids(ranking)


def ours(spec: CorpusSpec, folder: Path) -> Iterator[tuple[str, Engine]]:
    built = VspladeTwoStage(told)
    built.build(spec, folder)
    yield "vsplade, full", SameIndex(built, None)
    yield "vsplade, two-stage, 50 terms shared out", SameIndex(built, False)
    yield "vsplade, two-stage, 50 terms shared out, 2 k proposed", SameIndex(built, False, 2)
    yield "vsplade, two-stage, plain top 50", SameIndex(built, True)


def theirs(spec: CorpusSpec, folder: Path) -> Iterator[tuple[str, Engine]]:
    for name, engine in (("PISA, two-stage, plain top 50", PisaTwoStage(told)), ("PISA, full", Pisa(told))):
        with tempfile.TemporaryDirectory(dir=folder) as work:
            engine.build(spec, Path(work))
            yield name, engine


def rows_of(
    name: str, engine: Engine, queries: list[SparseVector], ks: list[int], exact: Answers
) -> Iterator[Row]:
    for k in ks:
        milliseconds, found, processor = measure(engine, queries, k)
        right = exact.setdefault(k, found)
        shares = [len(set(a) & set(b)) / max(1, len(a)) for a, b in zip(right, found, strict=True)]
        times = {key: round(value, 4) for key, value in summary(milliseconds).items()}
        yield {"search": name, "k": k, **times, "processor_ms": round(processor, 4),
               "recall": round(float(np.mean(shares)), 4)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--answers", type=Path, required=True, help="the exact answers (.npz)")
    parser.add_argument("--out", type=Path, required=True, help="rows are added to this file (.jsonl)")
    parser.add_argument("--folder", type=Path, help="build here, not in the temporary folder")
    parser.add_argument("--pisa", action="store_true", help="time PISA")
    options = parser.parse_args()
    spec = CorpusSpec(options.pages)
    queries = make_queries(spec, options.queries)
    exact: Answers = {}
    if options.pisa:
        with np.load(options.answers, allow_pickle=False) as kept:
            exact = {k: kept[str(k)].tolist() for k in options.k}
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        for name, engine in (theirs if options.pisa else ours)(spec, Path(work)):
            for row in rows_of(name, engine, queries, options.k, exact):
                print(json.dumps(row), file=sys.stderr, flush=True)  # PISA writes its own lines to stdout
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    if not options.pisa:
        kept_pages: dict[str, Any] = {str(k): np.array(pages) for k, pages in exact.items()}
        np.savez(options.answers, **kept_pages)


if __name__ == "__main__":
    main()
