"""The rows of the paper's main table: what it reports, and the name that mteb's registry knows each system
by.
"""

from __future__ import annotations

import argparse
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
    scores: tuple[float, float, float, float, float, float]
    average: float
    late_interaction: bool = False
    query_encoder: bool = True
    flops: float | None = None
    mteb: str | None = None
    """Name in mteb's registry."""
    note: str = ""


ROWS = (
    PaperRow(
        "ColFlor",
        "0.17B",
        (77.4, 43.1, 36.8, 68.0, 57.3, 52.5),
        55.8,
        late_interaction=True,
        note="ahmed-masry/ColFlor on the hub; mteb's registry does not have it, so it was not run",
    ),
    PaperRow(
        "ColModernVBERT",
        "0.25B",
        (83.9, 56.0, 44.6, 79.6, 66.1, 62.6),
        65.5,
        late_interaction=True,
        mteb="ModernVBERT/colmodernvbert",
    ),
    PaperRow("Jina CLIP v2", "0.9B", (55.7, 28.5, 25.7, 48.1, 47.2, 26.6), 38.6, mteb="jinaai/jina-clip-v2"),
    PaperRow(
        "SigLIP2-L",
        "0.9B",
        (42.7, 27.0, 22.9, 42.7, 34.8, 13.0),
        30.5,
        mteb="google/siglip2-large-patch16-384",
        note="the paper does not say at which resolution",
    ),
    PaperRow(
        "BiModernVBERT", "0.25B", (67.6, 35.7, 28.9, 60.5, 53.4, 31.8), 46.3, mteb="ModernVBERT/bimodernvbert"
    ),
    PaperRow(
        "D2S",
        "0.25B",
        (5.8, 4.6, 1.8, 8.3, 9.6, 0.6),
        5.1,
        flops=14.7,
        note="the paper's numbers; not run here: no public weights for page pictures",
    ),
    PaperRow(
        "JSDO-Sparse",
        "0.25B",
        (16.8, 12.4, 5.8, 19.6, 29.7, 2.6),
        14.5,
        flops=1814.0,
        note="the paper's numbers; not run here: no public weights for page pictures",
    ),
    PaperRow(
        "V-SPLADE quality",
        "0.25B",
        (77.4, 49.9, 40.9, 76.4, 61.7, 54.0),
        60.1,
        query_encoder=False,
        flops=1.9,
    ),
    PaperRow(
        "V-SPLADE efficient",
        "0.25B",
        (74.6, 46.6, 37.6, 73.0, 59.5, 47.1),
        56.4,
        query_encoder=False,
        flops=1.1,
    ),
    PaperRow(
        "BM25 (caption)", "-", (67.5, 44.1, 38.3, 76.5, 58.0, 38.4), 53.8, query_encoder=False, flops=1.3
    ),
    PaperRow(
        "BM25 (unstructured)", "-", (68.2, 41.7, 38.7, 61.1, 51.2, 65.7), 54.4, query_encoder=False, flops=1.4
    ),
    PaperRow("BGE-M3 (caption)", "0.57B", (64.8, 53.5, 38.8, 72.0, 60.7, 37.0), 54.5, mteb="BAAI/bge-m3"),
    PaperRow(
        "BGE-M3 (unstructured)", "0.57B", (63.0, 50.9, 45.0, 55.8, 52.1, 55.7), 53.8, mteb="BAAI/bge-m3"
    ),
    PaperRow(
        "V-SPLADE + BiModernVBERT",
        "0.25/0.25B",
        (80.3, 51.9, 43.6, 78.1, 63.8, 55.7),
        62.2,
        note="RSF, weights 0.6 and 0.4",
    ),
    PaperRow(
        "V-SPLADE + BM25 (unstructured)",
        "0.25B",
        (78.7, 51.5, 44.8, 75.9, 62.2, 64.6),
        63.0,
        query_encoder=False,
        note="RSF, weights 0.7 and 0.3",
    ),
    PaperRow(
        "V-SPLADE + BiModernVBERT + BM25 (unstructured)",
        "0.25/0.25B",
        (80.7, 53.1, 47.2, 77.9, 64.0, 64.1),
        64.5,
        note="RSF, weights 0.5, 0.3 and 0.2",
    ),
    PaperRow(
        "ColPali",
        "3B",
        (83.1, 54.3, 47.6, 80.1, 66.5, 58.6),
        65.0,
        late_interaction=True,
        mteb="vidore/colpali-v1.3",
        note="the paper does not say which version",
    ),
    PaperRow(
        "NemColEmbed V2 8B",
        "8B",
        (91.9, 65.9, 64.2, 90.7, 73.5, 74.8),
        76.8,
        late_interaction=True,
        mteb="nvidia/nemotron-colembed-vl-8b-v2",
    ),
    PaperRow("E5-V", "8B", (63.3, 49.6, 34.8, 61.6, 60.8, 37.2), 51.2, mteb="royokong/e5-v"),
    PaperRow("VLM2Vec", "4B", (49.2, 41.5, 26.3, 52.1, 54.0, 17.1), 40.0, mteb="TIGER-Lab/VLM2Vec-Full"),
    PaperRow(
        "GME-Qwen2-7B",
        "7B",
        (87.2, 63.3, 55.9, 86.0, 69.3, 68.7),
        71.7,
        mteb="Alibaba-NLP/gme-Qwen2-VL-7B-Instruct",
    ),
    PaperRow(
        "Qwen3-VL-Emb-2B", "2B", (82.4, 66.9, 55.0, 85.4, 69.2, 66.9), 71.0, mteb="Qwen/Qwen3-VL-Embedding-2B"
    ),
)


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
