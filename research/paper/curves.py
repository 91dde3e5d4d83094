"""The ablation's results for people: a table in Markdown, and curves over training.

python -m research.paper.curves results/ablation.json --curves curves.png > table.md
python -m research.paper.curves results/ablation.json --rows "bag of words" Li-LSR --curves two.png
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from research.command import main, option
from vsplade.errors import InputError, MissingExtraError

MEASURES = {"ndcg@5": "NDCG@5", "flops": "FLOPS", "active": "active terms", "stop_share": "stop words"}

SCALES = {"ndcg@5": "linear", "active": "log", "stop_share": "linear"}
"""What is drawn of the dev sets, and how."""
TRAINING = {"rank": "loss of ranking", "active": "active terms"}
"""What is drawn of the training pages."""

Results = dict[str, list[dict[str, Any]]]


def read_results(path: Path) -> Results:
    """Runs by row, in the order in which rows were first listed."""
    try:
        runs = json.loads(path.read_text("utf-8"))["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no results of the ablation ({error}).") from error
    from research.paper.ablation import ROWS

    rows: Results = {}
    for name in ("before training", *(row.name for row in ROWS)):
        found = sorted(
            (run for run in runs if run["row"] == name and "failed" not in run), key=lambda run: run["seed"]
        )
        if found:
            rows[name] = found
    return rows


def choose(rows: Results, names: list[str]) -> Results:
    unknown = [name for name in names if name not in rows]
    if unknown:
        raise InputError(f"There is no row {unknown[0]!r}. There are: {', '.join(rows)}.")
    return {name: runs for name, runs in rows.items() if not names or name in (*names, "before training")}


def table(rows: Results) -> str:
    """Means over seeds; of NDCG@5 also the smallest and the largest."""
    sets = [name for name in next(iter(rows.values()))[0]["final"] if name != "step"]
    head = ["row", *(f"{name}: {measure}" for name in sets for measure in MEASURES.values())]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row, runs in rows.items():
        cells = [row + (" (not a number)" if any(run.get("stopped") for run in runs) else "")]
        cells += [
            _cell([run["final"][name][measure] for run in runs], measure)
            for name in sets
            for measure in MEASURES
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def best_and_last(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for every row: NDCG@5 at the last step and at each seed's best one, with FLOPS there, means over
    seeds and their range. The best step is chosen on the set that it is shown for, so it flatters.
    """
    names = list(dict.fromkeys(run["row"] for run in runs))
    lines: list[dict[str, Any]] = []
    for name in names:
        found = [run for run in runs if run["row"] == name]
        line: dict[str, Any] = {"row": name, "seeds": len(found)}
        for data in (key for key in found[0]["final"] if key != "step"):
            last = [run["final"][data] for run in found]
            points = [run["measured"] or [{"step": 0, **run["final"]}] for run in found]
            best = [max(some, key=lambda point: (point[data]["ndcg@5"], -point["step"])) for some in points]
            line[f"{data}: last"] = _cell([one["ndcg@5"] for one in last], "ndcg@5")
            line[f"{data}: best"] = _cell([one[data]["ndcg@5"] for one in best], "ndcg@5")
            line[f"{data}: best step"] = ", ".join(str(one["step"]) for one in best)
            line[f"{data}: FLOPS, last / best"] = " / ".join(
                _cell([one["flops"] for one in some], "flops") for some in (last, [one[data] for one in best])
            )
        line["zero in the table"] = ", ".join(
            f"{run['table']['zero']:.2f}" for run in found if "table" in run
        )
        lines.append(line)
    return lines


def _cell(values: list[float], measure: str) -> str:
    mean = float(np.mean(values))
    if measure == "ndcg@5":
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
        return f"{mean:.3f}{spread}"
    return {"flops": f"{mean:.2f}", "active": f"{mean:.0f}", "stop_share": f"{100 * mean:.1f} %"}[measure]


def draw(rows: Results, path: Path) -> None:
    """Lines are means over seeds, bands reach from the lowest seed to the highest."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing curves", "train") from error
    trained = {name: runs for name, runs in rows.items() if any(run["curve"] for run in runs)}
    if not trained:
        raise InputError("There is no trained row to draw.")
    sets = [name for name in next(iter(trained.values()))[0]["final"] if name != "step"]
    before = rows["before training"][0]["final"] if "before training" in rows else None
    pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = pyplot.subplots(4, len(sets), figsize=(4.6 * len(sets), 11), squeeze=False)
    colours = {row: pyplot.get_cmap("tab10")(n % 10) for n, row in enumerate(trained)}
    panels = [(measure, name) for measure in SCALES for name in sets]
    for axis, (measure, name) in zip(axes.flat, panels, strict=False):
        _draw_measure(axis, trained, colours, name, measure, before)
    for axis, part in zip(axes[3], TRAINING, strict=False):
        _draw_training(axis, trained, colours, part)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.015 + 0.018 * -(-len(trained) // 2), 1, 1))
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
    if path.suffix == ".png":  # a fourth of the size, for pages that show it
        with Image.open(path) as full:
            small = full.convert("RGB").quantize(96)
        small.save(path, optimize=True)


def _draw_measure(
    axis: Any,
    trained: Results,
    colours: dict[str, Any],
    name: str,
    measure: str,
    before: dict[str, Any] | None,
) -> None:
    """One measure of one dev set, over training."""
    for row, runs in trained.items():
        # The start is as good as a third stop words: it would press all that follows to the ground.
        steps, values = _measured(runs, name, measure, before if measure != "stop_share" else None)
        axis.plot(steps, values.mean(0), color=colours[row], label=row, linewidth=1.4)
        axis.fill_between(steps, values.min(0), values.max(0), color=colours[row], alpha=0.13, linewidth=0)
    axis.set_title(f"{name}: {MEASURES[measure]}", fontsize=9)
    axis.set_yscale(SCALES[measure])


def _draw_training(axis: Any, trained: Results, colours: dict[str, Any], part: str) -> None:
    """One number of the training pages, a line a seed."""
    for row, runs in trained.items():
        for run in runs:
            curve = _smooth((point["step"], point[part]) for point in run["curve"] if point["pages"])
            axis.plot(*curve, color=colours[row], label=row, linewidth=1.0)
    axis.set_title(f"training pages: {TRAINING[part]}", fontsize=9)
    axis.set_yscale("log")


def _measured(
    runs: list[dict[str, Any]], name: str, measure: str, before: dict[str, Any] | None
) -> tuple[list[int], NDArray[np.float64]]:
    """Steps that all seeds reached, and (seeds, steps) values; the untrained model stands at step 0."""
    count = min(len(run["measured"]) for run in runs)
    steps = [point["step"] for point in runs[0]["measured"][:count]]
    values = np.array([[point[name][measure] for point in run["measured"][:count]] for run in runs])
    if before is None:
        return steps, values
    start = np.full((len(runs), 1), before[name][measure])
    return [0, *steps], np.concatenate([start, values], 1)


def _smooth(points: Iterable[tuple[int, float]], width: int = 5) -> tuple[list[int], list[float]]:
    pairs = list(points)
    steps, values = [step for step, _ in pairs], [value for _, value in pairs]
    return steps, [float(np.median(values[max(0, n - width + 1) : n + 1])) for n in range(len(values))]


@dataclass(frozen=True)
class CurvesOptions:
    results: Path = option("ablation.json, of research.paper.ablation.", argument=True)
    rows: tuple[str, ...] = option(
        "This row only, beside the untrained model; may be given several times.", ()
    )
    curves: Path | None = option("A picture to draw.", None)


def curves(options: CurvesOptions) -> str:
    """The tables of the ablation, and its curves."""
    rows = choose(read_results(options.results), list(options.rows))
    if options.curves:
        draw(rows, options.curves)
    lines = best_and_last([run for runs in rows.values() for run in runs])
    head = "| " + " | ".join(lines[0]) + " |\n" + "|---" * len(lines[0]) + "|"
    body = ["| " + " | ".join(map(str, line.values())) + " |" for line in lines]
    return "\n".join([table(rows), "\nThe best step beside the last:\n", head, *body])


if __name__ == "__main__":
    main(curves, CurvesOptions)
