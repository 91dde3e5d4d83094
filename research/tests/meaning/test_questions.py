"""The written questions, and the scores that constants are chosen on."""

from __future__ import annotations

import numpy as np
import pytest

from research.meaning.questions import WRITTEN, TrainingPage, best_windows, matched, questions
from vsplade.errors import InputError
from vsplade.types import SparseVector, Windows


def test_every_question_has_a_page_and_two_forms() -> None:
    rows = [line.split("\t") for line in WRITTEN.read_text("utf-8").splitlines()]
    assert len(rows) == 379
    assert all(len(row) == 3 and all(cell.strip() == cell != "" for cell in row) for row in rows)
    assert all(row[1].lower() != row[2].lower() for row in rows)


def test_questions_find_their_pages() -> None:
    ids = sorted({line.split("\t")[0] for line in WRITTEN.read_text("utf-8").splitlines()})
    pages = [
        TrainingPage(one, "text", (f"about {one}",) if one.startswith(("med", "tab")) else ()) for one in ids
    ]
    sets = questions(pages)
    assert len(sets["words"]) == len(sets["meaning"]) == 379
    for line, (text, number) in zip(WRITTEN.read_text("utf-8").splitlines(), sets["meaning"], strict=True):
        assert line.startswith(pages[number].id + "\t")
        assert line.endswith("\t" + text)
    assert all(text == f"about {pages[number].id}" for text, number in sets["given"])
    with pytest.raises(InputError, match="another version"):
        questions(pages[:-1])


def test_scores_by_words_and_by_windows() -> None:
    def vector(terms: list[int], weights: list[float]) -> SparseVector:
        return SparseVector(np.array(terms, np.uint32), np.array(weights, np.float32))

    pages = [vector([1, 3], [1.0, 0.5]), vector([2], [1.0])]
    np.testing.assert_allclose(matched(vector([1, 3], [3.0, 1.0]), pages, 5), [3.5 / 4, 0])
    windows = [Windows(np.array([[127, 0], [0, 5]], np.int8), np.zeros(2, np.uint16)), None]
    np.testing.assert_allclose(best_windows(np.array([0.6, 0.8], np.float32), windows), [0.8, 0], rtol=1e-6)
