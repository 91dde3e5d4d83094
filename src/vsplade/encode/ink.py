"""Where the ink is: cut a page into rectangles that hold all of it, so that blank paper costs nothing.

Blocks whose pixels differ are ink, whatever the colour of the paper. The page is then cut, again and again,
along empty bands of blocks across or down (an XY-cut). Cuts run through blank paper only, so no word is ever
cut in two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 16
CONTRAST = 20
"""Difference of the darkest and the lightest pixel (of 255) that makes a block count as inked."""
GAP = 2
"""Empty bands of at least so many blocks are cut out."""
SMALLEST = 4
"""Rectangles have at least so many blocks each way: smaller ones cost more in overhead than in work."""

Rectangle = tuple[int, int, int, int]  # top, left, bottom, right in blocks


def ink_blocks(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(rows, columns) of blocks; ``grey`` has sides that are multiples of BLOCK."""
    rows, columns = grey.shape[0] // BLOCK, grey.shape[1] // BLOCK
    tiles = grey.reshape(rows, BLOCK, columns, BLOCK)
    lines_max, lines_min = tiles.max(axis=1), tiles.min(axis=1)
    spread = lines_max.max(axis=2) - lines_min.min(axis=2)
    return np.asarray(spread > CONTRAST, np.bool_)


def widen(inked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """One block of margin on every side: letters at the edge of a block need their surroundings."""
    out = inked.copy()
    out[1:] |= inked[:-1]
    out[:-1] |= inked[1:]
    across = out.copy()
    out[:, 1:] |= across[:, :-1]
    out[:, :-1] |= across[:, 1:]
    return out


def _runs(filled: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Stretches of True, joined where less than ``gap`` False lie between them."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], filled, [False]]).astype(np.int8)))
    stretches: list[tuple[int, int]] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if stretches and start - stretches[-1][1] < gap:
            stretches[-1] = (stretches[-1][0], end)
        else:
            stretches.append((start, end))
    return stretches


def cut(inked: NDArray[np.bool_]) -> list[Rectangle]:
    """Rectangles that cover every inked block, in reading order of the cuts."""
    done: list[Rectangle] = []
    todo: list[tuple[Rectangle, bool]] = [((0, 0, *inked.shape), False)]
    while todo:
        (top, left, bottom, right), tried = todo.pop()
        area = inked[top:bottom, left:right]
        rows = [(top + a, top + b, left, right) for a, b in _runs(np.asarray(area.any(axis=1)), GAP)]
        if not rows:
            continue
        if len(rows) == 1:
            columns = _runs(np.asarray(area.any(axis=0)), GAP)
            parts = [(rows[0][0], left + a, rows[0][1], left + b) for a, b in columns]
            if len(parts) == 1 and (tried or parts[0] == (top, left, bottom, right)):
                done.append(parts[0])
                continue
            todo += [(part, len(parts) == 1) for part in reversed(parts)]
        else:
            todo += [((a, c, b, d), False) for a, b, c, d in reversed(rows)]
    return done


def rectangles(grey: NDArray[np.uint8]) -> list[Rectangle]:
    """What to read of a page whose sides are multiples of BLOCK."""
    inked = widen(ink_blocks(grey))
    rows, columns = inked.shape
    grown = []
    for top, left, bottom, right in cut(inked):
        top, left = max(0, min(top, rows - SMALLEST)), max(0, min(left, columns - SMALLEST))
        grown.append(
            (top, left, min(rows, max(bottom, top + SMALLEST)), min(columns, max(right, left + SMALLEST)))
        )
    return grown
