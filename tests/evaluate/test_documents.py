"""What `vsplade eval` knows of the PDFs that pages are from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vsplade import Index, index_paths
from vsplade.cli import run

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_eval_knows_the_documents_of_pdfs(tmp_path: Path) -> None:
    (tmp_path / "pdfs").mkdir()
    for name in ("report", "slides"):
        shutil.copy(EXAMPLES / f"{name}.pdf", tmp_path / "pdfs")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "maintenance of the turbine"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\treport_1\t1\n")
    index_paths([tmp_path / "pdfs"], tmp_path / "index", "reader")
    wanted = {
        hit.id: hit.score for hit in Index.open(tmp_path / "index").search("maintenance of the turbine", 5)
    }
    assert run(["eval", str(tmp_path), "--json", "--run", str(tmp_path / "run.trec")]) == 0
    rows = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert {row[2]: float(row[4]) for row in rows if row[2] in wanted} == pytest.approx(wanted, rel=1e-4)
