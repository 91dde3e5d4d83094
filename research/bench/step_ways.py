"""Which ways to make a training step faster pay: each in turn on one batch, with its peak of memory.

    python -m research.bench.step_ways --work FOLDER --out ways.json     # on a GPU: 42 pages with captions
    python -m research.bench.step_ways --small --batch 2 --out small.json     # the same on a CPU, tiny

``research.bench.paper_step`` says what a step is. The useful work of a step is a forward pass and as much
back (frozen weights get no gradient); a frozen vision tower has its forward pass only. The most wanted ways
come first, and none is begun after ``--limit`` seconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.bench.full_size import write_model
from research.bench.paper_encoding import kernel_shares, wait
from research.bench.paper_step import COUNTED, H200, Facts, first_pairs, product_flops, write_pairs
from vsplade.train.fast_layers import FastLayers, Speed

START = time.monotonic()


@dataclass(frozen=True)
class Way:
    name: str
    vision: bool
    """Adapters in the vision tower, too."""
    speed: Speed
    checkpointing: bool = True
    profile: bool = False


WAYS = (
    Way("frozen eyes, own passes, activations kept", False, Speed(), False, True),
    Way("frozen eyes, own passes, checkpointing", False, Speed()),
    Way("frozen eyes, transformers, checkpointing", False, Speed(own_passes=False)),
    Way("frozen eyes, own passes, activations kept, compiled", False, Speed(compile=True), False, True),
    Way("adapted eyes, own text pass, 3 layers kept", True, Speed(kept=3), True, True),
    Way(
        "adapted eyes, own text pass, 3 layers kept, compiled", True, Speed(kept=3, compile=True), True, True
    ),
    Way("adapted eyes, transformers, checkpointing (as measured before)", True, Speed(own_passes=False)),
)


def counted(trainer: Any, batch: Any) -> tuple[float, float]:
    """TFLOP a pair of a forward pass, and the vision tower's share of them; by transformers' layers."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    few = first_pairs(batch, COUNTED).to(trainer.device)
    found = []
    kept, trainer.fast = trainer.fast, plain(trainer)
    works: tuple[Callable[[], object], ...] = (
        lambda: trainer.losses(few),
        lambda: trainer.model.see(trainer._pixels(few.tiles)),
    )
    for work in works:
        with (
            FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: product_flops}) as counter,
            torch.no_grad(),
            trainer._autocast(),
        ):
            work()
        found.append(counter.get_total_flops() / COUNTED / 1e12)
    trainer.fast = kept
    return found[0], found[1]


def plain(trainer: Any) -> FastLayers:
    return fast(trainer, Speed(own_passes=False), True)


def fast(trainer: Any, speed: Speed, checkpointing: bool) -> FastLayers:
    import torch

    body = trainer.model.body
    if checkpointing:
        body.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        body.gradient_checkpointing_disable()
    kind = torch.bfloat16 if trainer.config.precision == "bfloat16" else torch.float32
    return FastLayers(trainer.model, speed, kind, checkpointing, trainer.settings)


def tried(trainer: Any, batch: Any, way: Way, repeats: int) -> dict[str, Any]:
    import torch

    on_gpu = trainer.device.type == "cuda"
    trainer.fast = fast(trainer, way.speed, way.checkpointing)
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times, facts = [], {}
    for _ in range(1 + repeats):
        wait(trainer.device)
        start = time.perf_counter()
        facts = trainer.advance([batch])
        wait(trainer.device)
        times.append(time.perf_counter() - start)
    found: dict[str, Any] = {"first_ms": 1000 * times[0], "step_ms": 1000 * sorted(times[1:])[repeats // 2]}
    found |= {"loss": facts["loss"]}
    if on_gpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        if way.profile:
            shares, longest = kernel_shares(lambda: trainer.advance([batch]), 1)
            found |= {"kernel_ms": shares, "longest_kernels_ms": longest}
    return found


def trainer_for(given: argparse.Namespace, vision: bool) -> Any:
    from vsplade.train.loop import Run, Trainer
    from vsplade.train.pairs import FolderPairs
    from vsplade.train.training_config import load_config

    work = Path(given.work)
    model = write_model(work / ("small" if given.small else "model"), given.small)
    pairs = write_pairs(work / "pages", given.pages, given.workers)
    config: Any = load_config("quality", {"batch": given.batch, "lora_vision": vision})
    run = Run(model, work / "run", threads=given.workers, speed=Speed(own_passes=False))
    return Trainer(config, run, FolderPairs(pairs, True))


def measure(given: argparse.Namespace) -> None:
    keep = Facts(Path(given.out)).add
    trainer, batch, work = None, None, (0.0, 0.0)
    for way in [way for way in WAYS if way.speed.compile == given.compiled]:
        if time.monotonic() - START > given.limit:
            keep(**{way.name: "no time left"})
            continue
        if trainer is None or trainer.config.lora_vision != way.vision:
            del trainer  # its memory
            trainer = trainer_for(given, way.vision)
            batch = batch or trainer.loader.make(0)
            work = counted(trainer, batch)
            keep(**{f"forward_tflop, adapted eyes: {way.vision}": [given.batch * part for part in work]})
        whole, eyes = (given.batch * part for part in work)
        useful = 2 * whole if way.vision else 2 * whole - eyes
        try:
            found = tried(trainer, batch, way, given.repeats)
            found |= {"useful_tflop": useful, "mfu": useful / found["step_ms"] * 1000 / H200}
        except Exception as error:  # the other ways are worth having all the same
            found = {"failed": f"{type(error).__name__}: {error}"[:600]}
            trainer.optimizer.zero_grad(set_to_none=True)
        keep(**{way.name: found})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=42)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pages", type=int, default=96, help="pages drawn")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try this on a CPU")
    parser.add_argument("--compiled", action="store_true", help="the compiled ways instead of the others")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which no way is begun")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    given.work = given.work or tempfile.mkdtemp()
    measure(given)


if __name__ == "__main__":
    main()
