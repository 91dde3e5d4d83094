from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from research.experiments.fusing import FusingOptions, fuse, tune_weights
from vsplade.errors import InputError
from vsplade.evaluate import write_run
from vsplade.search.fuse import fuse_runs


def test_tuning_finds_the_best_mix() -> None:
    first = {"q1": {"right": 2.0, "w": 1.0}, "q2": {"w": 3.0, "right": 2.9, "z": 0.0}}
    second = {"q1": {"w": 2.0, "right": 1.9, "z": 0.0}, "q2": {"right": 2.0, "w": 1.0}}

    def right_first(run: dict[str, dict[str, float]]) -> float:
        return sum(next(iter(pages)) == "right" for pages in run.values()) / len(run)

    weights = tune_weights([first, second], right_first)
    assert weights == (0.5, 0.5)  # many mixes are as good: the most even one is kept
    assert right_first(fuse_runs([first, second], weights)) == 1.0
    assert right_first(first) == right_first(second) == 0.5
    with pytest.raises(InputError, match="divides 1"):
        tune_weights([first, second], right_first, step=0.3)


def test_three_way_tuning_tries_the_whole_grid() -> None:
    seen = []
    tune_weights([{"q": {"a": 1.0}}] * 3, lambda run: seen.append(run["q"]["a"]) or 0.0, step=0.25)
    assert len(seen) == 15


def test_runs_are_joined_with_the_best_weights(make_dataset: Callable[..., Path], tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.run", tmp_path / "wrong.run"
    write_run(right, {"q1": {"a": 3.0, "b": 1.0}, "q2": {"b": 3.0, "c": 1.0}})
    write_run(wrong, {"q1": {"d": 3.0, "b": 1.0}, "q2": {"d": 3.0, "a": 1.0}})
    folder, runs = str(make_dataset()), (right, wrong)
    even = fuse(FusingOptions(folder, run=runs, weights=(0.5, 0.5)))
    tuned = fuse(FusingOptions(folder, run=runs, tune=True))
    assert tuned["ndcg@5"] == 1.0 > even["ndcg@5"]
    assert tuned["weights"][0] > 0.5
    with pytest.raises(InputError, match="not both"):
        fuse(FusingOptions(folder, run=runs, weights=(0.5, 0.5), tune=True))
