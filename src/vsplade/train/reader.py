"""Train the page reader: ``python -m vsplade.train.reader --words W --fonts DIR --pdfs DIR --out DIR
--seconds N``.

The schedule runs on the clock: warm up, hold, and decay over the last part of ``--seconds``, so that a run
fits the GPU time there is. A checkpoint is written every minute; ``--resume`` goes on from one (its optimizer
state and spent time included), ``--initial`` starts a new schedule from the weights of one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.network import NetworkConfig, Reader
from vsplade.train import checkpoint
from vsplade.train.glyphs import build_atlas
from vsplade.train.reading import Losses, reader_losses
from vsplade.train.realpages import page_jobs, read_pages
from vsplade.train.supply import Batch, GrowingPool, Supply, make_batch
from vsplade.train.synthesis import Synthesis, make_scenes
from vsplade.train.typeset import Typesetter
from vsplade.train.words import WordBank

COMMON_FACES = (
    "nimbus", "liberation", "termes", "heros", "cursor", "freesans", "freeserif", "dejavu", "roboto",
    "opensans", "lato", "courier", "cmun", "c059", "p052", "notosans", "notoserif", "stix", "inter-",
    "carlito", "typewriter",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingConfig:
    seconds: float = 600.0
    windows: int = 256
    real_share: float = 0.3
    rate: float = 2e-3
    decay: float = 0.02
    warm_up: float = 0.02
    cool_down: float = 0.35
    pieces: int = 24_576
    scenes: int = 40_000
    pages_per_file: int = 150
    character_weight: float = 1.0
    seed: int = 0
    compile: bool = False


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


def build_supply(options: argparse.Namespace, config: TrainingConfig, device: torch.device) -> Supply:
    workers = max(1, (os.cpu_count() or 2) - 2)
    fonts = sorted(p for p in options.fonts.rglob("*") if p.suffix.lower() in {".ttf", ".otf"})[
        : options.most_fonts
    ]
    pdfs = sorted(options.pdfs.rglob("*.pdf")) if options.pdfs else []
    pool = None
    if pdfs:
        jobs = page_jobs(pdfs, config.pages_per_file, (1000, 1700), config.seed)[: options.most_pages]
        pool = GrowingPool(read_pages(jobs, workers), device, (1000, 3000, 6000))
    atlas, faces = build_atlas(fonts, workers)
    typesetter = Typesetter(WordBank.load(options.words), atlas.to(device), face_weights(faces), device)
    synthesis = Synthesis(typesetter, make_scenes(config.scenes, workers, config.seed * 1_000_003))
    print(f"{atlas.fonts} faces, {config.scenes} scenes, {len(pdfs)} PDFs", flush=True)
    if pool is not None:
        pool.wait()
    return Supply(
        lambda: make_batch(synthesis, pool.pool if pool else None, config.windows, config.real_share), device
    )


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
            "named_drawn": (right * drawn).sum() / drawn.sum().clamp(min=1),
            "named_real": (right * ~drawn).sum() / (~drawn).sum().clamp(min=1),
            "found_drawn": (found * drawn).sum() / drawn.sum().clamp(min=1),
            "found_real": (found * ~drawn).sum() / (~drawn).sum().clamp(min=1),
            "false_alarms": losses.false_alarms,
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
        self, network: NetworkConfig, config: TrainingConfig, out: Path, device: torch.device
    ) -> None:
        self.config, self.out, self.device = config, out, device
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
        tensors, header = checkpoint.load(path)
        checkpoint.load_model(
            self.model, {n: t.float() if t.is_floating_point() else t for n, t in tensors.items()}
        )
        if keep_schedule:
            checkpoint.load_optimizer(self.optimizer, tensors)
            self.step, self.spent = header["step"], header["spent"]

    def train_step(self, batch: Batch) -> Losses:
        pictures = batch.pictures[:, None]
        if self.device.type == "cuda":
            pictures = pictures.to(torch.bfloat16).to(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            losses = reader_losses(self.model, self.trunk(pictures), batch.targets, self.config.pieces)
        total = losses.word + losses.name + self.config.character_weight * losses.character
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.optimizer.step()
        return losses

    def save(self, name: str, with_optimizer: bool = True) -> None:
        tensors = {f"model.{n}": t for n, t in self.model.state_dict().items()}
        if with_optimizer:
            tensors |= checkpoint.optimizer_tensors(self.optimizer)
        header = {
            "step": self.step,
            "spent": self.spent,
            "network": self.model.config.to_json(),
            "training": asdict(self.config),
        }
        checkpoint.save(self.out / name, tensors, header)

    def run(self, supply: Supply, until: float) -> None:
        """Train until the schedule ends or the clock reads ``until`` (time.monotonic)."""
        meter, started, offset = Meter(), time.monotonic(), self.spent
        logged = saved = started
        first_step = self.step
        with open(self.out / "log.jsonl", "a") as log:
            while self.spent < self.config.seconds and time.monotonic() < until:
                rate = learning_rate(self.config, min(1.0, self.spent / self.config.seconds))
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                batch = supply.next()
                meter.add(self.train_step(batch), batch.synthetic)
                self.step += 1
                now = time.monotonic()
                self.spent = offset + now - started
                if now - logged > 10 or self.step == first_step + 1:
                    averages = meter.take()
                    if not math.isfinite(averages["name"]):
                        raise FloatingPointError(f"The loss is not finite at step {self.step}: {averages}")
                    per_second = (self.step - first_step) * self.config.windows / (time.monotonic() - started)
                    line = {
                        "step": self.step,
                        "spent": round(self.spent, 1),
                        "rate": round(rate, 6),
                        "windows_per_s": round(per_second),
                        **averages,
                    }
                    print(json.dumps(line), flush=True)
                    log.write(json.dumps(line) + "\n")
                    log.flush()
                    logged = now
                if now - saved > 60:
                    self.save("last.safetensors")
                    saved = now
        self.save("last.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--fonts", type=Path, required=True)
    parser.add_argument("--pdfs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--initial", type=Path)
    parser.add_argument(
        "--stop-after", type=float, default=math.inf, help="stop this call after so many seconds"
    )
    parser.add_argument("--most-fonts", type=int)
    parser.add_argument("--most-pages", type=int)
    parser.add_argument("--network", type=json.loads, default={}, help="JSON of network settings")
    for name, value in asdict(TrainingConfig()).items():
        kind = (lambda text: text.lower() in {"1", "true", "yes"}) if isinstance(value, bool) else type(value)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=value)
    options = parser.parse_args()
    until = time.monotonic() + options.stop_after
    config = TrainingConfig(**{name: getattr(options, name) for name in asdict(TrainingConfig())})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(config.seed)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    options.out.mkdir(parents=True, exist_ok=True)
    training = Training(NetworkConfig(**options.network), config, options.out, device)
    if options.resume:
        training.restore(options.resume, keep_schedule=True)
    elif options.initial:
        training.restore(options.initial, keep_schedule=False)
    torch.manual_seed(config.seed + 7919 * training.step)
    supply = build_supply(options, config, device)
    try:
        training.run(supply, until)
    finally:
        supply.close()


if __name__ == "__main__":
    main()
