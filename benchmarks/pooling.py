"""Pooling to the vocabulary, chunked against naive: time and peak memory of forward and backward.

    python benchmarks/pooling.py                    # on a GPU: 16 pages x 1,024 positions x 50,368 terms
    python benchmarks/pooling.py --pages 2 --positions 256 --terms 8192   # something a CPU can hold

Naive is what the public implementations do: all logits, activation, mask, maximum. On a CPU each variant runs
in a process of its own, so that one's memory does not count for the other. ``--active`` is the share of terms
that get a gradient in the backward pass; a trained model has about 1 in 100, at the start of training it is
nearly all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time


def measure(given: argparse.Namespace) -> dict[str, float]:
    import torch

    from vsplade.encode.modernvbert.pooling import max_logits, sparse_weights

    device = torch.device(given.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(given.pages, given.positions, given.width, generator=generator).to(device, kind)
    weight = (0.05 * torch.randn(given.terms, given.width, generator=generator)).to(device, kind)
    # A bias that leaves as many terms above zero as asked for.
    bias = torch.full((given.terms,), -100.0).to(device, kind)
    bias[torch.randperm(given.terms, generator=generator)[: int(given.active * given.terms)].to(device)] = 0
    mask = torch.ones(given.pages, given.positions, dtype=torch.long, device=device)
    scale = given.width**-0.25
    for tensor in (features, weight):
        tensor.requires_grad_(given.backward)

    def pool() -> torch.Tensor:
        if given.variant == "chunked":
            return sparse_weights(max_logits(features, weight, bias, mask, given.chunk)[0].float(), scale)
        logits = torch.nn.functional.linear(features, weight, bias)
        weights = torch.log1p(torch.relu(logits * scale)) * mask.unsqueeze(-1)
        return weights.amax(1).float()

    def run() -> None:
        features.grad = weight.grad = None
        pooled = pool()
        if given.backward:
            pooled.sum().backward()

    with torch.set_grad_enabled(given.backward):
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
        ("repeats", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--active", type=float, nargs="+", default=[0.01, 1.0])
    parser.add_argument("--device", default="")
    parser.add_argument("--chunk", type=int, default=0, help="terms at a time; 0: the default")
    parser.add_argument("--out", help="a JSON file for the results")
    parser.add_argument("--variant", choices=("naive", "chunked"), help="run one variant in this process")
    parser.add_argument("--backward", action="store_true")
    given = parser.parse_args()
    import torch

    on_gpu = given.device != "cpu" and torch.cuda.is_available()
    if given.variant:
        given.active = given.active[0]
        print(json.dumps(measure(given)))
        return
    print(f"{given.pages} pages x {given.positions} positions x {given.terms} terms, width {given.width}")
    print(f"{'':28}{'naive':>22}{'chunked':>22}{'less memory':>14}{'faster':>9}")
    rows: list[dict[str, object]] = []
    for backward, active in [(False, given.active[0]), *((True, share) for share in given.active)]:
        one = here if on_gpu else child
        found = {variant: one(given, variant, backward, active) for variant in ("naive", "chunked")}
        naive, ours = found["naive"], found["chunked"]
        label = f"forward+backward, {active:.0%} active" if backward else "forward"
        cells = [f"{each['milliseconds']:.1f} ms {each['extra_mib']:.0f} MiB" for each in (naive, ours)]
        less = naive["extra_mib"] / max(ours["extra_mib"], 0.001)
        faster = naive["milliseconds"] / ours["milliseconds"]
        print(f"{label:28}{cells[0]:>22}{cells[1]:>22}{less:>13.1f}x{faster:>8.2f}x", flush=True)
        rows.append({"what": label, **found, "less_memory": less, "faster": faster})
        write(given.out, rows)
    if on_gpu:
        for chunk in (512, 1024, 2048, 4096, 8192):
            ours = here(
                argparse.Namespace(**{**vars(given), "chunk": chunk}), "chunked", False, given.active[0]
            )
            print(f"forward, {chunk} terms at a time: {ours}", flush=True)
            rows.append({"what": f"forward, {chunk} terms at a time", "chunked": ours})
            write(given.out, rows)


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
