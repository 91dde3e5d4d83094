"""One engine in a process of its own: ``python -m research.bench.worker TASK.json ANSWER.json``.

A process of its own, because engines must not share memory, threads or caches, and because one that fails or
takes too long must not take the others with it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from research.bench.corpus import CorpusSpec, make_queries
from research.bench.engines import Engine, Scipy, Stream, Vsplade, VspladeBatch, VspladeIds, VspladeTwoStage
from research.bench.peers import Bm25s, Pisa, PisaTwoStage, Qdrant, Seismic
from research.bench.postings import Oracle
from vsplade.types import SparseVector

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Vsplade,
        VspladeIds,
        VspladeBatch,
        VspladeTwoStage,
        Stream,
        Pisa,
        PisaTwoStage,
        Qdrant,
        Seismic,
        Bm25s,
        Scipy,
    )
}


def measure(
    engine: Engine, queries: list[SparseVector], k: int
) -> tuple[list[float], list[list[int]], float]:
    """Milliseconds and pages of each query, one after the other, after one pass that is not timed.

    Also the mean processor time in milliseconds, all threads together: on a machine that does other work too,
    waiting for a processor makes the first number larger and leaves this one alone.
    """
    prepared = [engine.prepare(query, k) for query in queries]
    for query in prepared:
        engine.search(query)
    milliseconds, found, busy = [], [], 0.0
    for query in prepared:
        busy_before, start = time.process_time(), time.perf_counter()
        answer = engine.search(query)
        milliseconds.append((time.perf_counter() - start) * 1000)
        busy += time.process_time() - busy_before
        found.append(list(engine.pages(answer)))
    return milliseconds, found, busy * 1000 / len(queries)


def summary(milliseconds: list[float]) -> dict[str, float]:
    values = np.array(milliseconds)
    p50, p95, p99 = np.quantile(values, [0.5, 0.95, 0.99])
    return {"mean_ms": float(values.mean()), "p50_ms": float(p50), "p95_ms": float(p95), "p99_ms": float(p99)}


def unweighted(queries: list[SparseVector]) -> list[SparseVector]:
    return [SparseVector(query.terms, np.ones(len(query), dtype=np.float32)) for query in queries]


def run_task(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Build, then measure every k."""
    spec = CorpusSpec(**task["spec"])

    def tell(pages: int) -> None:
        if "told" in task:  # a file in which the process that waits for us reads how far we are
            Path(task["told"]).write_text(str(pages))

    engine = ENGINES[task["engine"]](tell)
    queries = make_queries(spec, task["queries"])
    if not engine.weighs_queries:
        queries = unweighted(queries)
    oracle = Oracle.load(Path(task["oracle" if engine.weighs_queries else "unweighted_oracle"]))
    build_s = engine.build(spec, folder)
    rows = []
    for k in task["ks"]:
        milliseconds, found, processor_ms = measure(engine, queries, k)
        recall = oracle.recall(found, k) if engine.measures_recall else None
        times = {**summary(milliseconds), "processor_ms": processor_ms}
        rows.append({"engine": engine.name, "k": k, **times, "recall": recall})
    shared = {
        "build_s": build_s,
        "bytes": engine.bytes(),
        "ram_mb": _resident_mb(),
        "peak_ram_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "note": engine.note,
        **engine.extra(),
    }
    return {"rows": [{**row, **shared} for row in rows]}


def _resident_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux: the peak, in the row beside this one, has to do
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    task_path, answer_path = map(Path, sys.argv[1:3])
    task = json.loads(task_path.read_text())
    answer = run_task(task, Path(task["folder"]))
    answer_path.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
