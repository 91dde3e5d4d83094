"""Fusion by relative scores: with given weights (the main table), with the best weight of the set (at scale).

python -m research.experiments.fusing DATASET --run ours.run --run bm25.run --weights 0.7 --weights 0.3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments.hub import open_dataset
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.measures import measure, rounded
from vsplade.evaluate.runs import Run, read_run, write_run
from vsplade.search.fuse import Runs, Unseen, fuse_runs

CUTS = ("recall@5", "recall@100")
Row = dict[str, object]


def fusion_at_scale(dataset: Dataset, runs: Mapping[str, Run]) -> list[Row]:
    """Every two runs joined with the weight that is best by recall@5 on this set, as the paper chooses it.

    The first run is the sparse one. Two dense retrievers are joined too: what they gain is what any two
    would.
    """
    if len(runs) < 2:
        raise InputError("Fusion joins runs: give --run NAME=FILE at least twice, the sparse one first.")

    def value(run: Run, name: str = CUTS[0]) -> float:
        return measure(dataset.qrels, run, [name])[name]

    rows: list[Row] = []
    for first, second in combinations(runs, 2):
        pair = [runs[first], runs[second]]
        weights = tune_weights(pair, value)
        joined = fuse_runs(pair, weights, depth=100)
        for name in CUTS:
            alone, fused = [value(run, name) for run in pair], value(joined, name)
            rows.append(
                {"fusion": f"{first} + {second}", "measure": name, "first": round(alone[0], 4),
                 "second": round(alone[1], 4), "fused": round(fused, 4), "gain": round(fused - max(alone), 4),
                 "weight of the first": weights[0]}
            )  # fmt: skip
    return rows


def tune_weights(
    runs: Sequence[Runs],
    measure: Callable[[dict[str, dict[str, float]]], float],
    step: float = 0.1,
    method: str = "rsf",
    depth: int | None = 100,
    unseen: Unseen | None = None,
) -> tuple[float, ...]:
    """Try every combination of weights on a grid of ``step`` and keep the best by ``measure``.

    ``measure`` takes a fused run and returns what is to be large (NDCG@5 on a dev set). Between equally good
    combinations the one nearest to equal weights wins: it is the least likely to be luck.
    """
    parts = round(1 / step) if step > 0 else 0
    if len(runs) < 2 or parts < 1 or abs(parts * step - 1) > 1e-9:
        raise InputError(f"Tuning needs two or more runs and a step that divides 1 (0.1, 0.05); got {step}.")
    tried: dict[tuple[float, ...], float] = {}
    for grid in _compositions(parts, len(runs)):
        weights = tuple(part / parts for part in grid)
        tried[weights] = measure(fuse_runs(runs, weights, method, depth, unseen))
    return max(tried, key=lambda weights: (tried[weights], -max(weights), weights))


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to write ``total`` as an ordered sum of ``parts`` whole numbers from 0 up."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def fused_run(runs: Sequence[Run], weights: Sequence[float]) -> Run:
    """One row of the main table."""
    if len(runs) != len(weights):
        raise InputError(f"There are {len(runs)} runs and {len(weights)} weights; give one for each.")
    return fuse_runs(runs, weights, depth=100)


@dataclass(frozen=True)
class FusingOptions:
    dataset: str = option("A folder, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    run: tuple[Path, ...] = option("A TREC run; to be given several times.", ())
    weights: tuple[float, ...] = option("One for each run, in their order; they sum to 1.", ())
    tune: bool = option("Look for the best weights (steps of 0.1); judge them on another set.", False)
    measure: str = option("The measure that --tune looks at.", "ndcg@5")
    to: Path | None = option("Write the fused run here.", None)


def fuse(options: FusingOptions) -> dict[str, Any]:
    """Join runs by relative scores with given weights, or with the best: one row of the main table."""
    dataset = open_dataset(options.dataset, options.data)
    runs = [read_run(path, dataset.queries, dataset.image_ids) for path in options.run]
    weights = options.weights
    if options.tune:
        if weights:
            raise InputError("Give weights or tune them, not both.")
        weights = tune_weights(
            runs, lambda run: measure(dataset.qrels, run, [options.measure])[options.measure]
        )
    fused = fused_run(runs, weights)
    if options.to:
        write_run(options.to, fused, tag="fused")
    scores = rounded(measure(dataset.qrels, fused))
    return {"dataset": dataset.name, "weights": list(weights), **scores}


if __name__ == "__main__":
    main(fuse, FusingOptions)
