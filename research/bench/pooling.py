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

import argparse
import json
import subprocess
import sys
import time
from typing import Any


def measure(given: argparse.Namespace) -> dict[str, float]:
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
    chosen = torch.randperm(given.terms, generator=generator, device=device)[
        : int(given.active * given.terms)
    ]
    bias[chosen] = 0
    mask = torch.ones(given.pages, given.positions, dtype=torch.long, device=device)
    scale = given.width**-0.25
    for tensor in (features, weight):
        tensor.requires_grad_(given.backward)

    def pool() -> torch.Tensor:
        if given.variant != "naive":
            kernel = given.variant == "kernel"
            best = max_logits(features, weight, bias, mask, given.chunk, kernel)[0]
            return sparse_weights(best.float(), scale)
        logits = torch.nn.functional.linear(features, weight, bias)
        weights = torch.log1p(torch.relu(logits * scale)) * mask.unsqueeze(-1)
        return weights.amax(1).float()

    def run() -> None:
        features.grad = weight.grad = None
        pooled = pool()
        if given.backward:
            pooled.sum().backward()

    with torch.set_grad_enabled(given.backward):
        if given.variant == "kernel":
            run()  # compiled once
            features.grad = weight.grad = None
        torch.mm(weight[:256].detach(), weight[:256].detach().T)  # the library's own buffers are not counted
        base, peak = memory(
            run, device
        )  # first: freed memory that a process keeps would hide what a run takes
        times = [timed(run, device) for _ in range(given.repeats)]
    return {"milliseconds": 1000 * sorted(times)[len(times) // 2], "extra_mib": (peak - base) / 2**20}


def timed(run: object, device: object) -> float:
    import torch

    if device.type == "cuda":  # type: ignore[attr-defined]
        torch.cuda.synchronize()
    start = time.perf_counter()
    run()  # type: ignore[operator]
    if device.type == "cuda":  # type: ignore[attr-defined]
        torch.cuda.synchronize()
    return time.perf_counter() - start


def memory(run: object, device: object) -> tuple[float, float]:
    """Bytes before and at the peak; on a CPU the process's own high-water mark, reset first."""
    import torch

    if device.type == "cuda":  # type: ignore[attr-defined]
        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated()
        run()  # type: ignore[operator]
        return base, torch.cuda.max_memory_allocated()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    base = resident("VmRSS")
    run()  # type: ignore[operator]
    return base, resident("VmHWM")


def resident(name: str) -> float:
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) * 1024 for line in file if line.startswith(name))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in (
        ("pages", 16),
        ("positions", 1024),
        ("terms", 50_368),
        ("width", 768),
        ("repeats", 7),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--active", type=float, nargs="+", default=[0.01, 1.0])
    parser.add_argument("--device", default="")
    parser.add_argument("--chunk", type=int, default=0, help="terms at a time; 0: the default")
    parser.add_argument("--out", help="a JSON file for the results")
    parser.add_argument(
        "--variant", choices=("naive", "chunked", "kernel"), help="run one variant in this process"
    )
    parser.add_argument("--backward", action="store_true")
    given = parser.parse_args()
    import torch

    on_gpu = given.device != "cpu" and torch.cuda.is_available()
    if given.variant:
        given.active = given.active[0]
        print(json.dumps(measure(given)))
        return
    print(f"{given.pages} pages x {given.positions} positions x {given.terms} terms, width {given.width}")
    rows: list[dict[str, object]] = []
    for backward, active in [(False, given.active[0]), *((True, share) for share in given.active)]:
        label = f"forward+backward, {active:.0%} active" if backward else "forward"
        print(label, flush=True)
        row: dict[str, object] = {"what": label}
        rows.append(row)
        naive: dict[str, float] = {}
        for variant in ("naive", "chunked", "kernel") if on_gpu else ("naive", "chunked"):
            found = attempt(given, variant, backward, active, on_gpu)
            row[variant] = found
            naive = naive or found
            if "milliseconds" in found and "milliseconds" in naive:
                found["less_memory"] = naive["extra_mib"] / max(found["extra_mib"], 0.001)
                found["faster"] = naive["milliseconds"] / found["milliseconds"]
            print(f"  {variant}: {json.dumps(found)}", flush=True)
            write(given.out, rows)
    for variant, chunk in [("kernel", n) for n in (512, 1024, 2048, 4096, 8192)] if on_gpu else []:
        changed = argparse.Namespace(**{**vars(given), "chunk": chunk})
        found = attempt(changed, variant, False, given.active[0], on_gpu)
        print(f"forward, {chunk} terms at a time, {variant}: {json.dumps(found)}", flush=True)
        rows.append({"what": f"forward, {chunk} terms at a time", variant: found})
        write(given.out, rows)


def attempt(
    given: argparse.Namespace, variant: str, backward: bool, active: float, on_gpu: bool
) -> dict[str, Any]:
    """One that fails does not take the others' numbers with it."""
    try:
        return (here if on_gpu else child)(given, variant, backward, active)
    except Exception as error:
        if not on_gpu:
            raise
        return {"failed": f"{type(error).__name__}: {error}"[:600]}


def write(path: str | None, rows: list[dict[str, object]]) -> None:
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def here(given: argparse.Namespace, variant: str, backward: bool, active: float) -> dict[str, float]:
    """On a GPU torch itself counts the memory: no need for another process."""
    import torch

    found = measure(
        argparse.Namespace(**{**vars(given), "variant": variant, "backward": backward, "active": active})
    )
    torch.cuda.empty_cache()
    return found


def child(given: argparse.Namespace, variant: str, backward: bool, active: float) -> dict[str, float]:
    command = [sys.executable, __file__, "--variant", variant, "--active", str(active)]
    for name in ("pages", "positions", "terms", "width", "repeats", "chunk"):
        command += [f"--{name}", str(getattr(given, name))]
    command += ["--device", given.device] if given.device else []
    command += ["--backward"] if backward else []
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
