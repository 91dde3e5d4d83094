"""Train the page reader.

The schedule runs on the clock: warm up, hold, and decay over the last part of ``seconds``, so that a run fits
the GPU time there is. A checkpoint is written every minute; ``resume`` goes on from one (its optimizer state
and spent time included), ``initial`` starts a new schedule from the weights of one. A batch depends on the
seed and its number alone, so a resumed run sees the batches that an uninterrupted one would have seen.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from research.command import main
from research.reader.glyphs import build_atlas
from research.reader.options import TrainingConfig, TrainingRun
from research.reader.reading import Losses, reader_losses
from research.reader.realpages import read_pages
from research.reader.rounding import round_to_8_bits
from research.reader.supply import GrowingPool, Supply, WindowBatch, Windows, make_windows
from research.reader.synthesis import Synthesis, make_scenes
from research.reader.text_layers import page_jobs
from research.reader.typeset import Typesetter
from research.reader.weights import load_weights
from research.reader.words import WordBank
from vsplade.cli.common import note
from vsplade.config import make_options
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

Say = Callable[[str], None]
COMMON_FACES = (
    "nimbus", "liberation", "termes", "heros", "cursor", "freesans", "freeserif", "dejavu", "roboto",
    "opensans", "lato", "courier", "cmun", "c059", "p052", "notosans", "notoserif", "stix", "inter-",
    "carlito", "typewriter",
)  # fmt: skip


def learning_rate(config: TrainingConfig, progress: float) -> float:
    """Warm-up, stable, then a decay that ends at a hundredth."""
    if progress < config.warm_up:
        return config.rate * progress / config.warm_up
    left = (1 - progress) / config.cool_down
    return config.rate * min(1.0, max(left, 0.01))


def face_weights(paths: list[Path]) -> Tensor:
    """Faces that most documents are set in come up four times as often as the others."""
    common = [any(name in path.name.lower() for name in COMMON_FACES) for path in paths]
    return torch.tensor([4.0 if c else 1.0 for c in common])


def batch_seed(*numbers: int) -> int:
    """A seed for the run's seed, the batch's number and what it is for, far from all the others."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def build_supply(
    run: TrainingRun, config: TrainingConfig, device: torch.device, first: int, say: Say
) -> Supply:
    """Batches from number ``first`` on."""
    workers = max(1, (os.cpu_count() or 2) - 2)
    fonts = sorted(p for p in run.fonts.rglob("*") if p.suffix.lower() in {".ttf", ".otf"})
    if not fonts:
        raise InputError(
            f"There is no .ttf or .otf file in {run.fonts}; `python -m research.reader.fonts` fills such "
            "a folder."
        )
    pdfs = sorted(run.pdfs.rglob("*.pdf")) if run.pdfs else []
    if run.pdfs and not pdfs:
        raise InputError(f"There is no PDF in {run.pdfs}. Leave out --pdfs to train on drawn pages only.")
    pool = None
    if pdfs:
        jobs = page_jobs(pdfs, config.pages_per_file, (850, 1500), config.seed)[: run.most_pages or None]
        pool = GrowingPool(read_pages(jobs, workers), device, (1000, 3000, 6000), say)
    atlas, faces = build_atlas(fonts[: run.most_fonts or None], workers)
    typesetter = Typesetter(WordBank.load(run.words), atlas.to(device), face_weights(faces), device)
    scenes = make_scenes(config.scenes, workers, config.seed * 1_000_003, config.plain)
    synthesis = Synthesis(typesetter, scenes, config.plain)
    say(f"{atlas.fonts} faces, {config.scenes} scenes, {len(pdfs)} PDFs")
    if pool is not None:
        pool.wait()

    @lru_cache(1)
    def drawn(number: int) -> Windows:
        torch.manual_seed(batch_seed(config.seed, number))
        return make_windows(synthesis, pool.pool if pool else None, config.windows, config.real_share)

    def make(number: int) -> WindowBatch:
        windows = drawn(number // config.echo)
        torch.manual_seed(batch_seed(config.seed, number, 1))
        return windows.worn(config.plain)

    return Supply(make, device, first)


class Meter:
    """Averages between two lines of the log."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.count = 0

    def add(self, losses: Losses, synthetic: int) -> None:
        drawn = losses.window < synthetic
        right, found = losses.right.float(), losses.found.float()
        values = {
            "word": losses.word.detach(),
            "name": losses.name.detach(),
            "character": losses.character.detach(),
            "size": losses.size.detach(),
            "named_drawn": (right * drawn).sum() / drawn.sum().clamp(min=1),
            "named_real": (right * ~drawn).sum() / (~drawn).sum().clamp(min=1),
            "found_drawn": (found * drawn).sum() / drawn.sum().clamp(min=1),
            "found_real": (found * ~drawn).sum() / (~drawn).sum().clamp(min=1),
            "false_alarms": losses.false_alarms,
            "living": losses.living,
        }
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, torch.zeros((), device=value.device)) + value
        self.count += 1

    def take(self) -> dict[str, float]:
        averages = {name: round(float(value) / self.count, 4) for name, value in self.sums.items()}
        self.sums, self.count = {}, 0
        return averages


class Training:
    def __init__(
        self,
        network: NetworkConfig,
        config: TrainingConfig,
        out: Path,
        device: torch.device,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.out, self.device, self.clock = config, out, device, clock
        self.generator = torch.Generator(device)
        self.model = Reader(network).to(device)
        if device.type == "cuda":
            self.model = self.model.to(memory_format=torch.channels_last)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim <= 1]
        groups: list[dict[str, Any]] = [
            {"params": decayed, "weight_decay": config.decay},
            {"params": plain, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=config.rate, betas=(0.9, 0.98), fused=device.type == "cuda"
        )
        self.trunk = torch.compile(self.model.trunk) if config.compile else self.model.trunk
        self.step, self.spent = 0, 0.0

    def restore(self, path: Path, keep_schedule: bool) -> None:
        tensors, header = load_weights(path)
        training_checkpoint.load_model(self.model, tensors)
        if keep_schedule:
            if not training_checkpoint.load_optimizer(self.optimizer, tensors):
                raise InputError(f"{path} holds no optimizer state; start from it with --initial instead.")
            self.step, self.spent = header["step"], header["spent"]

    def train_step(self, batch: WindowBatch) -> Losses:
        pictures = batch.pictures[:, None]
        if self.device.type == "cuda":
            pictures = pictures.to(torch.bfloat16).to(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            outputs = self.trunk(pictures)
            self.generator.manual_seed(batch_seed(self.config.seed, self.step))
            losses = reader_losses(self.model, outputs, batch.targets, self.config.pieces, self.generator)
        total = losses.word + losses.name + self.config.character_weight * losses.character
        total = total + self.config.size_weight * losses.size
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.optimizer.step()
        return losses

    def save(self, name: str, with_optimizer: bool = True) -> None:
        tensors = {f"model.{n}": t for n, t in self.model.state_dict().items()}
        if with_optimizer:
            tensors |= training_checkpoint.optimizer_tensors(self.optimizer)
        header = {
            "step": self.step,
            "spent": self.spent,
            "network": self.model.config.to_json(),
            "vocabulary": Tokenizer.load().fingerprint,
            "training": asdict(self.config),
        }
        training_checkpoint.save(self.out / name, tensors, header)

    def run(self, supply: Supply, until: float = math.inf, say: Say = print) -> None:
        """Train until the schedule ends or the clock reads ``until``."""
        meter, started, offset = Meter(), self.clock(), self.spent
        logged = saved = started
        first_step = self.step
        with open(self.out / "log.jsonl", "a") as log:
            while self.spent < self.config.seconds and self.clock() < until:
                progress = self.spent / self.config.seconds
                round_to_8_bits(self.model.trunk, progress >= 1 - self.config.rounded)
                rate = learning_rate(self.config, progress)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                batch = supply.next()
                meter.add(self.train_step(batch), batch.synthetic)
                self.step += 1
                now = self.clock()
                self.spent = offset + now - started
                if now - logged > 10 or self.step == first_step + 1:
                    per_second = (self.step - first_step) * self.config.windows / max(now - started, 1e-9)
                    line = json.dumps(self._progress(meter, rate, per_second))
                    say(line)
                    log.write(line + "\n")
                    log.flush()
                    logged = now
                if now - saved > 60:
                    self.save("last.safetensors")
                    saved = now
        self.save("last.safetensors")

    def _progress(self, meter: Meter, rate: float, per_second: float) -> dict[str, float]:
        averages = meter.take()
        if not math.isfinite(averages["name"]):
            raise FloatingPointError(f"The loss is not finite at step {self.step}: {averages}")
        head = {"step": self.step, "spent": round(self.spent, 1), "rate": round(rate, 6)}
        return {**head, "windows_per_s": round(per_second), **averages}


def train(run: TrainingRun, config: TrainingConfig, say: Say = print) -> dict[str, Any]:
    """Train the reader; on a GPU in practice. Progress goes to stderr and to log.jsonl."""
    until = time.monotonic() + (run.stop_after or math.inf)
    if run.resume and run.initial:
        raise InputError("Give --resume to go on with a run or --initial to start a new one, not both.")
    start = run.resume or run.initial
    known = load_weights(start)[1]["network"] if start else {}
    network = make_options(NetworkConfig, {**known, **json.loads(run.network)}, "the network")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    run.out.mkdir(parents=True, exist_ok=True)
    training = Training(network, config, run.out, device)
    if run.resume:
        training.restore(run.resume, keep_schedule=True)
    elif run.initial:
        training.restore(run.initial, keep_schedule=False)
    supply = build_supply(run, config, device, training.step, say)
    try:
        training.run(supply, until, say)
    finally:
        supply.close()
    checkpoint_path = str(run.out / "last.safetensors")
    return {"checkpoint": checkpoint_path, "step": training.step, "spent": round(training.spent, 1)}


if __name__ == "__main__":
    main(train, TrainingRun, TrainingConfig, say=note)
