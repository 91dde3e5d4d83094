"""Which ways to make a training step faster pay: each in turn on one batch, with its peak of memory.

    python -m research.bench.step_ways --work FOLDER --out ways.json     # on a GPU: 42 pages with captions
    python -m research.bench.step_ways --small --batch 2 --out small.json     # the same on a CPU, tiny

``research.bench.paper_step`` says what a step is. The useful work of a step is a forward pass and as much
back (frozen weights get no gradient); a frozen vision tower has its forward pass only. The most wanted ways
come first, and none is begun after ``--limit`` seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.bench.full_size import write_model
from research.bench.paper_encoding import kernel_shares, wait
from research.bench.paper_step import COUNTED, H200, Facts, first_pairs, product_flops, write_pairs
from research.paper.fast_layers import Speed, fast_passes
from vsplade.encode.modernvbert import tower
from vsplade.train.passes import Passes

START = time.monotonic()


@dataclass(frozen=True)
class Way:
    name: str
    vision: bool
    """Adapters in the vision tower, too."""
    speed: Speed
    checkpointing: bool = True
    profile: bool = False
    tiles: int = 208
    """That the vision tower sees at a time."""


WAYS = (
    Way("frozen eyes, without padding, activations kept", False, Speed(), False, True),
    Way("the same, 104 tiles at a time", False, Speed(), False, tiles=104),
    Way("the same, 8-bit products in the eyes", False, Speed(eight_bits=True), False, True),
    Way("frozen eyes, own passes, activations kept", False, Speed(fused=False), False),
    Way("frozen eyes, without padding, checkpointing", False, Speed()),
    Way("frozen eyes, text by transformers, checkpointing", False, Speed(own_text=False)),
    Way(
        "frozen eyes, own passes, activations kept, compiled",
        False, Speed(fused=False, compile=True), False, True,
    ),
    Way("adapted eyes, text without padding, 3 layers kept", True, Speed(kept=3), True, True),
    Way("adapted eyes, own text pass, 3 layers kept", True, Speed(fused=False, kept=3)),
    Way("frozen eyes, transformers, checkpointing", False, Speed(own_passes=False)),
    Way(
        "adapted eyes, own text pass, 3 layers kept, compiled",
        True, Speed(fused=False, kept=3, compile=True),
    ),
)  # fmt: skip


def counted(trainer: Any, batch: Any) -> tuple[float, float]:
    """TFLOP a pair of a forward pass, and the vision tower's share of them; by transformers' layers."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    few = first_pairs(batch, COUNTED).to(trainer.device)
    found = []
    kept, trainer.passes = trainer.passes, plain(trainer)
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
    trainer.passes = kept
    return found[0], found[1]


def plain(trainer: Any) -> Passes:
    return fast(trainer, Speed(own_passes=False), True)


def fast(trainer: Any, speed: Speed, checkpointing: bool) -> Passes:
    body = trainer.model.body
    if checkpointing:
        body.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    else:
        body.gradient_checkpointing_disable()
    return fast_passes(trainer.model, speed, trainer.kind, checkpointing, trainer.settings)


def tried(trainer: Any, batch: Any, way: Way, repeats: int) -> dict[str, Any]:
    import torch

    on_gpu = trainer.device.type == "cuda"
    tower.TILES = way.tiles
    trainer.passes = fast(trainer, way.speed, way.checkpointing)
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
    found |= {"loss": facts["loss"], "gradient": facts["gradient"]}
    if on_gpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        if way.profile:
            shares, longest = kernel_shares(lambda: trainer.advance([batch]), 1)
            found |= {"kernel_ms": shares, "longest_kernels_ms": longest}
    return found


GRADIENTS = {
    "transformers, float32": (Speed(own_passes=False), "float32"),
    "transformers": (Speed(own_passes=False), "bfloat16"),
    "own passes": (Speed(fused=False), "bfloat16"),
    "without padding": (Speed(), "bfloat16"),
    "8-bit products in the eyes": (Speed(eight_bits=True), "bfloat16"),
}


def gradients(trainer: Any, batch: Any) -> dict[str, Any]:
    """Losses and gradients of a few pairs by each pass, beside transformers' in float32."""
    import torch

    few = first_pairs(batch, COUNTED).to(trainer.device)
    kept, config = trainer.passes, trainer.config
    generator = torch.Generator().manual_seed(1)
    before = {name: p.detach().clone() for name, p in trainer.learned.items()}
    for name, parameter in trainer.learned.items():
        if name.endswith(".up"):  # it starts at 0, where nothing reaches the other half
            with torch.no_grad():
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))
    found: dict[str, Any] = {}
    exact: Any = None
    for name, (speed, precision) in GRADIENTS.items():
        trainer.config = dataclasses.replace(config, precision=precision)
        trainer.passes = fast(trainer, speed, False)
        trainer.optimizer.zero_grad(set_to_none=True)
        loss = trainer.losses(few)[0].total
        loss.backward()
        whole = torch.cat([p.grad.flatten().double() for p in trainer.learned.values() if p.grad is not None])
        exact = whole if exact is None else exact
        cosine = float(whole @ exact / (whole.norm() * exact.norm()))
        found[name] = {
            "loss": float(loss.detach()),
            "cosine": cosine,
            "length": float(whole.norm() / exact.norm()),
        }
    trainer.optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for name, parameter in trainer.learned.items():
            parameter.copy_(before[name])
    trainer.passes, trainer.config = kept, config
    return found


def trainer_for(given: argparse.Namespace, vision: bool) -> Any:
    from vsplade.train.loop import Run, Trainer
    from vsplade.train.pairs import FolderPairs
    from vsplade.train.training_config import load_config

    work = Path(given.work)
    model = write_model(work / ("small" if given.small else "model"), given.small)
    pairs = write_pairs(work / "pages", given.pages, given.workers)
    config: Any = load_config("quality", {"batch": given.batch, "lora_vision": vision})
    trainer = Trainer(config, Run(model, work / "run", threads=given.workers), FolderPairs(pairs, True))
    trainer.passes = Passes(trainer.model)
    return trainer


def measure(given: argparse.Namespace) -> None:
    keep = Facts(Path(given.out)).add
    trainer, batch, work = None, None, (0.0, 0.0)
    for way in [way for way in WAYS if way.speed.compile == given.compiled][: given.only]:
        if time.monotonic() - START > given.limit:
            keep(**{way.name: "no time left"})
            continue
        if trainer is None or trainer.config.lora_vision != way.vision:
            del trainer  # its memory
            trainer = trainer_for(given, way.vision)
            batch = batch or trainer.loader.make(0)
            work = counted(trainer, batch)
            if given.gradients:
                keep(**{f"gradients, adapted eyes: {way.vision}": gradients(trainer, batch)})
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
    parser.add_argument("--gradients", action="store_true", help="compare the passes' gradients first")
    parser.add_argument("--only", type=int, help="the first so many ways")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which no way is begun")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    given.work = given.work or tempfile.mkdtemp()
    measure(given)


if __name__ == "__main__":
    main()
