"""Indexes built apart: what building and joining them costs; a search over them beside one over the joined.

python -m research.bench.joining --pages 10000000 --parts 10 --folder DIR --json      # 58 GB in DIR
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from research.bench.corpus import CorpusSpec, generate, make_queries, page_facts
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
    spec = CorpusSpec(options.pages, piece_pages=min(50_000, -(-options.pages // options.parts)))
    where = Path(tempfile.mkdtemp(prefix="joining-", dir=options.folder))
    try:
        parts = [where / f"part{number}" for number in range(options.parts)]
        build_s = sum(_build(spec, part, number, options.parts) for number, part in enumerate(parts))
        started, wall = time.process_time(), time.perf_counter()
        with OwnMemory() as memory:
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
            "join_own_mib": memory.most,
            **_search(spec, parts, where / "joined", options.queries),
        }
    finally:
        shutil.rmtree(where)


def _build(spec: CorpusSpec, folder: Path, number: int, parts: int) -> float:
    """Processor seconds of the index's own work."""
    seconds = 0.0
    with IndexWriter(folder, EncoderIdentity("made-up", "made-up", spec.vocabulary)) as writer:
        # Every ``parts``-th piece of the corpus is of this part.
        for piece in generate(spec, numbers=range(number, spec.pieces, parts)):
            batch = list(piece.vectors())
            started = time.process_time()
            for page, vector in batch:
                writer.add(f"p{page}", vector, page_facts(page))
            seconds += time.process_time() - started
        started = time.process_time()
        writer.commit()
    return seconds + time.process_time() - started


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
        told[f"search_{name}_p50_ms"] = _median_ms(index, queries)
        answers.append([[(hit.id, hit.score) for hit in hits] for hits in found])
    return {**told, "equal": answers[0] == answers[1]}


def _median_ms(index: Index, queries: Sequence[SparseVector]) -> float:
    """Of processor time: on a busy machine wall times tell how long a query waited."""
    times = []
    for query in queries:
        started = time.process_time()
        index.search(query, 10)
        times.append(time.process_time() - started)
    return float(np.median(times)) * 1000


class OwnMemory:
    """The most memory that this process has of its own while it works; mapped files are left out."""

    def __enter__(self) -> OwnMemory:
        self.most = _own_mib()
        self._done = Event()
        self._thread = Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.02):
            self.most = max(self.most, _own_mib())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _own_mib() -> float:
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1024


if __name__ == "__main__":
    main(bench, JoiningOptions)
