"""Where the ink is: cut a page into windows that hold all of it, so that blank paper costs nothing.

A cell is inked where pixels change both across and down, whatever the colour of the paper. Rules, frames and
the dark edges of a scan change one way only, so they do not tie a page together; letters change both ways,
the stem of an "l" at its ends. Specks with nothing around them are dust.

The page is then cut, again and again, along empty bands across or down (an XY-cut). Cuts run through blank
paper only, so no word is ever cut in two. Every part is read with a margin, which may reach into its
neighbour's; each cell belongs to one window.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CELL = 8
BLOCK = 16
"""Windows begin and end at its multiples: two cells, the coarsest grid of the network."""
FOLD = 4
"""Pixels each way that become channels of the network's first layer."""
CONTRAST = 16
"""Difference of two neighbouring pixels (of 255) that makes an edge."""
EDGES = 2
"""Each way, so many make a cell inked."""
DUST = 12
"""Edges, both ways together, that a cell and the eight around it must have more of: a speck of 3 x 3 pixels
has twelve; "1", "l" and "I" alone in type of 7 px have more in 98 of 100 places."""
GAP_DOWN, GAP_ACROSS = 1, 2
"""Empty bands of at least so many cells are cut out: lines may be close, the words of one stay together."""
MARGIN_DOWN, MARGIN_ACROSS = 1, 2
"""Cells around the ink that a window shows: letters at its edge need their surroundings."""
CALL = 32
"""Cells that take as long to read as starting to read a window does."""
DEEPEST = 40
"""Cuts within cuts, at most: frames within open frames could go on until Python gives up."""
Rectangle = tuple[int, int, int, int]  # top, left, bottom, right in cells


def _around(counts: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Sums over each cell and its eight neighbours."""
    down = counts.copy()
    down[1:] += counts[:-1]
    down[:-1] += counts[1:]
    sums = down.copy()
    sums[:, 1:] += down[:, :-1]
    sums[:, :-1] += down[:, 1:]
    return sums


def ink_cells(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """(rows, columns) of cells; ``grey`` has sides that are multiples of CELL."""
    from vsplade.encode.reader.page_loops import edges  # here, for it loads numba

    across, down = edges(grey, CELL, CONTRAST)
    inked = (across >= EDGES) & (down >= EDGES)
    return np.asarray(inked & (_around((across + down).astype(np.uint16)) > DUST), np.bool_)


def window(part: Rectangle, shape: tuple[int, ...]) -> Rectangle:
    """A part with its margin; ``shape`` is the page's, in cells, an even number each way."""
    step = BLOCK // CELL
    top, left, bottom, right = part
    return (
        max(0, top - MARGIN_DOWN) // step * step,
        max(0, left - MARGIN_ACROSS) // step * step,
        min(shape[0], -(-(bottom + MARGIN_DOWN) // step) * step),
        min(shape[1], -(-(right + MARGIN_ACROSS) // step) * step),
    )


def _work(parts: list[Rectangle], shape: tuple[int, ...]) -> int:
    """What it takes to read parts each in a window of its own, in cells."""
    windows = (window(part, shape) for part in parts)
    return sum((bottom - top) * (right - left) + CALL for top, left, bottom, right in windows)


def _joined(parts: list[Rectangle]) -> Rectangle:
    tops, lefts, bottoms, rights = zip(*parts, strict=True)
    return min(tops), min(lefts), max(bottoms), max(rights)


def _join(bands: list[list[Rectangle]], shape: tuple[int, ...]) -> list[Rectangle]:
    """Neighbouring bands become one part again where that is no more work, as does the whole."""
    kept: list[tuple[list[Rectangle], int]] = []
    for band in bands:
        kept.append((band, _work(band, shape)))
        while len(kept) > 1:
            (before, work_before), (last, work_last) = kept[-2:]
            both = [_joined(before + last)]
            work = _work(both, shape)
            if work > work_before + work_last:
                break
            kept[-2:] = [(both, work)]
    parts = [part for band, _ in kept for part in band]
    whole = [_joined(parts)]
    return whole if _work(whole, shape) <= sum(work for _, work in kept) else parts


def _split(inked: NDArray[np.bool_], part: Rectangle, depth: int, whole: bool) -> list[Rectangle]:
    """Cut down the page at even depths and across it at odd ones; ``whole`` if the last cut found nothing."""
    from vsplade.encode.reader.page_loops import runs

    top, left, bottom, right = part
    down = depth % 2 == 0
    gap = (GAP_DOWN if down else GAP_ACROSS) if depth < DEEPEST else max(inked.shape)
    found = runs(inked, part, down, gap)
    bands = [(top + a, left, top + b, right) if down else (top, left + a, bottom, left + b) for a, b in found]
    if not bands or (len(bands) == 1 and whole):
        return bands
    if len(bands) == 1:
        return _split(inked, bands[0], depth + 1, True)
    return _join([_split(inked, band, depth + 1, False) for band in bands], inked.shape)


def cut(inked: NDArray[np.bool_]) -> list[Rectangle]:
    """Rectangles that hold every inked cell, none twice."""
    return _split(inked, (0, 0, *inked.shape), 0, False)


def filled(rectangles: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The cells that lie in one of the rectangles (rows of top, left, bottom, right) or in several."""
    rows, columns = shape
    top, left, bottom, right = np.clip(rectangles, 0, [rows, columns, rows, columns]).T
    steps = np.zeros((rows + 1, columns + 1), np.int32)
    for down, across, step in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        np.add.at(steps, (down, across), step)
    return np.asarray(steps.cumsum(0).cumsum(1)[:-1, :-1] > 0, np.bool_)


def windows(
    grey: NDArray[np.uint8], known: NDArray[np.bool_] | None = None
) -> tuple[list[Rectangle], NDArray[np.int32]]:
    """What to read of a page whose sides are multiples of BLOCK, and the window that each cell belongs to.

    A cell that two windows show belongs to the one whose ink it stands among; one of no window is -1. Ink in
    ``known`` cells counts as none.
    """
    inked = ink_cells(grey)
    if known is not None:
        inked &= ~known
    parts = cut(inked)
    shown = [window(part, inked.shape) for part in parts]
    owner = np.full(inked.shape, -1, np.int32)
    for areas in (shown, parts):
        for number, (top, left, bottom, right) in enumerate(areas):
            owner[top:bottom, left:right] = number
    return shown, owner
