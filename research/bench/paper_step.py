"""One training step of the paper's model at its batch size: milliseconds, memory, share of the rate.

    python -m research.bench.paper_step --out step.json    # on a GPU: 42 pages with captions
    python -m research.bench.paper_step --small --batch 2 --out small.json    # the same on a CPU, tiny

Pages are A4 (13 tiles), captions 230 words, LoRA of rank 32 on encoder and head, gradient checkpointing,
bfloat16. FLOPs are counted, not estimated, on two pages of the batch (the counter keeps every layer that
checkpointing computes anew, so a whole batch would not fit): ``forward`` is what a pass takes, ``executed``
what a step really does. The useful part is twice the forward pass (there and back; frozen weights get no
gradient): what checkpointing computes a second time does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from research.bench.full_size import write_model
from research.bench.paper_encoding import draw_pages, matrix_rate, wait

H200 = 989.5
"""TFLOP/s in bfloat16 by its data sheet, without sparsity."""


COUNTED = 2


def write_pairs(folder: Path, pages: int, workers: int) -> Path:
    draw_pages(folder, pages, workers)
    rng = random.Random(0)
    rows = []
    for n in range(pages):
        words = ["".join(rng.choices("etaoin", k=rng.randint(1, 3))) for _ in range(230)]
        rows.append({"image": f"{n:05d}.jpg", "query": " ".join(words[:8]), "caption": " ".join(words)})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def first_pairs(batch: Any, count: int) -> Any:
    """Some pairs of a batch whose pages all have as many tiles."""
    from vsplade.train.batches import Tokens, TrainingBatch

    queries, pages, captions = (
        Tokens(t.ids[:count], t.mask[:count]) for t in (batch.queries, batch.pages, batch.captions)
    )
    tiles = len(batch.tiles) // len(batch.pages.ids)
    return TrainingBatch(queries, pages, batch.tiles[: count * tiles], captions)


def product_flops(_: Any, left: Any, right: Any, **others: Any) -> int:
    return int(2 * left[0] * left[1] * right[1])


def count_flops(trainer: Any, batch: Any) -> tuple[float, float]:
    """TFLOP a pair: of the forward pass, and of all that a step does."""
    import gc

    import torch
    from torch.utils.flop_counter import FlopCounterMode

    also = {
        torch.ops.aten.addmm_: product_flops
    }  # the adapters add in place, which the counter does not know
    few = first_pairs(batch, COUNTED)
    with FlopCounterMode(display=False, custom_mapping=also) as counter, torch.no_grad():
        trainer.losses(few.to(trainer.device))
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False, custom_mapping=also) as counter:
        trainer.losses(few.to(trainer.device))[0].total.backward()
    trainer.optimizer.zero_grad(set_to_none=True)
    gc.collect()  # what the counter kept
    return forward / COUNTED / 1e12, counter.get_total_flops() / COUNTED / 1e12


class Facts:
    """What was measured, written down at once: a machine may go away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Any] = {}

    def add(self, **facts: Any) -> None:
        self._found.update(facts)
        print(time.strftime("%H:%M:%S"), json.dumps(facts), flush=True)
        self._path.write_text(json.dumps(self._found, indent=1) + "\n")


def forward_memory(trainer: Any, batch: Any) -> dict[str, float]:
    """GiB on the GPU around one forward pass."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    losses, _ = trainer.losses(batch.to(trainer.device))
    held, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    del losses
    torch.cuda.reset_peak_memory_stats()
    return {
        "gib_at_rest": before / 2**30,
        "gib_kept_for_backward": (held - before) / 2**30,
        "gib_forward_peak": peak / 2**30,
    }


def measure(given: argparse.Namespace) -> None:
    import torch

    from research.paper.mixing import MixedConfig, PaperTrainer
    from vsplade.train.loop import Run
    from vsplade.train.pairs import FolderPairs
    from vsplade.train.training_config import load_config

    work = Path(given.work or tempfile.mkdtemp())
    model = write_model(work / ("small" if given.small else "model"), given.small)
    pairs = write_pairs(work / "pages", given.pages, given.workers)
    trainer = PaperTrainer(
        load_config("quality", {"batch": given.batch}, MixedConfig),
        Run(model, work / "run", threads=given.workers),
        FolderPairs(pairs, True),
    )
    device = trainer.device
    on_gpu = device.type == "cuda"
    keep = Facts(Path(given.out)).add
    keep(batch=given.batch, learned_parameters=sum(map(torch.numel, trainer.learned.values())))
    rate = matrix_rate(device, 8192 if on_gpu else 256)
    keep(matrix_tflops=rate)
    batch = trainer.loader.make(0)
    keep(
        tiles=len(batch.tiles) if batch.tiles is not None else 0,
        caption_tokens=int(batch.captions.ids.shape[1]) if batch.captions is not None else 0,
    )
    forward, executed = (given.batch * each for each in count_flops(trainer, batch))
    keep(forward_tflop=forward, executed_tflop=executed)
    if on_gpu:
        keep(**forward_memory(trainer, batch))
    trainer.advance([batch])
    if on_gpu:
        keep(peak_gib=torch.cuda.max_memory_allocated() / 2**30)
    times = []
    for _ in range(given.repeats):
        wait(device)
        start = time.perf_counter()
        trainer.advance([batch])
        wait(device)
        times.append(time.perf_counter() - start)
    step = sorted(times)[len(times) // 2]
    keep(
        step_ms=1000 * step,
        peak_gib=torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        mfu=2 * forward / step / H200,
        useful_share_of_matrix_rate=2 * forward / step / rate,
        executed_share_of_matrix_rate=executed / step / rate,
    )
    start = time.perf_counter()
    for fresh in trainer.loader.run(1, 1 + given.steps):
        trainer.advance([fresh])
    wait(device)
    keep(step_ms_with_loader=1000 * (time.perf_counter() - start) / given.steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=42)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps through the loader")
    parser.add_argument("--pages", type=int, default=384, help="pages drawn, as many as the steps need")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try this on a CPU")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--out", required=True)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
