"""Where words begin and end: the loops over pixels, compiled by numba without the GIL.

Loaded when the first word is looked for: a process that only searches never waits for it.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vsplade.encode.reader.boxes import WHITE
from vsplade.encode.reader.word_crops import EM, GAP, HEIGHT, Place

REACH = 7.0
"""Em each way that the end of a word is looked for."""
FAINTEST = 12
"""Levels that are no ink in any case."""
CORE = 0.45
"""Em above and below the middle of the letters where ink is looked for: rules and other lines lie outside."""
MARGIN = 0.12
"""Em of white that is shown beside the letters."""
NARROWEST = 0.3
"""Em: less wide are specks and rules."""
FARTHEST = 1e6
"""Pixels: no page is so large, and beyond whole numbers end."""


def word_at(grey: NDArray[np.uint8], x: float, y: float, em: float, gap: float = GAP) -> Place | None:
    """The word whose ink is at this place, in type of about this size; None where no gap tells its ends."""
    left, top, right, bottom = _word(grey, x, y, em, gap)
    return (left, top, right, bottom) if right > left else None


@njit(nogil=True, cache=True)
def _part(grey, left, right, top, bottom):
    """The pixels of a part of the page: where it begins, and before where it ends; and the level of its
    paper, which is that of most pixels.
    """
    x, y = max(0, int(left)), max(0, int(top))
    right, bottom = min(grey.shape[1], max(x, int(right) + 1)), min(grey.shape[0], max(y, int(bottom) + 1))
    counts, some = np.zeros(256, np.int32), 0
    for row in range(y, bottom):
        for column in range(x, right, 3):  # enough to tell the paper by
            counts[grey[row, column]] += 1
            some += 1
    paper, below = 0, counts[0]
    while paper < 255 and below <= some // 2:
        paper += 1
        below += counts[paper]
    return x, right, y, bottom, paper


@njit(nogil=True, cache=True)
def _middle(grey, left, right, y, em):
    """The height of the middle of the ink, near ``y``."""
    left, right, top, bottom, paper = _part(grey, left, right, y - em / 2, y + em / 2)
    total, weighed = 0, 0.0
    for row in range(top, bottom):
        ink = 0
        for column in range(left, right):
            ink += abs(np.int32(grey[row, column]) - paper)
        total += ink
        weighed += ink * (row - top + 0.5)
    return top + weighed / total if total else y


@njit(nogil=True, cache=True)
def _ends(grey, x, y, em, gap):
    """Left and right of the word at this place; 0, 0 where no gap tells them."""
    start, end, top, bottom, paper = _part(grey, x - REACH * em, x + REACH * em, y - CORE * em, y + CORE * em)
    size, at = end - start, x - start
    if size <= 0 or bottom <= top:
        return 0, 0
    strongest = np.zeros(size, np.int32)
    for row in range(top, bottom):
        for column in range(size):
            strongest[column] = max(strongest[column], abs(np.int32(grey[row, start + column]) - paper))
    near = 0
    for column in range(max(0, int(at - 1.5 * em)), min(size, int(at + 1.5 * em) + 1)):
        near = max(near, strongest[column])
    least, widest = max(float(FAINTEST), WHITE * near), gap * em + 1
    left, right, nearest = 0, 0, np.inf
    begin, last = -1, -1
    for column in range(size + 1):
        inked = column < size and strongest[column] > least
        # words begin and end where the next ink is a gap away
        if last >= 0 and (column == size or (inked and column - last > widest)):
            apart = max(begin - at, at - (last + 1))
            if apart < nearest:
                left, right, nearest = begin, last + 1, apart
            begin = -1
        if inked:
            begin = column if begin < 0 else begin
            last = column
    cut = (left == 0 and start > 0) or (right == size and end < grey.shape[1])
    if last < 0 or cut or nearest > em or right - left < NARROWEST * em:
        return 0, 0
    return start + left, start + right


@njit(nogil=True, cache=True)
def _word(grey, x, y, em, gap):
    """Left, top, right, bottom of the word whose ink is there; all 0 where there is none."""
    if not (abs(x) + abs(y) + em < FARTHEST):  # nor are numbers that are none ever a place
        return 0.0, 0.0, 0.0, 0.0
    y = _middle(grey, x - em, x + em, y, em)
    left, right = _ends(grey, x, y, em, gap)
    if right <= left:
        return 0.0, 0.0, 0.0, 0.0
    y = _middle(grey, left, right, y, em)
    half = em * HEIGHT / EM / 2
    return left - MARGIN * em, y - half, right + MARGIN * em, y + half


@njit(nogil=True, cache=True)
def words_at(grey, tried, x, y, em, gap, known, share, most):
    """The words at these places of all in turn, and where they stand: each once, ``most`` at most, and none
    that is already ``known`` on so large a ``share`` of its width.

    ``known`` is the width of what is read surely at each place, 0 elsewhere.
    """
    taken = np.zeros(len(x), np.bool_)
    rows, places, found = np.zeros(most, np.int64), np.zeros((most, 4)), 0
    for row in tried:
        if found == most:
            break
        if taken[row]:
            continue
        left, top, right, bottom = _word(grey, x[row], y[row], em[row], gap[row])
        if right <= left:
            continue
        middle, high, wide = (top + bottom) / 2, (bottom - top) / 3, 0.0
        for other in range(len(x)):
            if left < x[other] < right and abs(y[other] - middle) < high:
                taken[other] = True
                wide += known[other]
        if wide < share * (right - left):
            rows[found] = row
            places[found, 0], places[found, 1] = left, top
            places[found, 2], places[found, 3] = right, bottom
            found += 1
    return rows[:found], places[:found]
