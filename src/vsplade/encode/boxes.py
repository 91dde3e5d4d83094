"""How far a word reaches from its middle: the size of its type and its letters tell."""

from __future__ import annotations

import math
from typing import NamedTuple

_UNITS = (
    "a500 b528 c472 d528 e500 f306 g528 h528 i250 j250 k500 l250 m806 n528 o528 p528 q528 r333 s445 t278"
    " u528 v500 w722 x500 y500 z472"
)
ADVANCE = {entry[0]: int(entry[1:]) / 1000 for entry in _UNITS.split()}
"""Widths of letters in em: between those of Times and of Helvetica, the two that most faces are set like."""
DIGIT = 0.528
ABOVE, BELOW = 0.7, 0.5
"""Of a line, from the middle of its small letters, in em."""
TYPE = (5.0, 50.0)
"""Pixels of an em: what lies outside is not read, so a size out there is a mistake."""


class Reach(NamedTuple):
    """From the middle of a word to the sides of its box, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def around_letters(letters: str, em: float) -> Reach:
    """NaN for ``em``: as wide as the letters are in common sizes of type."""
    if math.isnan(em):
        across = 4.0 * len(letters) + 4
        return Reach(across, 11, across, 11)
    em = min(max(em, TYPE[0]), TYPE[1])
    across = sum(ADVANCE.get(letter, DIGIT) for letter in letters) * em / 2
    return Reach(across, ABOVE * em, across, BELOW * em)
