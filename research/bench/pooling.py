"""Pooling to the vocabulary against the naive way: time and peak memory of forward and backward.

    python -m research.bench.pooling                    # on a GPU: 16 pages x 1,024 positions x 50,368 terms
    python -m research.bench.pooling --pages 2 --positions 256 --terms 8192   # something a CPU can hold

Naive is what the public implementations do: all logits, activation, mask, maximum. ``chunked`` is ours with
torch's operations only, ``kernel`` (on a GPU) takes the maximum of each chunk in one pass. On a CPU each
variant runs in a process of its own, so that one's memory does not count for the other. ``--active`` is the
share of terms that get a gradient in the backward pass; a trained model has about 1 in 100, at the start of
training it is nearly all.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from research.bench.measured import Findings
from research.bench.paper_encoding import wait
from research.command import main, option

CHUNKS = (512, 1024, 2048, 4096, 8192)
"""Terms at a time, tried with the kernel."""


@dataclass(frozen=True)
class PoolingOptions:
    pages: int = option("Pages of a batch.", 16)
    positions: int = option("Of each page.", 1024)
    terms: int = option("Of the vocabulary.", 50_368)
    width: int = option("Of a position's vector.", 768)
    repeats: int = option("Runs; the middle one counts.", 7)
    active: tuple[float, ...] = option("Shares of terms that get a gradient.", (0.01, 1.0))
    device: str = option("As torch names it; default: a GPU where there is one.", "")
    chunk: int = option("Terms at a time; 0: the default.", 0)
    out: Path | None = option("A JSON file for the results.", None)


@dataclass(frozen=True)
class Variant:
    """One measurement."""

    name: str
    """``naive``, ``chunked`` or ``kernel``."""
    backward: bool
    active: float


def measure(given: PoolingOptions, variant: Variant) -> dict[str, float]:
    import torch

    from vsplade.encode.modernvbert.pooling import max_logits, sparse_weights

    device = torch.device(given.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    generator = torch.Generator(device).manual_seed(0)
    made = {"generator": generator, "device": device, "dtype": kind}
    features = torch.randn(given.pages, given.positions, given.width, **made)
    weight = 0.05 * torch.randn(given.terms, given.width, **made)
    # A bias that leaves as many terms above zero as asked for.
    bias = torch.full((given.terms,), -100.0).to(device, kind)
    order = torch.randperm(given.terms, generator=generator, device=device)
    bias[order[: int(variant.active * given.terms)]] = 0
    mask = torch.ones(given.pages, given.positions, dtype=torch.long, device=device)
    scale = given.width**-0.25
    for tensor in (features, weight):
        tensor.requires_grad_(variant.backward)

    def pool() -> torch.Tensor:
        if variant.name != "naive":
            best = max_logits(features, weight, bias, mask, given.chunk, variant.name == "kernel")[0]
            return sparse_weights(best.float(), scale)
        logits = torch.nn.functional.linear(features, weight, bias)
        return (torch.log1p(torch.relu(logits * scale)) * mask.unsqueeze(-1)).amax(1).float()

    def run() -> None:
        features.grad = weight.grad = None
        pooled = pool()
        if variant.backward:
            pooled.sum().backward()

    with torch.set_grad_enabled(variant.backward):
        if variant.name == "kernel":
            run()  # compiled once
            features.grad = weight.grad = None
        torch.mm(weight[:256].detach(), weight[:256].detach().T)  # the library's own buffers are not counted
        base, peak = memory(
            run, device
        )  # first: freed memory that a process keeps would hide what a run takes
        times = [timed(run, device) for _ in range(given.repeats)]
    return {"milliseconds": 1000 * sorted(times)[len(times) // 2], "extra_mib": (peak - base) / 2**20}


def timed(run: Callable[[], None], device: Any) -> float:
    wait(device)
    start = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - start


def memory(run: Callable[[], None], device: Any) -> tuple[float, float]:
    """Bytes before and at the peak; on a CPU the process's own high-water mark, reset first."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        run()
        return base, torch.cuda.max_memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")
    base = resident("VmRSS")
    run()
    return base, resident("VmHWM")


def resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def pooling(options: PoolingOptions) -> dict[str, Any]:
    """Pooling to the vocabulary against the naive way: time and peak memory of forward and backward."""
    import torch

    on_gpu = options.device != "cpu" and torch.cuda.is_available()
    findings = Findings(options.out)

    def attempt(given: PoolingOptions, variant: Variant) -> dict[str, float]:
        if on_gpu:  # torch itself counts the memory
            return measure(given, variant)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(measure, given, variant).result()

    for backward, active in [(False, options.active[0]), *((True, share) for share in options.active)]:
        label = f"forward+backward, {active:.0%} active" if backward else "forward"
        for name in ("naive", "chunked", "kernel") if on_gpu else ("naive", "chunked"):
            findings.step(f"{label}, {name}", lambda: attempt(options, Variant(name, backward, active)))  # noqa: B023
        compare(findings, label)
    for chunk in CHUNKS if on_gpu else ():
        given = replace(options, chunk=chunk)
        kernel = Variant("kernel", False, options.active[0])
        findings.step(f"forward, {chunk} terms at a time", lambda: attempt(given, kernel))  # noqa: B023
    return findings


def compare(findings: Findings, label: str) -> None:
    """How much faster than the naive way, or than chunked where that does not fit into memory."""
    named = [(name, row) for name, row in findings.items() if name.startswith(f"{label}, ")]
    rows: dict[str, dict[str, float]] = {name: row for name, row in named if "failed" not in row}
    for name, row in rows.items():
        first = next(iter(rows.values()))
        less, faster = (first[key] / max(row[key], 0.001) for key in ("extra_mib", "milliseconds"))
        findings.add(name, {**row, "less_memory": less, "faster": faster})


if __name__ == "__main__":
    main(pooling, PoolingOptions)
