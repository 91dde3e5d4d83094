"""The paper's figures from results of one's own, as SVG for the report.

The paper has five: what caption gating is, serving FLOPs, recall as the corpus grows, reranking, stop words
over training. The sixth here is recall against latency, which the paper gives as a table.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vsplade.errors import MissingExtraError

Rows = Sequence[Mapping[str, Any]]
Lines = Mapping[str, Sequence[tuple[float, float]]]
SIZE = (6.4, 3.4)


def _draw(draw: Callable[[Any, Any], None], size: tuple[float, float] = SIZE) -> str:
    """An <svg> element of what ``draw`` puts on a figure and its axes."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing figures", "train") from error
    with pyplot.rc_context(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "vsplade"}
    ):
        figure, axes = pyplot.subplots(figsize=size)
        draw(figure, axes)
        figure.tight_layout()
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    text = stream.getvalue()
    return text[text.index("<svg") :]


def overview() -> str:
    """Caption-gated token supervision: both views in one vocabulary, their product says what to bring up."""
    boxes = {
        (0.02, 0.62): "page picture", (0.02, 0.12): "caption\n(training only)",
        (0.30, 0.62): "sparse encoder",
        (0.30, 0.12): "same encoder,\nmasked by the\ncaption's words", (0.56, 0.62): "page weights  w_p",
        (0.56, 0.12): "caption weights  w_c", (0.80, 0.37): "gate\nw_p · w_c\nloss on the page's\nlogits",
    }  # fmt: skip
    arrows = [
        ((0.20, 0.73), (0.30, 0.73)), ((0.20, 0.23), (0.30, 0.23)), ((0.48, 0.73), (0.56, 0.73)),
        ((0.48, 0.23), (0.56, 0.23)), ((0.74, 0.70), (0.82, 0.59)), ((0.74, 0.26), (0.82, 0.38)),
    ]  # fmt: skip

    def draw(_: Any, axes: Any) -> None:
        axes.axis("off")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        for (x, y), text in boxes.items():
            style = {"boxstyle": "round,pad=0.02", "facecolor": "#eef3fa", "edgecolor": "#456"}
            axes.text(x + 0.09, y + 0.11, text, ha="center", va="center", fontsize=8, bbox=style)
        for start, end in arrows:
            axes.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "->", "color": "#456"})

    return _draw(draw, (7.2, 2.6))


def serving_flops(rows: Rows) -> str:
    """Operations a query, on a logarithmic scale."""

    def draw(_: Any, axes: Any) -> None:
        names, totals = [str(row["system"]) for row in rows], [max(1, row["total"]) for row in rows]
        bars = axes.barh(names, totals, color="#4477aa")
        axes.bar_label(bars, [f"{total:.2g}" for total in totals], padding=3, fontsize=8)
        axes.set_xscale("log")
        axes.invert_yaxis()
        axes.set_xlabel("multiply-adds a query, 1,000 pages scored")

    return _draw(draw)


def growth(lines: Lines) -> str:
    """Recall@5 as a share of its value in the smallest corpus."""

    def draw(_: Any, axes: Any) -> None:
        for name, points in lines.items():
            first = points[0][1] or 1.0
            axes.plot([size for size, _ in points], [value / first for _, value in points], "o-", label=name)
        sizes = sorted({size for points in lines.values() for size, _ in points})
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("pages")
        axes.set_ylabel("recall@5, first size = 1")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)

    return _draw(draw)


def reranking(rows: Rows) -> str:
    """Before, after and the ceiling, for each first stage."""
    parts = {
        "recall@5": "first stage",
        "recall@5, reranked": "reranked",
        "recall@100": "ceiling (recall@100)",
    }

    def draw(_: Any, axes: Any) -> None:
        for place, (key, label) in enumerate(parts.items()):
            at = [n + 0.27 * (place - 1) for n in range(len(rows))]
            bars = axes.bar(at, [row[key] for row in rows], 0.25, label=label)
            axes.bar_label(bars, fmt="%.3f", fontsize=7)
        axes.set_xticks(range(len(rows)), [str(row["first stage"]) for row in rows])
        axes.set_ylabel("recall")
        axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.2))

    return _draw(draw)


def stop_words(lines: Lines) -> str:
    """The stop words' share of the terms that queries and their pages share, over training."""

    def draw(_: Any, axes: Any) -> None:
        for name, points in lines.items():
            axes.plot([step for step, _ in points], [100 * share for _, share in points], "o-", label=name)
        axes.set_xlabel("step")
        axes.set_ylabel("stop words among matches, %")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7)

    return _draw(draw)


def trade_off(rows: Rows) -> str:
    """Recall@5 against milliseconds a query on one thread, with what encoding it takes."""

    def draw(_: Any, axes: Any) -> None:
        for marker, row in zip("osDv^<>ph*", rows, strict=False):
            spent = row["ms, 1 threads"] + row.get("query_encoding_ms", 0.0)
            axes.plot(spent, row["recall@5"], marker, label=str(row["search"]))
        axes.set_xscale("log")
        axes.set_xlabel("ms a query, one thread, with encoding it")
        axes.set_ylabel("recall@5")
        axes.margins(x=0.15, y=0.15)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))

    return _draw(draw)
