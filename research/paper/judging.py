"""Measuring a model while it trains: the best step beside the last, and stopping early."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from research.paper.mixing import MixedConfig, PaperTrainer, TextPairs, train_mixed
from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.encode.modernvbert.processor import PageProcessor
from vsplade.jsonl import read_log
from vsplade.train import training_checkpoint as files
from vsplade.train.loop import Run
from vsplade.train.pairs import ImagePairs

Judge = Callable[[SpladeModel, PageProcessor, torch.device], Mapping[str, float]]
"""Measures of a model; ``SCORE`` is the one that decides which step is best."""
SCORE = "ndcg@5"
JUDGED, BEST = "judged.jsonl", "best.safetensors"


@dataclass(frozen=True)
class Judging:
    """When to measure, and when to give up."""

    judge: Judge
    every: int
    """Steps between measurements; the last step is measured in any case."""
    patience: int = 0
    """Measurements without a new best one after which the run ends; 0: it never ends early."""


@dataclass
class Judgements:
    """What was measured so far; kept as lines of ``judged.jsonl``."""

    path: Path
    rows: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, step: int) -> Judgements:
        """Those up to a step; later ones, of a run that was killed, are about to be made again."""
        found = cls(folder / JUDGED)
        if found.path.is_file():
            found.rows = [row for row in read_log(found.path) if row["step"] <= step]
            found.write()
        return found

    def add(self, step: int, measures: Mapping[str, float]) -> bool:
        """True where it is the best so far."""
        self.rows.append({"step": step, **measures})
        self.write()
        return self.best_step == step

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(row) + "\n" for row in self.rows), "utf-8")
        partial.replace(self.path)

    @property
    def best_step(self) -> int:
        """The earliest of the best."""
        return int(max(self.rows, key=lambda row: (row[SCORE], -row["step"]))["step"]) if self.rows else 0

    def has(self, step: int) -> bool:
        return any(row["step"] == step for row in self.rows)

    def gives_up(self, patience: int) -> bool:
        since = sum(row["step"] > self.best_step for row in self.rows)
        return 0 < patience <= since


class JudgedTrainer(PaperTrainer):
    """A run that is measured on the way. Every process measures, so that all of them know when to stop; the
    first one keeps the best."""

    def __init__(self, judging: Judging, *given: Any) -> None:
        super().__init__(*given)
        self._given, self.judging = given, judging
        self.judged = Judgements(self.run.out / JUDGED)

    def resume(self, path: Path) -> None:
        super().resume(path)
        self.judged = Judgements.read(self.run.out, self.step)
        self.gave_up = self.judged.gives_up(self.judging.patience)

    def after_step(self, say: Callable[[str], None]) -> None:
        if self.judged.has(self.step) or (self.step % self.judging.every and self.step < self.plan.steps):
            return
        self.model.eval()
        with torch.no_grad():
            measures = self.judging.judge(self.model, self.processor, self.device)
        self.model.train()
        if self.judged.add(self.step, measures) and self.world.leads:
            header = {"step": self.step, "config": self._identity()}
            files.save(self.run.out / BEST, self._tensors(), header)
        say(f"step {self.step}: " + ", ".join(f"{name} {value:.4f}" for name, value in measures.items()))
        self.gave_up = self.judged.gives_up(self.judging.patience)

    def export(self, folder: Path) -> None:
        """The last step's model, and beside it the best one where that is another."""
        super().export(folder)
        if self.judged.best_step != self.step:
            best = PaperTrainer(*self._given)
            best.take_learned(files.load(self.run.out / BEST)[0], self.run.out / BEST)
            best.export(folder.with_name("best-model"))


def train_judged(
    judging: Judging,
    config: MixedConfig,
    run: Run,
    images: ImagePairs,
    texts: TextPairs | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """As ``train_mixed``, and which step was the best."""
    result = train_mixed(config, run, images, texts, say, partial(JudgedTrainer, judging))
    return {**result, "best_step": Judgements.read(run.out, result["step"]).best_step}
