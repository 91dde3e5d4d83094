"""Compiled loops over a page: edges of its pixels, and places that stand near each other on one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.compiled import compiled


def edges(grey: NDArray[np.uint8], cell: int, contrast: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """For each cell of 8 px or so, how many pixels differ by more than the contrast from the one on the left,
    and from the one above.
    """
    shape = (grey.shape[0] // cell, grey.shape[1] // cell)
    across, down = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
    _count_edges(grey, cell, np.uint8(contrast), across, down)
    return across, down


@compiled()
def _count_edges(grey: Any, cell: Any, contrast: Any, across: Any, down: Any) -> None:
    rows, columns = across.shape
    width = columns * cell
    left, above = np.zeros(width, np.uint8), np.zeros(width, np.uint8)
    for row in range(rows):
        left[:], above[:] = 0, 0
        for y in range(row * cell, (row + 1) * cell):
            line = grey[y]
            for x in range(1, width):
                one, other = line[x], line[x - 1]
                left[x] += np.uint8(max(one, other) - min(one, other)) > contrast
            if y > 0:
                before = grey[y - 1]
                for x in range(width):
                    one, other = line[x], before[x]
                    above[x] += np.uint8(max(one, other) - min(one, other)) > contrast
        for column in range(columns):
            sums = 0, 0
            for x in range(column * cell, (column + 1) * cell):
                sums = sums[0] + left[x], sums[1] + above[x]
            across[row, column], down[row, column] = sums


def runs(inked: NDArray[np.bool_], part: tuple[int, int, int, int], down: bool, gap: int) -> list[list[int]]:
    """Begin and end of the bands of a part (top, left, bottom, right) that hold ink, counted from its edge;
    they are joined where less than ``gap`` empty rows or columns lie between them.
    """
    top, left, bottom, right = part
    found = np.empty((max(bottom - top, right - left) // 2 + 1, 2), np.int64)
    rows: list[list[int]] = found[: _find_runs(inked[top:bottom, left:right], down, gap, found)].tolist()
    return rows


@compiled()
def _find_runs(inked: Any, down: Any, gap: Any, found: Any) -> Any:
    rows, columns = inked.shape
    filled = np.zeros(rows if down else columns, np.bool_)
    for row in range(rows):
        for column in range(columns):
            if inked[row, column]:
                filled[row if down else column] = True
    count = 0
    for place in range(len(filled)):
        if not filled[place]:
            continue
        if count > 0 and place - found[count - 1, 1] < gap:
            found[count - 1, 1] = place + 1
        else:
            found[count, 0], found[count, 1] = place, place + 1
            count += 1
    return count


def near_on_line(
    height: NDArray[np.float64],
    reach: NDArray[np.float64],
    x: NDArray[np.float64],
    back: NDArray[np.float64],
    ahead: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every two places at one height, give or take: rows of the one and of the other.

    ``reach`` is how far above or below each place the other may be, ``back`` how far on its left and
    ``ahead`` on its right. They come in the order of their heights.
    """
    order = np.argsort(height, kind="stable")
    sorted_ = [np.ascontiguousarray(column[order], np.float64) for column in (height, reach, x, back, ahead)]
    first = np.searchsorted(sorted_[0], sorted_[0] - sorted_[1])
    last = np.searchsorted(sorted_[0], sorted_[0] + sorted_[1], side="right")
    nothing = np.empty(0, np.int64)
    count = _pairs(first, last, *sorted_[2:], nothing, nothing)
    one, other = np.empty(count, np.int64), np.empty(count, np.int64)
    _pairs(first, last, *sorted_[2:], one, other)
    return order[one], order[other]


@compiled()
def _pairs(first: Any, last: Any, x: Any, back: Any, ahead: Any, one: Any, other: Any) -> Any:
    """Counts the pairs, and writes them down where there is room."""
    found = 0
    for row in range(len(x)):
        for near in range(first[row], last[row]):
            if -back[row] < x[near] - x[row] < ahead[row]:
                if found < len(one):
                    one[found], other[found] = row, near
                found += 1
    return found
