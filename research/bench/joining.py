"""Indexes built apart: what joining them costs, and a search over several beside one over the joined."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.corpus import CorpusSpec, generate, make_queries
from research.bench.engines import folder_bytes
from research.command import main, option
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.join_indexes import join_indexes
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

ROUNDS = 5


@dataclass(frozen=True)
class JoiningOptions:
    """``python -m research.bench.joining``"""

    pages: int = option("Pages in all.", 100_000)
    parts: int = option("Indexes that are joined.", 2)
    queries: int = option("Queries to run.", 200)
    folder: Path | None = option("Build here (6 kB a page), not in the temporary folder.", None)


def bench(options: JoiningOptions) -> dict[str, Any]:
    """Build indexes apart, join them, and search both ways. Times are processor times, of one thread."""
    spec = CorpusSpec(options.pages)
    where = Path(tempfile.mkdtemp(prefix="joining-", dir=options.folder))
    try:
        parts = [where / f"part{number}" for number in range(options.parts)]
        build_s = sum(_build(spec, part, number, options.parts) for number, part in enumerate(parts))
        before, started, wall = _peak_mib(), time.process_time(), time.perf_counter()
        pages, segments = join_indexes(parts, where / "joined")
        join_s, join_wall_s = time.process_time() - started, time.perf_counter() - wall
        size = folder_bytes(where / "joined")
        return {
            "pages": pages,
            "segments": segments,
            "bytes": size,
            "build_s": build_s,
            "join_s": join_s,
            "join_wall_s": join_wall_s,
            "join_bytes_per_s": size / join_s,
            "peak_mib_before_and_after": [before, _peak_mib()],
            **_search(spec, parts, where / "joined", options.queries),
        }
    finally:
        shutil.rmtree(where)


def _build(spec: CorpusSpec, folder: Path, number: int, parts: int) -> float:
    """Processor seconds of the index's own work."""
    seconds = 0.0
    with IndexWriter(folder, EncoderIdentity("made-up", "made-up", spec.vocabulary)) as writer:
        for batch in _pages(spec, number, parts):
            started = time.process_time()
            for page, vector in batch:
                writer.add(f"p{page}", vector, {"doc_id": f"d{page // 20}", "page_num": page % 20 + 1})
            seconds += time.process_time() - started
        started = time.process_time()
        writer.commit()
    return seconds + time.process_time() - started


def _pages(spec: CorpusSpec, number: int, parts: int) -> Iterator[list[tuple[int, SparseVector]]]:
    """Every ``parts``-th page is of part ``number``."""
    for piece in generate(spec):
        rows = range((number - piece.first_page) % parts, len(piece), parts)
        spans = ((row, slice(int(piece.offsets[row]), int(piece.offsets[row + 1]))) for row in rows)
        yield [
            (piece.first_page + row, SparseVector(piece.terms[span], piece.weights[span]))
            for row, span in spans
        ]


def _search(spec: CorpusSpec, parts: Sequence[Path], joined: Path, count: int) -> dict[str, Any]:
    """Opening, and a query at k = 10, over the parts and over the joined index; the best of a few rounds."""
    queries = make_queries(spec, count)
    told: dict[str, Any] = {}
    answers = []
    for name, where in (("several", parts), ("joined", [joined])):
        started = time.process_time()
        index = Index.open(where, engine="numba")
        told[f"open_{name}_s"] = time.process_time() - started
        index.warm_up()
        rounds = []
        for _ in range(ROUNDS):
            started = time.process_time()
            found = [index.search(query, 10) for query in queries]
            rounds.append((time.process_time() - started) / count * 1000)
        told[f"search_{name}_ms"] = float(np.min(rounds))
        answers.append([[(hit.id, hit.score) for hit in hits] for hits in found])
    return {**told, "equal": answers[0] == answers[1]}


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(bench, JoiningOptions)
