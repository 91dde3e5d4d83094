"""The rows of the paper's main table: what it reports, and the name that mteb's registry knows each system
by.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from research.command import main, option
from research.experiments.benchmarks import BENCHMARKS
from vsplade.errors import InputError

COLUMNS = ("vidore-v1", "vidore-v2", "vidore-v3", "visrag", "visdoc-ood", "irpapers")


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One system; NDCG@5 in points, in the order of ``COLUMNS``, as the paper prints them."""

    name: str
    size: str
    scores: tuple[float, ...]
    average: float
    late_interaction: bool = False
    query_encoder: bool = True
    flops: float | None = None
    mteb: str | None = None
    """Name in mteb's registry."""
    note: str = ""


def _read(path: Path) -> tuple[PaperRow, ...]:
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            PaperRow(
                row["system"],
                row["size"],
                tuple(float(row[column]) for column in COLUMNS),
                float(row["average"]),
                late_interaction=row["late_interaction"] == "yes",
                query_encoder=row["query_encoder"] == "yes",
                flops=float(row["flops"]) if row["flops"] else None,
                mteb=row["mteb"] or None,
                note=row["note"],
            )
            for row in csv.DictReader(file, delimiter="\t")
        )


ROWS = _read(Path(__file__).with_name("paper_rows.tsv"))


def to_markdown(rows: tuple[PaperRow, ...] = ROWS) -> str:
    """The table with every row's name in mteb, for the documentation."""
    head = ["system", "size", *COLUMNS, "average", "FLOPS", "in mteb", "remark"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row.name, row.size, *(f"{score:.1f}" for score in row.scores), f"{row.average:.1f}"]
        flops = "-" if row.flops is None else f"{row.flops:g}"
        cells += [flops, f"`{row.mteb}`" if row.mteb else "-", row.note]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def measured_cells(folder: Path) -> dict[str, str]:
    """The cells of one's own row from ``GROUP.SUBSET.json`` files, as runs/benchmark_table.sh keeps them.

    A column is the mean NDCG@5 of its subsets in points. One that is not complete says how many of them it
    stands for, and only a row of complete columns has an average: others cannot be compared with the paper's.
    Sets that are none of the paper's have columns of their own. FLOPS is the mean of all columns.
    """
    cells, complete = {}, []
    known = {f"{group}.{subset}": group for group in COLUMNS for subset in BENCHMARKS[group]}
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))}
    for group in COLUMNS:
        found = [path for name, path in paths.items() if known.get(name) == group]
        if not found:
            cells[group] = "-"
            continue
        mean = 100 * sum(map(_ndcg, found)) / len(found)
        whole = len(found) == len(BENCHMARKS[group])
        cells[group] = f"{mean:.1f}" if whole else f"{mean:.1f} ({len(found)} of {len(BENCHMARKS[group])})"
        complete += [mean] if whole else []
    cells["average"] = f"{sum(complete) / len(COLUMNS):.1f}" if len(complete) == len(COLUMNS) else "-"
    cells |= {name: f"{100 * _ndcg(path):.1f}" for name, path in paths.items() if name not in known}
    groups: dict[str, list[Path]] = {}
    for name, path in paths.items():
        groups.setdefault(known.get(name, name), []).append(path)
    return cells | {"FLOPS": _mean_flops(list(groups.values()))}


def measured_row(folder: Path, name: str) -> str:
    """One's own row as Markdown."""
    return _markdown([{"system": name, **measured_cells(folder)}])


def measured_rows(folder: Path) -> list[dict[str, str]]:
    """A row for every folder in ``folder``, by its name; columns that no row fills are left out."""
    rows = [
        {"system": path.name, **measured_cells(path)}
        for path in sorted(folder.glob("*"))
        if path.is_dir() and any(path.glob("*.json"))
    ]
    filled = [name for name in dict.fromkeys(key for row in rows for key in row) if _filled(rows, name)]
    return [{name: row.get(name, "-") for name in filled} for row in rows]


def _filled(rows: list[dict[str, str]], name: str) -> bool:
    return any(row.get(name, "-") != "-" for row in rows)


def _markdown(rows: list[dict[str, str]]) -> str:
    head = list(rows[0])
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *(list(row.values()) for row in rows))]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def paper_rows(rows: tuple[PaperRow, ...] = ROWS) -> list[dict[str, object]]:
    """The paper's own table as rows of a report."""
    return [
        {"system": row.name, "size": row.size, **dict(zip(COLUMNS, row.scores, strict=True)),
         "average": row.average, "FLOPS": row.flops, "in mteb": row.mteb}
        for row in rows
    ]  # fmt: skip


def _mean_flops(groups: list[list[Path]]) -> str:
    """Over the columns of a row, as its average; dense rows and fused ones have none."""
    found = [[json.loads(path.read_text("utf-8")).get("flops") for path in paths] for paths in groups]
    if not found or any(None in values for values in found):
        return "-"
    return f"{sum(sum(values) / len(values) for values in found) / len(found):.2f}"


def _ndcg(path: Path) -> float:
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["ndcg@5"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no result of vsplade eval --json ({error}). Remove it and run again."
        ) from error


@dataclass(frozen=True)
class PaperOptions:
    folder: Path = option("A folder of NAME.json files (vsplade eval) for each row.", argument=True)
    name: str | None = option("The folder is one row, called so.", None)


def own_rows(options: PaperOptions) -> str:
    """Rows of the paper's main table from results of one's own."""
    if options.name is not None:
        return measured_row(options.folder, options.name)
    rows = measured_rows(options.folder)
    if not rows:
        raise InputError(f"{options.folder} has no folder with results of vsplade eval --json.")
    return _markdown(rows)


if __name__ == "__main__":
    main(own_rows, PaperOptions)
