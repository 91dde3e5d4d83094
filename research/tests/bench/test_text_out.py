"""The measures of ``research.bench.text_out``, against their definitions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.bench.text_out import compare, distance, pages_of

SHORT = st.text("ab c", max_size=9)


@given(SHORT, SHORT)
def test_distance_is_levenshtein_s(one: str, other: str) -> None:
    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        change = least(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(least(i - 1, j) + 1, least(i, j - 1) + 1, change)

    assert distance(one, other) == least(len(one), len(other))


def test_measures_count_each_word_as_often_as_it_stands_there() -> None:
    measured = compare([("The cat, the DOG.", "the cat cat")], lambda word: word == "dog")
    assert measured["word_recall"] == 2 / 4
    assert measured["word_precision"] == 2 / 3
    assert measured["rare_recall_letters"] == 0
    assert measured["cer"] == pytest.approx(distance("the cat the dog", "the cat cat") / 15)


def test_a_text_layer_is_the_reference_of_a_pdf(tmp_path: Path) -> None:
    pages = pages_of(Path(__file__).parents[3] / "examples", 3, tmp_path, seed=0)
    assert len(pages) == 3
    for image, text in pages.items():
        assert image.is_file()
        assert len(text.split()) >= 50
