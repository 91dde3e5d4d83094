"""Made-up words: each can be set, and is what it says it is."""

from __future__ import annotations

import random
import re

import pytest

pytest.importorskip("numpy")

from research.reader.coined import amount, code, date, figure, hour, misspelt, telephone, till_line
from research.reader.words import spell
from vsplade.encode.tokenizer import Tokenizer


@pytest.mark.parametrize("make", [amount, code, date, figure, hour, telephone])
def test_every_figure_can_be_set_with_labels(make: object) -> None:
    rng, tokenizer = random.Random(1), Tokenizer.load()
    for _ in range(500):
        word = make(rng)  # type: ignore[operator]
        spelled = spell(word, tokenizer)
        assert spelled, word
        assert [term for term, _, _ in spelled[1]] == tokenizer.encode(word), word


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        (date, r"\d\d/\d\d/\d{4}"),  # 25/12/2018
        (amount, r"\d,\d{3},\d{3}\.\d\d"),  # 4,077,010.89
        (code, r"[A-Z]-\d{4}"),  # H-6927
        (code, r"[A-Z]\d\d[A-Z]\d\d"),  # A12B34
        (telephone, r"\d{3}-\d{3}-\d{4}"),
        (hour, r"\d\d:\d\d:\d\d"),
    ],
)
def test_the_forms_that_people_search_for_come_up(make: object, pattern: str) -> None:
    rng = random.Random(2)
    assert any(re.fullmatch(pattern, make(rng)) for _ in range(2000))  # type: ignore[operator]


def test_a_misspelt_word_is_one_change_away() -> None:
    rng = random.Random(3)
    for _ in range(300):
        word = misspelt("harbour", rng)
        assert 6 <= len(word) <= 8
        assert sum(letter in word for letter in "harbour") >= 6


def test_lines_of_a_till_are_words_without_spaces() -> None:
    rng, tokenizer = random.Random(4), Tokenizer.load()
    lines = [till_line(["zygomorphic", "boter"], rng) for _ in range(400)]
    words = [word for line in lines for word in line]
    assert all(words)
    assert not any(" " in word for word in words)
    assert sum(spell(word, tokenizer) is not None for word in words) > 0.99 * len(words)
    assert "TOTAL" in words
