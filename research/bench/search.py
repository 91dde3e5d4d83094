"""Our index beside every engine that is installed, on one made-up corpus."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import vsplade
from research.bench.corpus import CorpusSpec, Tell, make_queries
from research.bench.postings import exact_top
from research.bench.worker import ENGINES, unweighted
from research.command import main, option
from vsplade.cli.common import note
from vsplade.errors import InputError

ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
HALF_AN_HOUR = 1800.0
PROGRESS_EVERY_S = 20.0
BYTES_A_POSTING = 10.0
"""Of our index on disk: 3.4 to search, 6 to rescore, ids and metadata."""


@dataclass(frozen=True)
class SearchOptions:
    """``python -m research.bench.search``"""

    pages: int = option("Corpus size.", 100_000)
    engine: tuple[str, ...] = option("Measure this engine only; default: all that are installed.", ())
    k: tuple[int, ...] = option("Results a query.", (10, 100))
    queries: int = option("Queries to run.", 200)
    cap: float = option("The share of the pages that the commonest term is in.", 0.35)
    seed: int = option("Another seed, another corpus.", 1)
    limit: float | None = option(
        "Give up on an engine after so many seconds; default: half an hour for every million pages.", None
    )
    peer_python: str | None = option(
        "The interpreter of another environment, for peers that cannot be installed beside vsplade.", None
    )
    folder: Path | None = option("Build the indexes here (3 kB a page), not in the temporary folder.", None)


def bench(options: SearchOptions) -> dict[str, Any]:
    """Generate a corpus, and search it with vsplade and with every other engine that is installed.

    Each engine runs alone, in a process of its own, on one thread. With --json: everything, on stdout.
    """
    return run_search_bench(options, note, note)


def run_search_bench(
    options: SearchOptions,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure engines one after the other, each alone in a process pinned to one processor.

    ``say`` gets the results, ``progress`` a line now and then while one waits for them. The index of an
    engine is removed before the next one starts. Another environment for peers needs numpy and numba.
    """
    spec = CorpusSpec(options.pages, seed=options.seed, cap=options.cap)
    chosen = _chosen(options.engine, options.peer_python)
    if options.queries < 1 or not options.k or min(options.k) < 1:
        raise InputError("The benchmark needs at least one query and one k of at least 1.")
    limit_s = options.limit or HALF_AN_HOUR * max(1.0, options.pages / 1_000_000)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="vsplade-bench-") as work:
        _check_space(Path(work), spec, chosen)
        oracles = _exact_answers(spec, options.queries, max(options.k), chosen, Path(work), say, progress)
        shared = {"spec": asdict(spec), "queries": options.queries, "ks": options.k, **oracles["paths"]}
        results: list[dict[str, Any]] = []
        failures: list[dict[str, str]] = []
        for name in chosen:
            task = {"engine": name, **shared}
            rows, failure = _run_engine(task, Path(work), limit_s, options.peer_python, progress)
            results += rows
            if failure:
                failures.append({"engine": name, "reason": failure})
                say(f"{name}: {failure}")
            for row in rows:
                say(format_row(row))
                if f"qps_k{row['k']}_threads2" in row:
                    say(format_threads(row))
    return {
        "corpus": {**asdict(spec), "postings": oracles["postings"], "flops": oracles["flops"]},
        "queries": options.queries,
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
        f"RAM {row['ram_mb']:7.0f} MiB, peak {row['peak_ram_mb']:.0f}"
    )


def format_threads(row: dict[str, Any]) -> str:
    """What two threads give."""
    parts = []
    for kind, key in (("best", "qps"), ("median", "median_qps")):
        one, two = (row[f"{key}_k{row['k']}_threads{threads}"] for threads in (1, 2))
        parts.append(f"{kind} {one:,.0f} queries a second on one thread, {two:,.0f} on two: {two / one:.2f}x")
    return f"{row['engine']:<14} k={row['k']:<4} " + "; ".join(parts)


_TIMES = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "processor_ms")


def to_markdown(report: dict[str, Any]) -> str:
    """The table of docs/benchmarks.md."""
    lines = [
        "| engine | k | mean ms | p50 | p95 | p99 | processor ms | recall | build s | MiB | RAM MiB | peak |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["results"]:
        recall = "-" if row["recall"] is None else f"{row['recall']:.4f}"
        times = " | ".join(f"{row[name]:.3f}" for name in _TIMES)
        lines.append(
            f"| {row['engine']} | {row['k']} | {times} | {recall} | {row['build_s']:.1f} | "
            f"{row['bytes'] / 2**20:.0f} | {row['ram_mb']:.0f} | {row['peak_ram_mb']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _chosen(engines: Sequence[str], peer_python: str | None) -> list[str]:
    if not engines:
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


def _check_space(work: Path, spec: CorpusSpec, engines: Sequence[str]) -> None:
    """Better now than after half an hour."""
    if not any(name.startswith("vsplade") for name in engines):
        return
    needed, free = BYTES_A_POSTING * spec.pages * spec.mean_terms, shutil.disk_usage(work).free
    if needed > free:
        raise InputError(
            f"{work.parent}: the index of {spec.pages:,} pages takes about {needed / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free here. Name a folder on a larger disk with --folder."
        )


def _progress_of(what: str, spec: CorpusSpec, progress: Callable[[str], None]) -> Tell:
    """Says every so often how far something is."""
    start = said = time.monotonic()

    def tell(pages: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= PROGRESS_EVERY_S and pages:
            said = now
            left = (now - start) * (spec.pages - pages) / pages
            ahead = f"about {left:.0f} s left" if left else "now measuring"
            progress(f"{what}: {pages:,} of {spec.pages:,} pages after {now - start:.0f} s, {ahead}")

    return tell


def _exact_answers(
    spec: CorpusSpec,
    queries: int,
    k: int,
    engines: Sequence[str],
    work: Path,
    say: Callable[[str], None],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    start = time.perf_counter()
    asked = make_queries(spec, queries)
    wanted = [("oracle", slice(0, queries))]
    if not all(ENGINES[name].weighs_queries for name in engines):
        asked = asked + unweighted(asked)  # both in one pass over the corpus
        wanted.append(("unweighted_oracle", slice(queries, None)))
    oracle = exact_top(spec, asked, k, _progress_of("exact answers", spec, progress))
    paths = {}
    for key, rows in wanted:
        oracle.only(rows).save(work / f"{key}.npz")
        paths[key] = str(work / f"{key}.npz")
    say(
        f"{spec.pages:,} pages, {oracle.postings:,} postings, {queries} queries, "
        f"{oracle.flops:.3f} postings a page and query; exact answers in {time.perf_counter() - start:.0f} s"
    )
    return {"paths": paths, "postings": oracle.postings, "flops": oracle.flops}


def _run_engine(
    task: dict[str, Any],
    work: Path,
    limit_s: float,
    peer_python: str | None,
    progress: Callable[[str], None],
) -> tuple[list[dict[str, Any]], str]:
    """(rows, why there are none)."""
    here = not ENGINES[task["engine"]].missing()
    python = sys.executable if here or peer_python is None else peer_python
    with tempfile.TemporaryDirectory(dir=work) as folder:
        told, output, answer = work / "told", work / "output.txt", work / "answer.json"
        for left_over in (told, answer):
            left_over.unlink(missing_ok=True)
        (work / "task.json").write_text(json.dumps({**task, "folder": folder, "told": str(told)}))
        command = [python, "-m", "research.bench.worker", str(work / "task.json"), str(answer)]
        tell = _progress_of(task["engine"], CorpusSpec(**task["spec"]), progress)
        with open(output, "wb") as file:
            process = subprocess.Popen(
                [*_pinned(ENGINES[task["engine"]].processors), *command],
                env=_environment(),
                stdout=file,
                stderr=file,
            )
            if not _finished(process, limit_s, lambda: tell(_number_in(told))):
                return [], f"stopped after {limit_s:.0f} s"
        if process.returncode or not answer.exists():
            said = output.read_text(errors="replace").strip()
            return [], f"failed with exit code {process.returncode}: {said[-500:]}"
        rows: list[dict[str, Any]] = json.loads(answer.read_text())["rows"]
        return rows, ""


def _finished(process: subprocess.Popen[bytes], limit_s: float, look: Callable[[], None]) -> bool:
    """Wait for the process, looking now and then; after ``limit_s``, or ctrl-C, it is killed."""
    end = time.monotonic() + limit_s
    try:
        while process.poll() is None and time.monotonic() < end:
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(1.0, max(0.0, end - time.monotonic())))
            look()
        return process.poll() is not None
    finally:
        process.kill()
        process.wait()


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:  # nothing to tell yet
        return 0


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
    here = [str(Path(vsplade.__file__).parents[1]), str(Path(__file__).parents[2])]
    paths = [*here, *filter(None, [os.environ.get("PYTHONPATH")])]
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


if __name__ == "__main__":
    main(bench, SearchOptions)
