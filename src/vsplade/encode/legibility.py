"""Is a page in a script that can be read? The reader and the tokenizer know Latin letters and digits only.

A text layer tells it by its letters. A picture tells it by how the reader took it: on a page in another
script words are found, but few are named with certainty, and those are pieces that happen to look alike, not
whole words. The limit was set on 200 pages each of three sets of Latin pages (at most one of them is called
illegible in any set) and on drawn pages of eleven other scripts (docs/model-card.md).
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.detect import Cells
from vsplade.encode.tokenizer import Tokenizer

LEAST_WORDS = 4
"""Places of words, and letters of a text layer, below which nothing is said."""
LEAST_LETTERS = 20
WORD_CHANCE = 0.5
LEGIBLE = 0.64
"""A page is legible from here on: mean chance of the best term, and twice that of whole words and numbers."""
WHOLE_WORDS = 2.0
_SHORTEST_WORD = 4

_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile("[A-Za-z\u00aa\u00ba\u00c0-\u02af\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff\ufb00-\ufb06]")


def is_text_legible(text: str | None) -> bool | None:
    """Whether most letters of a text layer are Latin; None where it has too few to tell."""
    letters = len(_LETTER.findall(text or ""))
    if letters < LEAST_LETTERS:
        return None
    return 2 * len(_LATIN.findall(text or "")) >= letters


@cache
def _tells(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Terms that no other script looks like by chance: whole words of some length, and numbers."""
    tokens = (tokenizer.token(term) for term in range(len(tokenizer)))
    return np.array([t.isdigit() or (t.isalpha() and len(t) >= _SHORTEST_WORD) for t in tokens])


def legibility(cells: Cells, tokenizer: Tokenizer, doubt: float) -> float | None:
    """How certain the reader was of the words of a page, from 0 to 3; None where it found next to none."""
    if cells.chance is None:
        return None
    found = cells.chance > WORD_CHANCE
    if np.count_nonzero(found) < LEAST_WORDS:
        return None
    certain = cells.probability[found, 0] / cells.chance[found] ** doubt
    whole = certain * _tells(tokenizer)[cells.term[found, 0]]
    return float(certain.mean() + WHOLE_WORDS * whole.mean())
