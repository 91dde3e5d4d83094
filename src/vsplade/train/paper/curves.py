"""The ablation's results for people: a table in Markdown, and curves over training.

python -m vsplade.train.paper.curves results/ablation.json --curves curves.png > table.md
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from vsplade.errors import InputError, MissingExtraError

MEASURES = {"ndcg@5": "NDCG@5", "flops": "FLOPS", "active": "active terms", "stop_share": "stop words"}

Results = dict[str, list[dict[str, Any]]]


def read_results(path: Path) -> Results:
    """Runs by row, in the order in which rows were first listed."""
    try:
        runs = json.loads(path.read_text("utf-8"))["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no results of the ablation ({error}).") from error
    from vsplade.train.paper.ablation import ROWS

    rows: Results = {}
    for name in ("before training", *(row.name for row in ROWS)):
        found = sorted(
            (run for run in runs if run["row"] == name and "failed" not in run), key=lambda run: run["seed"]
        )
        if found:
            rows[name] = found
    return rows


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


def _cell(values: list[float], measure: str) -> str:
    mean = float(np.mean(values))
    if measure == "ndcg@5":
        spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
        return f"{mean:.3f}{spread}"
    return {"flops": f"{mean:.2f}", "active": f"{mean:.0f}", "stop_share": f"{100 * mean:.1f} %"}[measure]


def draw(rows: Results, path: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing curves", "eval") from error
    trained = {name: runs for name, runs in rows.items() if any(run["curve"] for run in runs)}
    first = next(iter(trained.values()))[0]
    sets = [name for name in first["final"] if name != "step"]
    panels = [(name, measure) for measure in ("ndcg@5", "flops", "stop_share") for name in sets]
    figure, axes = pyplot.subplots(4, len(sets), figsize=(6.5 * len(sets), 15), squeeze=False)
    colours = {row: pyplot.get_cmap("tab10")(n % 10) for n, row in enumerate(trained)}
    before = rows["before training"][0]["final"] if "before training" in rows else None
    for axis, (name, measure) in zip(axes.flat, panels, strict=False):
        for row, runs in trained.items():
            for run in runs:
                start = [(0, before[name][measure])] if before is not None else []
                points = start + [(point["step"], point[name][measure]) for point in run["measured"]]
                label = row if run is runs[0] else None
                axis.plot(*zip(*points, strict=True), color=colours[row], label=label, linewidth=1.2)
        axis.set_title(f"{name}: {MEASURES[measure]}")
    for axis, part, title in zip(
        axes[3], ("rank", "active"), ("loss of ranking", "active terms"), strict=False
    ):
        for row, runs in trained.items():
            smooth = _smooth((point["step"], point[part]) for point in runs[0]["curve"] if point["pages"])
            axis.plot(*smooth, color=colours[row], label=row, linewidth=1.2)
        axis.set_title(f"training pages: {title}")
        axis.set_yscale("log" if part == "rank" else "linear")
    for axis in axes.flat:
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def _smooth(points: Iterable[tuple[int, float]], width: int = 5) -> tuple[list[int], list[float]]:
    pairs = list(points)
    steps, values = [step for step, _ in pairs], [value for _, value in pairs]
    return steps, [float(np.mean(values[max(0, n - width + 1) : n + 1])) for n in range(len(values))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--curves", type=Path, help="a picture to draw")
    given = parser.parse_args()
    rows = read_results(given.results)
    print(table(rows))
    if given.curves:
        draw(rows, given.curves)


if __name__ == "__main__":
    main()
