"""What the ablation learns from, out of the training data: text pairs, pages of reports, OCR of charts.

    python -m research.paper.ablation_inputs DATA/train --out OUT

Each is written once: what is there already stays.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2
from PIL import Image

from research.command import main, option
from vsplade.jsonl import read_objects
from vsplade.train.pdfs import pick_queries

ANSWERS, QUESTIONS_A_TABLE = 6000, 3
ANSWER_CHARS, TABLE_CHARS = 2500, 3000
REPORT_EDGE, REPORT_QUALITY = 1152, 40
"""Of the pictures of report pages: their longest edge, and the quality as WebP."""


@dataclass(frozen=True)
class AblationInputsOptions:
    data: Path = option("The folder with charts/, medquad, wikitables and reports/.", argument=True)
    out: Path = option("The folder for texts.jsonl.gz, reports/ and ocr.jsonl.")
    charts: int = option("Charts that Tesseract reads, where it is installed; 0: none.", 3000)
    report_pages: int = option("Pages of each report.", 20)


def ablation_inputs(options: AblationInputsOptions) -> dict[str, Any]:
    """Write the ablation's text pairs, pages of reports and OCR texts."""
    options.out.mkdir(parents=True, exist_ok=True)
    texts, ocr = options.out / "texts.jsonl.gz", options.out / "ocr.jsonl"
    if not texts.is_file():
        with gzip.open(texts, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(pair) + "\n" for pair in text_pairs(options.data))
    reports = options.out / "reports"
    if not (reports / "pairs.jsonl").is_file():
        (reports / "images").mkdir(parents=True, exist_ok=True)
        pairs = report_pairs(options.data / "reports", reports, options.report_pages)
        _write_rows(reports / "pairs.jsonl", pairs)
    if options.charts and not ocr.is_file() and shutil.which("tesseract"):
        _write_rows(ocr, chart_texts(options.data / "charts" / "images", options.charts))
    return {"texts": str(texts), "reports": str(reports), "ocr": str(ocr) if ocr.is_file() else None}


def _write_rows(path: Path, rows: Iterable[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def text_pairs(data: Path) -> list[dict[str, str]]:
    """Questions with their answers, and questions with the table that they are about."""
    rng = random.Random(0)
    rows = (row for _, row in read_objects(data / "medquad.jsonl.gz"))
    answers = [{"query": row["query"], "text": row["text"][:ANSWER_CHARS]} for row in rows]
    rows = (row for _, row in read_objects(data / "wikitables.tables.jsonl.gz"))
    tables = {row["_id"]: " ".join(row["tsv"].split())[:TABLE_CHARS] for row in rows}
    questions = [row for _, row in read_objects(data / "wikitables.queries.jsonl.gz")]
    rng.shuffle(questions)
    asked: dict[str, list[str]] = {}
    for row in questions:
        asked.setdefault(row["table"], []).append(row["query"])
    about = [
        {"query": query, "text": tables[name]}
        for name, found in asked.items()
        for query in found[:QUESTIONS_A_TABLE]
    ]
    rng.shuffle(answers)
    pairs = answers[:ANSWERS] + about
    rng.shuffle(pairs)
    return pairs


def report_pairs(source: Path, out: Path, pages: int) -> Iterator[dict[str, str]]:
    """Some pages of each report as pictures, with their text layer as the caption."""
    for pdf in sorted(source.glob("*.pdf")):
        document, kept = pypdfium2.PdfDocument(pdf), 0
        for number in random.Random(pdf.name).sample(range(len(document)), len(document)):
            page = document[number]
            text = page.get_textpage().get_text_range()
            queries = pick_queries(text, f"{pdf.stem}-{number}")
            if kept == pages:
                break
            if queries:
                kept += 1
                name = f"images/{pdf.stem}-{number:04d}.webp"
                picture = page.render(scale=REPORT_EDGE / max(page.get_size()), grayscale=True).to_pil()
                picture.convert("L").save(out / name, quality=REPORT_QUALITY)
                caption = " ".join(text.split())
                yield from ({"image": name, "query": query, "caption": caption} for query in queries)


def chart_texts(images: Path, count: int) -> Iterator[dict[str, str]]:
    """By Tesseract, as text without an order (``--psm 11``)."""
    with tempfile.TemporaryDirectory() as folder:
        grey = f"{folder}/chart.png"
        for path in sorted(images.iterdir())[:count]:
            Image.open(path).convert("L").save(grey)
            command = ["tesseract", grey, "stdout", "--psm", "11"]
            read = subprocess.run(command, capture_output=True, text=True, check=False)
            yield {"id": f"images/{path.name}", "caption": " ".join(read.stdout.split())}


if __name__ == "__main__":
    main(ablation_inputs, AblationInputsOptions)
