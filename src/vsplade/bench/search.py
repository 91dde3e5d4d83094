"""``vsplade bench search``: our index beside every engine that is installed, on one made-up corpus."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import vsplade
from vsplade.bench.corpus import CorpusSpec, make_queries
from vsplade.bench.postings import exact_top
from vsplade.bench.worker import ENGINES, unweighted
from vsplade.errors import InputError

ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def run_search_bench(
    pages: int,
    *,
    engines: Sequence[str] | None = None,
    ks: Sequence[int] = (10, 100),
    queries: int = 200,
    cap: float = 0.35,
    seed: int = 1,
    limit_s: float = 1800.0,
    peer_python: str | None = None,
    folder: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure engines one after the other, each alone in a process pinned to one processor.

    ``engines`` defaults to all that are installed. ``peer_python`` is an interpreter of another environment,
    for peers that cannot live beside this package; it needs numpy and numba. ``folder`` is where indexes are
    built (a temporary folder otherwise); each is removed before the next engine starts.
    """
    spec = CorpusSpec(pages, seed=seed, cap=cap)
    chosen = _chosen(engines, peer_python)
    if queries < 1 or not ks or min(ks) < 1:
        raise InputError("The benchmark needs at least one query and one k of at least 1.")
    with tempfile.TemporaryDirectory(dir=folder, prefix="vsplade-bench-") as work:
        oracles = _exact_answers(spec, queries, max(ks), Path(work), say)
        results: list[dict[str, Any]] = []
        failures: list[dict[str, str]] = []
        for name in chosen:
            task = {
                "engine": name,
                "spec": asdict(spec),
                "queries": queries,
                "ks": list(ks),
                **oracles["paths"],
            }
            rows, failure = _run_engine(task, Path(work), limit_s, peer_python)
            results += rows
            if failure:
                failures.append({"engine": name, "reason": failure})
                say(f"{name}: {failure}")
            for row in rows:
                say(format_row(row))
    return {
        "corpus": {**asdict(spec), "postings": oracles["postings"], "flops": oracles["flops"]},
        "queries": queries,
        "machine": _machine(),
        "results": results,
        "failures": failures,
    }


def format_row(row: dict[str, Any]) -> str:
    """One line for people."""
    recall = "   -  " if row["recall"] is None else f"{row['recall']:.4f}"
    return (
        f"{row['engine']:<14} k={row['k']:<4} mean {row['mean_ms']:8.3f} ms  p50 {row['p50_ms']:8.3f}  "
        f"p95 {row['p95_ms']:8.3f}  p99 {row['p99_ms']:8.3f}  processor {row['processor_ms']:8.3f}  "
        f"recall {recall}  build {row['build_s']:7.1f} s  {row['bytes'] / 2**20:8.1f} MiB  "
        f"RAM {row['ram_mb']:7.0f} MiB"
    )


_TIMES = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "processor_ms")


def to_markdown(report: dict[str, Any]) -> str:
    """The table of docs/benchmarks.md."""
    lines = [
        "| engine | k | mean ms | p50 | p95 | p99 | processor ms | recall | build s | MiB | RAM MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["results"]:
        recall = "-" if row["recall"] is None else f"{row['recall']:.4f}"
        times = " | ".join(f"{row[name]:.3f}" for name in _TIMES)
        lines.append(
            f"| {row['engine']} | {row['k']} | {times} | {recall} | {row['build_s']:.1f} | "
            f"{row['bytes'] / 2**20:.0f} | {row['ram_mb']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _chosen(engines: Sequence[str] | None, peer_python: str | None) -> list[str]:
    if engines is None:
        return [name for name in ENGINES if not _missing(name, peer_python)]
    for name in engines:
        if name not in ENGINES:
            raise InputError(f"There is no engine {name!r}; choose from: {', '.join(ENGINES)}.")
        missing = _missing(name, peer_python)
        if missing:
            raise InputError(
                f"Engine {name!r} needs {missing}, which is not installed: pip install it first."
            )
    return list(engines)


def _missing(name: str, peer_python: str | None) -> str:
    """What an engine lacks, in the environment that will run it; empty when it lacks nothing."""
    here = ENGINES[name].missing()
    if not here or peer_python is None:
        return ", ".join(here)
    program = (
        "import importlib.util, sys; print(*[m for m in sys.argv[1:] if not importlib.util.find_spec(m)])"
    )
    found = subprocess.run(
        [peer_python, "-c", program, *ENGINES[name].needs], capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise InputError(
            f"{peer_python} cannot be run as a Python interpreter: {found.stderr.strip()[-200:]}"
        )
    return found.stdout.strip()


def _exact_answers(
    spec: CorpusSpec, queries: int, k: int, work: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    start = time.perf_counter()
    asked = make_queries(spec, queries)
    oracle = exact_top(spec, asked + unweighted(asked), k)  # both in one pass over the corpus
    paths = {}
    for key, rows in (("oracle", slice(0, queries)), ("unweighted_oracle", slice(queries, None))):
        oracle.only(rows).save(work / f"{key}.npz")
        paths[key] = str(work / f"{key}.npz")
    say(
        f"{spec.pages:,} pages, {oracle.postings:,} postings, {queries} queries, "
        f"{oracle.flops:.3f} postings a page and query; exact answers in {time.perf_counter() - start:.0f} s"
    )
    return {"paths": paths, "postings": oracle.postings, "flops": oracle.flops}


def _run_engine(
    task: dict[str, Any], work: Path, limit_s: float, peer_python: str | None
) -> tuple[list[dict[str, Any]], str]:
    """(rows, why there are none)."""
    here = not ENGINES[task["engine"]].missing()
    python = sys.executable if here or peer_python is None else peer_python
    with tempfile.TemporaryDirectory(dir=work) as folder:
        (work / "task.json").write_text(json.dumps({**task, "folder": folder}))
        answer = work / "answer.json"
        answer.unlink(missing_ok=True)
        command = [python, "-m", "vsplade.bench.worker", str(work / "task.json"), str(answer)]
        try:
            done = subprocess.run(
                [*_pinned(ENGINES[task["engine"]].processors), *command],
                env=_environment(),
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [], f"stopped after {limit_s:.0f} s"
        if done.returncode or not answer.exists():
            return [], f"failed with exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        rows: list[dict[str, Any]] = json.loads(answer.read_text())["rows"]
        return rows, ""


def _pinned(count: int) -> list[str]:
    """Run on so many processors: the last ones, since the first one serves most interrupts."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    processors = sorted(os.sched_getaffinity(0))[-count:]
    pin = (
        "import os, sys; os.sched_setaffinity(0, set(map(int, sys.argv[1].split(',')))); "
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    return [sys.executable, "-c", pin, ",".join(map(str, processors))]


def _environment() -> dict[str, str]:
    source = str(Path(vsplade.__file__).parents[1])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": os.pathsep.join(paths)}


def _machine() -> dict[str, Any]:
    """The kind of machine, and how busy it was: a benchmark on a busy machine says little."""
    model = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # not Linux: the shorter name has to do
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "load_1m": load,
        "date": time.strftime("%Y-%m-%d"),
    }
