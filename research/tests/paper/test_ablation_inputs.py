"""What the ablation learns from is made of the training data as it lies there."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from research.paper.ablation_inputs import AblationInputsOptions, ablation_inputs
from vsplade.jsonl import read_objects

EXAMPLES = Path(__file__).parents[3] / "examples"


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "train"
    (folder / "reports").mkdir(parents=True)
    (folder / "charts" / "images").mkdir(parents=True)
    shutil.copy(EXAMPLES / "report.pdf", folder / "reports")
    write_rows(folder / "medquad.jsonl.gz", [{"query": "what is gout", "text": "a" * 9000}])
    write_rows(folder / "wikitables.tables.jsonl.gz", [{"_id": "t1", "tsv": "year\tsum\n1990\t7"}])
    questions = [{"table": "t1", "query": f"sum {n}"} for n in range(5)]
    write_rows(folder / "wikitables.queries.jsonl.gz", questions)
    return folder


def test_texts_and_reports_are_written_once(data: Path, tmp_path: Path) -> None:
    options = AblationInputsOptions(data, tmp_path / "out", charts=0, report_pages=2)
    facts = ablation_inputs(options)
    assert facts["ocr"] is None
    pairs = [row for _, row in read_objects(Path(facts["texts"]))]
    assert sorted(row["query"] for row in pairs)[-1] == "what is gout"
    assert sum(row["text"] == "year sum 1990 7" for row in pairs) == 3, "a table has three questions at most"
    assert max(len(row["text"]) for row in pairs) == 2500
    reports = Path(facts["reports"])
    rows = [row for _, row in read_objects(reports / "pairs.jsonl")]
    assert 1 <= len({row["image"] for row in rows}) <= 2
    assert all((reports / row["image"]).is_file() and row["query"] in row["caption"] for row in rows)
    before = (reports / "pairs.jsonl").stat().st_mtime_ns
    ablation_inputs(options)
    assert (reports / "pairs.jsonl").stat().st_mtime_ns == before
