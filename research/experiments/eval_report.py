"""Reports of one or more systems, for machines (JSON) and for people (Markdown, HTML with plots).

vsplade eval my-set --json --per-query > reader.json
python -m research.experiments.eval_report OUT reader.json bm25.json
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from research.command import main, option
from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate.evaluator import EvalReport
from vsplade.evaluate.measures import MEASURES, Significance, paired_bootstrap

_COLUMNS: tuple[tuple[str, Callable[[EvalReport], str]], ...] = (
    ("data set", lambda r: r.dataset),
    ("encoder", lambda r: r.encoder),
    ("NDCG@5", lambda r: f"{r.measures['ndcg@5']:.4f}"),
    ("R@1", lambda r: f"{r.measures['recall@1']:.4f}"),
    ("R@5", lambda r: f"{r.measures['recall@5']:.4f}"),
    ("R@100", lambda r: f"{r.measures['recall@100']:.4f}"),
    ("MRR@10", lambda r: f"{r.measures['mrr@10']:.4f}"),
    ("MAP@100", lambda r: f"{r.measures['map@100']:.4f}"),
    ("FLOPS", lambda r: f"{r.flops:.2f}"),
    ("terms/page", lambda r: f"{r.active_terms:.0f}"),
    ("pages/s", lambda r: "-" if r.pages_per_s is None else f"{r.pages_per_s:.1f}"),
    ("queries", lambda r: str(r.queries)),
    ("pages", lambda r: str(r.pages)),
)


def compare(reports: Sequence[EvalReport], measure: str = "ndcg@5") -> list[tuple[EvalReport, Significance]]:
    """Every later system against the first system that was measured on the same data set."""
    first: dict[str, EvalReport] = {}
    compared = []
    for report in reports:
        base = first.setdefault(report.dataset, report)
        if base is not report:
            compared.append((report, paired_bootstrap(base.per_query[measure], report.per_query[measure])))
    return compared


def to_markdown(reports: Sequence[EvalReport]) -> str:
    """A table, the differences with their significance, and the notes."""
    lines = ["| " + " | ".join(title for title, _ in _COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    lines += ["| " + " | ".join(cell(report) for _, cell in _COLUMNS) + " |" for report in reports]
    lines += ["", *(f"- {text}" for text in _remarks(reports))]
    return "\n".join(lines).rstrip() + "\n"


def to_html(reports: Sequence[EvalReport], plots: bool = True) -> str:
    """One self-contained page. ``plots`` needs matplotlib."""
    head = "".join(f"<th>{html.escape(title)}</th>" for title, _ in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell(report))}</td>" for _, cell in _COLUMNS) + "</tr>"
        for report in reports
    )
    remarks = "".join(f"<li>{html.escape(text)}</li>" for text in _remarks(reports))
    pictures = ""
    if plots:
        for title, png in plot(reports).items():
            name, data = html.escape(title), base64.b64encode(png).decode()
            pictures += f'<h2>{name}</h2><img alt="{name}" src="data:image/png;base64,{data}">'
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>vsplade evaluation</title>'
        "<style>body{font:15px system-ui;margin:2em auto;max-width:70em}"
        "td,th{padding:.2em .6em;text-align:right}"
        "td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}</style>"
        f"<h1>Evaluation</h1><table><tr>{head}</tr>{rows}</table><ul>{remarks}</ul>{pictures}</html>\n"
    )


def write_report(folder: str | Path, reports: Sequence[EvalReport], plots: bool = True) -> list[Path]:
    """Write ``report.json`` (with every query's values), ``report.md`` and ``report.html``."""
    if not reports:
        raise InputError("There is nothing to report: no system was measured.")
    folder = Path(folder)
    contents = {
        "report.json": json.dumps({"reports": [r.to_json(per_query=True) for r in reports]}, indent=1) + "\n",
        "report.md": to_markdown(reports),
        "report.html": to_html(reports, plots),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in contents]


def check_plots() -> None:
    """Before the work that a report is about: without matplotlib there will be none."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Plots in reports", "train")


def plot(reports: Sequence[EvalReport]) -> dict[str, bytes]:
    """PNG pictures by title: recall by depth, and quality against cost."""
    check_plots()
    from matplotlib.figure import Figure  # not pyplot: it would choose a window system on import

    depth, cost = Figure(figsize=(7, 4)), Figure(figsize=(7, 4))
    axes = depth.subplots()
    depths = (1, 5, 10, 100)
    for report in reports:
        values = [report.measures[f"recall@{k}"] for k in depths]
        axes.plot(depths, values, marker="o", label=f"{report.dataset}: {report.encoder}")
    axes.set(
        xscale="log", xlabel="pages looked at", ylabel="recall", xticks=depths, xticklabels=map(str, depths)
    )
    axes.legend(fontsize="small")
    axes = cost.subplots()
    for report in reports:
        axes.scatter(report.flops, report.measures["ndcg@5"], label=f"{report.dataset}: {report.encoder}")
    axes.set(xlabel="FLOPS (shared terms of a query and a page)", ylabel="NDCG@5")
    axes.legend(fontsize="small")
    return {"Recall by depth": _png(depth), "Quality against cost": _png(cost)}


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight")
    return buffer.getvalue()


def _remarks(reports: Sequence[EvalReport]) -> list[str]:
    remarks = [
        f"{report.dataset}, {report.encoder} against the first system: NDCG@5 {s.difference:+.4f} "
        f"(95% interval {s.low:+.4f} to {s.high:+.4f}, p = {s.p_value:.4f}, paired bootstrap)"
        for report, s in compare(reports)
    ]
    remarks += [f"{report.dataset}, {report.encoder}: {note}" for report in reports for note in report.notes]
    return remarks


_FACTS = (
    "dataset", "encoder", "fingerprint", "queries", "pages", "pages_per_s", "active_terms", "query_terms",
    "flops", "query_ms", "per_query",
)  # fmt: skip


def read_report(path: Path) -> EvalReport:
    """What ``vsplade eval --json --per-query`` printed."""
    try:
        facts = json.loads(path.read_text("utf-8"))
        measures = {name: facts[name] for name in MEASURES}
        given = {name: facts[name] for name in _FACTS}
        return EvalReport(measures=measures, notes=tuple(facts["notes"]), **given)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not what vsplade eval --json --per-query prints ({error!r}).") from error


@dataclass(frozen=True)
class EvalReportOptions:
    to: Path = option("The folder to write report.json, report.md and report.html into.", argument=True)
    results: tuple[Path, ...] = option("What vsplade eval --json --per-query printed.", argument=True)
    no_plots: bool = option("Leave the plots out of report.html.", False)


def report(options: EvalReportOptions) -> list[str]:
    """Write one report of several systems, each beside the first on its data set."""
    reports = [read_report(path) for path in options.results]
    return [str(path) for path in write_report(options.to, reports, not options.no_plots)]


if __name__ == "__main__":
    main(report, EvalReportOptions)
