"""The written questions about documents become a data set that `vsplade eval` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.meaning.document_questions import WRITTEN, document_questions
from research.meaning.options import DocumentQuestionsOptions
from vsplade.errors import InputError
from vsplade.evaluate.dataset import load_dataset

ROWS = [line.split("\t") for line in WRITTEN.read_text("utf-8").splitlines()]


def test_every_question_has_a_kind_and_pages_and_stands_once() -> None:
    assert {kind for kind, _, _ in ROWS} == {"finance", "long", "plain-own", "plain-other"}
    assert len({text for _, _, text in ROWS}) == len(ROWS) == 309
    for _, pages, _ in ROWS:
        answers = pages.split(",")
        assert len(set(answers)) == len(answers)
        assert all(int(page.rsplit("_", 1)[1]) > 0 for page in answers)


def test_makes_a_data_set_of_the_pdfs_that_are_there(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name in ("r07", "r23", "bzip2-manual"):
        (given / f"{name}.pdf").write_bytes(b"%PDF-1.4")
    options = DocumentQuestionsOptions(out=tmp_path / "set", pdfs=(given,), kind=("finance",))
    made = document_questions(options)
    dataset = load_dataset(tmp_path / "set")
    wanted = {text for kind, pages, text in ROWS if kind == "finance" and pages[:3] in ("r07", "r23")}
    assert set(dataset.queries.values()) == wanted
    assert made == {"questions": len(wanted), "left_out": len(ROWS) - len(wanted), "pdfs": 3}
    assert [file.stem for file in dataset.files] == ["bzip2-manual", "r07", "r23"]
    with pytest.raises(InputError, match=r"r00\.pdf"):
        document_questions(DocumentQuestionsOptions(out=tmp_path / "none", pdfs=(tmp_path / "set",)))
