"""Every table and figure of the paper as one HTML page, from what the scripts in research/runs have kept.

    python -m research.experiments.report results --out report.html

Each section has the paper's numbers, then those that were measured, by data set. What has not been run says
so, with the command. The page needs no other file and no network.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments import figures
from research.experiments.paper import ROWS, measured_rows, paper_rows
from vsplade.errors import InputError

Row = Mapping[str, Any]
NUMBERS: dict[str, Sequence[Row]] = {
    "main": paper_rows(ROWS),
    **json.loads(Path(__file__).with_name("paper_numbers.json").read_text("utf-8")),
}
CAPTIONER = "captions-"
"""How the rows of ``caption_scale.sh`` begin."""
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; color: #223 }
table { border-collapse: collapse; margin: .5rem 0 1.2rem; font-size: 13px }
th, td { border-bottom: 1px solid #ccd; padding: .25rem .6rem; text-align: left; vertical-align: top }
th { background: #f2f5f9 } caption { text-align: left; font-weight: 600; padding: .3rem 0 }
.missing { color: #855 } svg { max-width: 100%; height: auto } code { background: #f2f5f9; padding: 0 .2rem }
figcaption { font-size: 13px; color: #556 }
"""


@dataclass(frozen=True)
class Part:
    """What a section shows of one result: tables by caption, and figures by caption."""

    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    """SVG elements."""


@dataclass(frozen=True)
class Section:
    title: str
    script: str
    """In research/runs; it makes what is shown."""
    paper: str
    """Which of the paper's numbers stand beside it."""
    show: Callable[[Path], list[Part]]
    about: str = ""


def kept(folder: Path, name: str) -> Iterable[tuple[str, Any]]:
    """(data set, result) of every ``NAME.SET.json``."""
    for path in sorted(folder.glob(f"{name}.*.json")):
        yield path.name.removeprefix(f"{name}.").removesuffix(".json"), _read(path)


def _rows(name: str, key: str = "rows") -> Callable[[Path], list[Part]]:
    return lambda folder: [
        Part({found: result if isinstance(result, list) else result[key]})
        for found, result in kept(folder, name)
    ]


def data(folder: Path) -> list[Part]:
    """What the scripts ran on: ``SET.json``, as ``vsplade eval`` wrote it."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        result = _read(path)
        if isinstance(result, dict) and {"pages", "queries", "ndcg@5"} <= result.keys():
            shown = ("encoder", "pages", "queries", "ndcg@5", "flops", "active_terms")
            rows.append({"data set": path.stem, **{key: result.get(key) for key in shown}})
    return [Part({"pages and queries": rows})] if rows else []


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is no JSON ({error}). Remove it and run its script again.") from error


def grounding(folder: Path) -> list[Part]:
    return [
        Part({found: [{"view": view, **shares} for view, shares in result["overlap"].items()]})
        for found, result in kept(folder, "grounding")
    ]


def main_table(folder: Path) -> list[Part]:
    rows = measured_rows(folder / "table")
    return [Part({"NDCG@5, in points": rows})] if rows else []


def serving(folder: Path) -> list[Part]:
    return [
        Part({found: result["per_query"]}, {found: figures.serving_flops(result["per_query"])})
        for found, result in kept(folder, "flops")
    ]


def throughput(folder: Path) -> list[Part]:
    """The encoder and Tesseract from ``research.bench.reading``, other OCR from ``research.bench.ocr``."""
    tables: dict[str, list[Row]] = {}
    for found, result in kept(folder, "throughput"):
        rates = {result["engine"]: result} if "engine" in result else {
            name: result[name] for name in ("reader", "tesseract") if name in result
        }  # fmt: skip
        for name, rate in rates.items():
            wall = rate.get("pages_per_s") or result["pages"] / result["wall_s"]
            busy = rate.get("pages_per_cpu_s") or rate["pages_per_processor_s"]
            row = {"system": result.get("encoder", name) if name == "reader" else name,
                   "pages a second": wall, "a second of processor time": busy,
                   "pages": result["pages"], "cores": result.get("cores", 1)}  # fmt: skip
            tables.setdefault(found.split(".")[0], []).append(row)
    return [Part({found: rows}) for found, rows in tables.items()]


def scale(folder: Path) -> list[Part]:
    return [
        Part({found: result["rows"]}, {found: figures.trade_off(result["rows"])})
        for found, result in kept(folder, "scale")
    ]


def growth(folder: Path) -> list[Part]:
    parts = []
    for found, result in kept(folder, "growth"):
        rows, dense = result["rows"], result.get("dense rows") or []
        named = {"ours": rows, "dense": dense} if dense else {"ours": rows}
        lines = {name: [(row["pages"], row["recall@5"]) for row in some] for name, some in named.items()}
        tables = {f"{found}, {name}": some for name, some in named.items()}
        parts.append(Part(tables, {found: figures.growth(lines)}))
    return parts


def reranking(folder: Path) -> list[Part]:
    return [
        Part({f"{found}, by {result['model']}": result["rows"]}, {found: figures.reranking(result["rows"])})
        for found, result in kept(folder, "reranking")
    ]


def _ablation(folder: Path) -> list[dict[str, Any]]:
    path = folder / "ablation" / "ablation.json"
    return [] if not path.is_file() else [
        run for run in json.loads(path.read_text("utf-8"))["results"] if "failed" not in run
    ]  # fmt: skip


def ablation(folder: Path, gates: bool = False) -> list[Part]:
    """Means over seeds; at the last step and at each seed's best one, by NDCG@5 on the set itself."""
    from research.paper.curves import best_and_last

    rows = best_and_last(_ablation(folder))
    chosen = [row for row in rows if ("gated by" in row["row"] or "report" in row["row"]) == gates]
    return [Part({"the reader's features, small layers on top": chosen})] if chosen else []


def stop_words(folder: Path) -> list[Part]:
    """From trainings of the paper's model that were measured on the way, and from the ablation."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for path in sorted(folder.glob("training/*/judged.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        lines[path.parent.name] = [(row["step"], row["stop_share"]) for row in rows]
    for run in _ablation(folder):
        if run["row"] in ("Li-LSR", "Li-LSR, caption-gated") and run["measured"]:
            found = next(name for name in run["measured"][0] if name != "step")
            points = [(point["step"], point[found]["stop_share"]) for point in run["measured"]]
            lines[f"{run['row']}, seed {run['seed']}, {found}"] = points
    return [Part(figures={"share of matches over training": figures.stop_words(lines)})] if lines else []


def cases(folder: Path) -> list[Part]:
    parts = []
    for found, result in kept(folder, "cases"):
        rows = []
        for case in result["cases"]:
            terms = {
                key: ", ".join(f"{token} {weight:.2f}" for token, weight in case[key])
                for key in ("Q", "P", "P*", "C", "C*")
            }
            rows.append({"query": case["query"], **terms, "page": case["picture"] or case["page"]})
        parts.append(Part({found: rows}))
    return parts


def union(folder: Path) -> list[Part]:
    return [Part({found: [result]}) for found, result in kept(folder, "union")]


def overview(_: Path) -> list[Part]:
    return [Part(figures={"both views in one vocabulary": figures.overview()})]


def captioners(folder: Path) -> list[Part]:
    """Rows of the main table that ``caption_scale.sh`` has made, and the ablation's sources of captions."""
    own = [row for row in measured_rows(folder / "table") if row["system"].startswith(CAPTIONER)]
    rows = [{"captions by": row.pop("system").removeprefix(CAPTIONER), **row} for row in own]
    return [*([Part({"NDCG@5, in points": rows})] if rows else []), *ablation(folder, gates=True)]


SECTIONS = (
    Section(
        "What was measured on", "all.sh", "", data,
        "Compare numbers only where pages, queries and encoder are the same. All is by words alone.",
    ),
    Section("Caption-gated token supervision", "grounding.sh", "", overview),
    Section(
        "Lexical grounding", "grounding.sh", "grounding", grounding,
        "Share of the k heaviest terms that stand on the page.",
    ),
    Section(
        "Main table", "benchmark_table.sh", "main", main_table,
        "NDCG@5 in points. Compare a row with the paper's only where its columns are complete.",
    ),
    Section(
        "Serving FLOPs", "flops.sh", "", serving,
        "To encode one query and score 1,000 pages. The sparse row is measured, the others are formulas.",
    ),
    Section(
        "Encoding throughput", "throughput.sh", "throughput", throughput,
        "The paper's systems had one H100 and four cores.",
    ),
    Section(
        "Recall and latency at scale", "scale.sh", "scale", scale,
        "The paper's corpus has 18.7 million pages. The first 100 pages. Milliseconds of a search leave out "
        "encoding the query, which has its own column; the figure holds both. Bare vectors: hashes of other "
        "words are not sorted out as the main table's search does.",
    ),
    Section("Query subsets", "subsets.sh", "subsets", _rows("subsets"), "Recall@5."),
    Section(
        "Recall as the corpus grows", "growth.sh", "growth", growth,
        "The paper's cells are recall@5 / recall@100. Bare vectors, as above.",
    ),
    Section(
        "Fusion at scale", "fusion.sh", "fusion", _rows("fusion"),
        "The weight is the best one on the set itself.",
    ),
    Section(
        "Reranking", "reranking.sh", "reranking", reranking, "The first 100 pages of two first stages."
    ),
    Section("Ablation", "paper_ablation.sh", "ablation", ablation),
    Section("Union of image and caption terms", "union.sh", "union", union),
    Section(
        "Token cases", "cases.sh", "cases", cases,
        "Heaviest terms of query (Q), page (P) and caption (C). P* and C* are what page and caption give the "
        "query's term that the page hides most.",
    ),
    Section("Stop words over training", "paper_ablation.sh", "", stop_words),
    Section(
        "Masking, margin, stop words, active terms", "behaviour.sh", "behaviour", _rows("behaviour")
    ),
    Section(
        "Scale of the captioner", "caption_scale.sh", "captions", captioners,
        "In the ablation: sources of captions in place of sizes of one captioner.",
    ),
)  # fmt: skip


def page(folder: Path) -> tuple[str, list[str]]:
    """The report, and the titles of sections for which nothing was found."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Give the OUT of the scripts in research/runs.")
    body, missing = [], []
    for section in SECTIONS:
        parts = section.show(folder)
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += [f"<p>{html.escape(section.about)}</p>"] if section.about else []
        if section.paper:
            body.append(_table("the paper", NUMBERS[section.paper]))
        for part in parts:
            body += [_table(f"measured: {caption}", rows) for caption, rows in part.tables.items()]
            body += [
                f"<figure>{drawn}<figcaption>{html.escape(caption)}</figcaption></figure>"
                for caption, drawn in part.figures.items()
            ]
        if not parts:
            missing.append(section.title)
            body.append(
                f'<p class="missing">Not run. <code>research/runs/{section.script}</code> makes it.</p>'
            )
    title = "V-SPLADE, table by table"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return f"{head}<style>{STYLE}</style><h1>{title}</h1>" + "\n".join(body) + "</html>\n", missing


def _table(caption: str, rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    lines = ["<tr>" + "".join(_cell(row.get(column, "")) for column in columns) + "</tr>" for row in rows]
    return f"<table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{''.join(lines)}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, str) and value.startswith("data:image/jpeg;base64,"):
        return f'<td><img alt="the page" src="{html.escape(value, quote=True)}"></td>'
    shown = (
        f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    )
    return f"<td>{html.escape('' if value is None else shown)}</td>"


@dataclass(frozen=True)
class ReportOptions:
    folder: Path = option("OUT of the scripts in research/runs.", argument=True)
    out: Path = option("The page to write.", Path("report.html"))


def report(options: ReportOptions) -> dict[str, Any]:
    """Every table and figure of the paper as one HTML page."""
    text, missing = page(options.folder)
    options.out.write_text(text, "utf-8")
    return {"report": str(options.out), "sections": len(SECTIONS), "not run": missing}


if __name__ == "__main__":
    main(report, ReportOptions)
