"""Words spelled from their pieces, and how sure they are."""

from __future__ import annotations

import numpy as np
import pytest

from vsplade.encode.reader.boxes import width_of
from vsplade.encode.reader.page_text import Pieces
from vsplade.encode.reader.spelled_text import RIGHT, SpelledText
from vsplade.encode.tokenizer import Tokenizer

TOKENIZER = Tokenizer.load()


def spelled(word: str, scale: float = 1.0, chance: float = 0.9) -> tuple[str, float]:
    """A word as it is put together from its pieces, printed ``scale`` times as wide as usual."""
    spans = TOKENIZER.spans(word)
    em, rows = 0.01, range(len(spans))
    left = np.array([width_of(word[:start]) * scale * em for _, start, _ in spans])
    right = np.array([width_of(word[:end]) * scale * em for _, _, end in spans])
    pieces = Pieces(
        np.array([term for term, _, _ in spans]),
        np.full(len(spans), chance),
        (left + right) / 2,
        np.full(len(spans), 0.5),
        np.full(len(spans), em),
        right - left,
        scale,
    )
    read = SpelledText(TOKENIZER)._word(pieces, list(rows), 1.0)
    return read.text, read.certainty


@pytest.mark.parametrize("word", ["toxicology", "biomarker", "prescribers", "4077", "81750", "ravell"])
@pytest.mark.parametrize("scale", [0.85, 1.0, 1.3])
def test_a_word_is_spelled_at_the_length_that_is_printed(word: str, scale: float) -> None:
    assert len(TOKENIZER.spans(word)) > 1, "a word that is one term shows nothing here"
    assert spelled(word, scale)[0] == word


def test_digits_that_no_piece_shows_are_marked() -> None:
    assert spelled("000549584896")[0] == "000…896"


@pytest.mark.parametrize("word", ["the", "is", "2018", "biomarker", "81750"])
def test_certainty_grows_with_the_chance_and_stays_a_probability(word: str) -> None:
    sure = [spelled(word, chance=chance)[1] for chance in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)]
    assert sure == sorted(sure)
    assert 0 < sure[0] < sure[-1] <= 1


def test_the_tables_of_certainty_go_upwards() -> None:
    for chances, shares in RIGHT.values():
        assert list(chances) == sorted(chances)
        assert list(shares) == sorted(shares)
