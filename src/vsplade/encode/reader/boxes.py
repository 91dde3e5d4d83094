"""Where a word piece lies on the page: from its middle, its letters and the size of its type to a box.

The reader knows the middle within one of its cells and the size of type within a tenth or so; letters have
the widths of a common face. The ink then corrects both: the line lies where the ink does, and a word ends at
a gap, if there is one near the place where it should.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.types import Box

_WIDTHS = (
    "a500 b528 c472 d528 e500 f306 g528 h528 i250 j250 k500 l250 m806 n528 o528 p528 q528 r333 s445 t278"
    " u528 v500 w722 x500 y500 z472"
)
ADVANCE = {entry[0]: int(entry[1:]) / 1000 for entry in _WIDTHS.split()}
"""Widths of letters in em, half way between Times and Helvetica."""
DIGIT = 0.528
WIDER = 1.2
"""The reader's em is a line's height over 1.2 on real pages, less than the em of many faces; and some letters
are capitals.
"""
ABOVE, BELOW = 0.65, 0.55
"""From the middle of a line's ink to its top and bottom, in em."""
TYPE = (5.0, 50.0)
"""Pixels of an em on the copy that was read: there is no reading beyond, so no such size either."""
SLACK = 5.0
"""Pixels of that copy that the middle may be wrong by: half a cell and a little."""
GAP = 0.2
"""White between two words, at least so many em."""
WHITE = 0.2
"""Columns with less than this share of the strongest ink are empty."""
NEAREST, FARTHEST = 0.5, 1.5
"""The end of a word is looked for between these multiples of half its width from its middle, ..."""
FARTHER = 0.2
"""... and so many em more, because the middle is not exact: in short words that is much."""


def width_of(letters: str) -> float:
    """Of a word, in em."""
    return sum(ADVANCE.get(letter, DIGIT) for letter in letters) * WIDER


def box_on_ink(
    grey: NDArray[np.uint8], letters: str, middle: NDArray[Any], pixel: NDArray[Any], em: float
) -> Box:
    """``middle`` and ``pixel``, of the copy that was read, in fractions of the page; ``em`` in its pixels."""
    height, width = grey.shape
    left, right, y = ends_on_ink(grey, width_of(letters), middle, pixel, em)
    em = min(max(em, TYPE[0]), TYPE[1]) * float(pixel[0]) * width
    sides = (left / width, (y - ABOVE * em) / height, right / width, (y + BELOW * em) / height)
    return Box(*(min(1.0, max(0.0, side)) for side in sides))


def ends_on_ink(
    grey: NDArray[np.uint8], wide: float, middle: NDArray[Any], pixel: NDArray[Any], em: float
) -> tuple[float, float, float]:
    """Left, right and the middle's height, in pixels; ``wide`` is the width that it should have, in em."""
    height, width = grey.shape
    x, y = float(middle[0]) * width, float(middle[1]) * height
    zoom = float(pixel[0]) * width
    em = min(max(em, TYPE[0]), TYPE[1]) * zoom
    half = wide * em / 2
    y = _line(grey, (x - half, x + half), y, em, SLACK * zoom)
    return *_ends(grey, x, y, em, half), y


def _ink(
    grey: NDArray[np.uint8], across: tuple[float, float], down: tuple[float, float]
) -> tuple[NDArray[np.float32], int, int]:
    """How far a part of the page is from its paper, light or dark, and the part's left and top."""
    left, top = max(0, int(across[0])), max(0, int(down[0]))
    part = grey[top : max(top, int(down[1]) + 1), left : max(left, int(across[1]) + 1)]
    return np.abs(part - _median(part)), left, top


def _median(part: NDArray[np.uint8]) -> np.float32:
    """Counting 256 levels takes a quarter of the time of numpy's median, and a page asks a thousand times."""
    levels = np.bincount(part.ravel(), minlength=256).cumsum()
    lower, upper = levels.searchsorted(((part.size - 1) // 2, part.size // 2), side="right").tolist()
    return np.float32((lower + upper) / 2)


def _line(grey: NDArray[np.uint8], across: tuple[float, float], y: float, em: float, slack: float) -> float:
    """The height of the ink's middle, near ``y``."""
    ink, _, top = _ink(grey, across, (y - em / 2, y + em / 2))
    rows = ink.sum(axis=1)
    if not rows.sum():
        return y
    middle = top + float(rows @ (np.arange(len(rows)) + 0.5)) / float(rows.sum())
    return min(max(middle, y - slack), y + slack)


def _ends(grey: NDArray[np.uint8], x: float, y: float, em: float, half: float) -> tuple[float, float]:
    """Left and right end of the word around ``x``: gaps near the expected ends, or else these."""
    reach = half * FARTHEST + em / 2
    ink, start, _ = _ink(grey, (x - reach, x + reach), (y - 0.4 * em, y + 0.4 * em))
    if not ink.size:
        return x - half, x + half
    strongest = ink.max(axis=0)
    white = np.zeros(len(strongest) + 2, np.bool_)
    white[1:-1] = strongest < WHITE * strongest.max()
    edges = np.flatnonzero(white[1:] != white[:-1]).tolist()
    gaps = list(zip(edges[::2], edges[1::2], strict=True))
    # one that the margin of the page cuts short counts too
    wide = [gap for gap in gaps if gap[1] - gap[0] >= GAP * em or gap[0] == 0 or gap[1] == len(strongest)]
    return (
        x - _nearest([x - start - stop for _, stop in wide], half, em),
        x + _nearest([begin + start - x for begin, _ in wide], half, em),
    )


def _nearest(distances: list[float], half: float, em: float) -> float:
    near = [each for each in distances if NEAREST * half <= each <= FARTHEST * half + FARTHER * em]
    return min(near, key=lambda each: abs(each - half)) if near else half
