"""The rows of the paper's main table: what it reports, and the name that mteb's registry knows each system
by.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from vsplade.errors import InputError, VspladeError
from vsplade.evaluate.benchmarks import BENCHMARKS

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


def measured_row(folder: Path, name: str) -> str:
    """A row of one's own from ``GROUP.SUBSET.json`` files, as runs/benchmark_table.sh keeps them.

    A column is the mean NDCG@5 of its subsets in points. One that is not complete says how many of them it
    stands for, and only a row of complete columns has an average: others cannot be compared with the paper's.
    """
    cells, complete = [], []
    for group in COLUMNS:
        found = [
            path for subset in BENCHMARKS[group] if (path := folder / f"{group}.{subset}.json").is_file()
        ]
        if not found:
            cells.append("-")
            continue
        mean = 100 * sum(map(_ndcg, found)) / len(found)
        whole = len(found) == len(BENCHMARKS[group])
        cells.append(f"{mean:.1f}" if whole else f"{mean:.1f} ({len(found)} of {len(BENCHMARKS[group])})")
        complete += [mean] if whole else []
    average = f"{sum(complete) / len(COLUMNS):.1f}" if len(complete) == len(COLUMNS) else "-"
    head = ["system", *COLUMNS, "average"]
    lines = ["| " + " | ".join(row) + " |" for row in (head, [name, *cells, average])]
    return "\n".join([lines[0], "|" + "---|" * len(head), lines[1]]) + "\n"


def _ndcg(path: Path) -> float:
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["ndcg@5"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no result of vsplade eval --json ({error}). Remove it and run again."
        ) from error


def main() -> None:
    parser = argparse.ArgumentParser(description="A row of the paper's main table from results of one's own.")
    parser.add_argument("folder", type=Path, help="with GROUP.SUBSET.json files of vsplade eval --json")
    parser.add_argument("--name", default="ours", help="what the row is called")
    options = parser.parse_args()
    try:
        print(measured_row(options.folder, options.name), end="")
    except VspladeError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
