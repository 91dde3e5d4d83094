"""Measuring a model while it trains: the best step beside the last, and stopping early."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from vsplade.jsonl import read_log

if TYPE_CHECKING:
    import torch

    from vsplade.encode.modernvbert.model import SpladeModel
    from vsplade.encode.modernvbert.processor import PageProcessor

Judge: TypeAlias = "Callable[[SpladeModel, PageProcessor, torch.device], Mapping[str, float]]"
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
