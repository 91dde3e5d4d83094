"""Parts of a page that are looked at again: tiny type from nearer, and narrow parts without words on end.

Most pages pay next to nothing for it: only such parts are read again, each in a window of its own. A page in
next to no contrast is stretched before it is read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.ink_windows import CELL, Rectangle
from vsplade.encode.reader.orientation import DOUBTFUL, Reading

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.encode.reader.detect import Cells, Words

TALL, TALLEST_WORDS = 1.5, 1.5
"""Times as high as wide is a part that may stand on end, if no more words than that are read in it."""
SHORTEST, WIDEST = 6, 10
"""Cells that it is high, at least, and wide, at most."""
SURE_ON_END, WORDS_ON_END = 0.35, 1.0
"""What is read on end counts if it is so sure, and so many words, each counted by how sure it is."""
LETTERS = 0.3
"""So many words letters show that stand upside down; with fewer there are none, or no letters."""
FAINT, MOST_STRETCHED = 64, 4
"""Levels between the darkest and the lightest of a page, at most, for it to be stretched; and how far."""
SPECKS = 0.0002
"""Share of the pixels that may be darker or lighter than that."""
SOME = 16
"""One row in so many shows that most pages are not faint."""


def stretched(grey: Image.Image) -> Image.Image:
    """The page with more contrast where it has next to none, paper white; else as it is."""
    from vsplade.pages import grey_levels

    few = SPECKS * grey.width * grey.height
    low, high = _range(np.bincount(grey_levels(grey)[::SOME].ravel(), minlength=256), few)
    if high - low >= FAINT:  # more rows can only widen it
        return grey
    low, high = _range(np.array(grey.histogram()), few)
    if not 0 < high - low < FAINT:
        return grey
    factor = min(MOST_STRETCHED, 255 / (high - low))
    return grey.point([round(255 - min(255.0, max(0, high - level) * factor)) for level in range(256)])


def _range(counts: NDArray[np.int64], few: float) -> tuple[int, int]:
    """The levels below and above which no more than a few pixels lie."""
    running = np.cumsum(counts)
    low, high = np.searchsorted(running, few, "right"), np.searchsorted(running, running[-1] - few)
    return int(low), int(high)


def part_of(
    grey: Image.Image, page: tuple[int, int], window: Rectangle, zoom: float
) -> tuple[Image.Image, tuple[float, float]]:
    """A window of a page of this size, cut from the picture itself, ``zoom`` times as large; and where it
    begins, in pixels of a page as large.
    """
    from PIL import Image

    top, left, bottom, right = (side * CELL for side in window)
    right, bottom = min(right, page[0]), min(bottom, page[1])
    across, down = grey.width / page[0], grey.height / page[1]
    size = max(1, round((right - left) * zoom)), max(1, round((bottom - top) * zoom))
    box = (left * across, top * down, right * across, bottom * down)
    part = grey.resize(size, Image.Resampling.LANCZOS, box, reducing_gap=2.0)
    return part, (left * zoom, top * zoom)


def on_end(words: Words) -> list[int]:
    """The windows that may hold words that stand on end."""
    read = np.bincount(words.window, words.chance, len(words.windows))
    return [
        number
        for number, (top, left, bottom, right) in enumerate(words.windows)
        if right - left <= WIDEST
        and bottom - top >= max(SHORTEST, TALL * (right - left))
        and read[number] <= TALLEST_WORDS
    ]


def stands_on_end(reading: Reading) -> bool:
    """Whether what was read after a turn are words."""
    return reading.certainty > SURE_ON_END and reading.squared > WORDS_ON_END


def may_be_upside_down(reading: Reading) -> bool:
    """Whether the other turn is worth a look: there are letters, which are not read surely."""
    return reading.squared > LETTERS and reading.certainty < DOUBTFUL


def laid_back(
    cells: Cells, quarters: int, size: tuple[int, int], window: Rectangle, page: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Middles and pixels on the page of what was read in a window of it after a turn by ``quarters``
    anticlockwise; ``size`` is the window's before.

    The pixels differ a little from the page's, so that nothing across counts as a neighbour.
    """
    x, y = (cells.middle / cells.pixel).T
    if quarters == 1:
        x, y = size[0] - y, x
    else:
        x, y = y, size[1] - x
    pixel = np.array([[1 / page[0], 1 / page[1]]], np.float32)
    middle = np.stack([x + window[1] * CELL, y + window[0] * CELL], 1) * pixel
    return middle.astype(np.float32), np.repeat(pixel * np.float32(1 + 1e-5), len(middle), axis=0)
