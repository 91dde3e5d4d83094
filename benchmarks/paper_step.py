"""One training step of the paper's model at its batch size: milliseconds, memory, share of the rate.

    python benchmarks/paper_step.py --out step.json                       # on a GPU: 42 pages with captions
    python benchmarks/paper_step.py --small --batch 2 --out small.json    # the same on a CPU, tiny

Pages are A4 (13 tiles), captions 230 words, LoRA of rank 32 on encoder and head, gradient checkpointing,
bfloat16. FLOPs are counted, not estimated: ``forward`` is what a pass takes, ``executed`` what a step really
does. The useful part is twice the forward pass (there and back; frozen weights get no gradient): what
checkpointing computes a second time does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from full_size import write_model
from paper_encoding import draw_pages, matrix_rate, wait

H200 = 989.5
"""TFLOP/s in bfloat16 by its data sheet, without sparsity."""


def write_pairs(folder: Path, pages: int, workers: int) -> Path:
    draw_pages(folder, pages, workers)
    rng = random.Random(0)
    with (folder / "pairs.jsonl").open("w") as file:
        for n in range(pages):
            words = ["".join(rng.choices("etaoin", k=rng.randint(1, 3))) for _ in range(230)]
            row = {"image": f"{n:05d}.jpg", "query": " ".join(words[:8]), "caption": " ".join(words)}
            file.write(json.dumps(row) + "\n")
    return folder


def measure(given: argparse.Namespace) -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from vsplade.train.paper.config import load_config
    from vsplade.train.paper.data import FolderPairs
    from vsplade.train.paper.loop import Run, Trainer

    work = Path(given.work or tempfile.mkdtemp())
    model = write_model(work / ("small" if given.small else "model"), given.small)
    pairs = write_pairs(work / "pairs", given.batch * (given.steps + 3), given.workers)
    changes = {"batch": given.batch, "texts_per_image": 0}
    trainer = Trainer(
        load_config("quality", changes),
        Run(model, work / "run", threads=given.workers),
        FolderPairs(pairs, True),
    )
    device = trainer.device
    on_gpu = device.type == "cuda"
    found: dict[str, Any] = {
        "batch": given.batch,
        "learned_parameters": sum(map(torch.numel, trainer.learned.values())),
    }

    def keep(**facts: Any) -> None:
        found.update(facts)
        print(time.strftime("%H:%M:%S"), json.dumps(facts), flush=True)
        Path(given.out).write_text(json.dumps(found, indent=1) + "\n")

    rate = matrix_rate(device, 8192 if on_gpu else 256)
    keep(matrix_tflops=rate)
    batch = trainer.loader.make(0)
    keep(
        tiles=len(batch.tiles) if batch.tiles is not None else 0,
        caption_tokens=int(batch.captions.ids.shape[1]),
    )
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        trainer.losses(batch.to(device))
    forward = counter.get_total_flops()
    with FlopCounterMode(display=False) as counter:
        trainer.advance(batch)
    keep(forward_tflop=forward / 1e12, executed_tflop=counter.get_total_flops() / 1e12)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(given.repeats):
        wait(device)
        start = time.perf_counter()
        trainer.advance(batch)
        wait(device)
        times.append(time.perf_counter() - start)
    step = sorted(times)[len(times) // 2]
    keep(
        step_ms=1000 * step,
        peak_gib=torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None,
        mfu=2 * forward / step / 1e12 / H200,
        useful_share_of_matrix_rate=2 * forward / step / 1e12 / rate,
        executed_share_of_matrix_rate=found["executed_tflop"] / step / rate,
    )
    start = time.perf_counter()
    for fresh in trainer.loader.run(1, 1 + given.steps):
        trainer.advance(fresh)
    wait(device)
    keep(step_ms_with_loader=1000 * (time.perf_counter() - start) / given.steps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=42)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="steps through the loader")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try this on a CPU")
    parser.add_argument("--work", help="the folder for model and pages; default: a temporary one")
    parser.add_argument("--out", required=True)
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
