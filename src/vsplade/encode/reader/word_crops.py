"""Pictures of single words, cut from the page in its own detail: between the gaps around a place of ink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.boxes import WHITE

if TYPE_CHECKING:
    from PIL import Image

HEIGHT = 24
"""Pixels that a word's picture is high."""
EM = 16.0
"""Pixels of an em there; three quarters of one are shown above and below the middle of the letters."""
REACH = 7.0
"""Em each way that the end of a word is looked for."""
GAP = 0.27
"""White between two words, at least so many em; letters of typewriters stand less far apart."""
FAINTEST = 12
"""Levels that are no ink in any case."""
CORE = 0.45
"""Em above and below the middle of the letters where ink is looked for: rules and other lines lie outside."""
MARGIN = 0.12
"""Em of white that is shown beside the letters."""
NARROWEST = 0.3
"""Em: less wide are specks and rules."""

_LEVELS = np.arange(256, dtype=np.int32)

Place = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the page."""


def word_at(grey: NDArray[np.uint8], x: float, y: float, em: float, gap: float = GAP) -> Place | None:
    """The word whose ink is at this place, in type of about this size; None where no gap tells its ends."""
    y = _middle(grey, x - em, x + em, y, em)
    found = _ends(grey, x, y, em, gap)
    if found is None:
        return None
    left, right = found
    y = _middle(grey, left, right, y, em)
    half = em * HEIGHT / EM / 2
    return left - MARGIN * em, y - half, right + MARGIN * em, y + half


def _part(
    grey: NDArray[np.uint8], left: float, right: float, top: float, bottom: float
) -> tuple[NDArray[Any], int, int]:
    """How far a part of the page is from its paper, and where it begins."""
    x, y = max(0, int(left)), max(0, int(top))
    part = grey[y : max(y, int(bottom) + 1), x : max(x, int(right) + 1)]
    if not part.size:
        return np.zeros((0, 0), np.int16), x, y
    some = part[:, ::3].ravel()  # enough to tell the paper by
    paper = np.bincount(some, minlength=256).cumsum().searchsorted(some.size // 2, side="right")
    return np.abs(part - np.int16(paper)), x, y


def _middle(grey: NDArray[np.uint8], left: float, right: float, y: float, em: float) -> float:
    """The height of the middle of the ink, near ``y``."""
    ink, _, top = _part(grey, left, right, y - em / 2, y + em / 2)
    rows = ink.sum(axis=1)
    total = int(rows.sum())
    return top + float(rows @ np.arange(0.5, len(rows))) / total if total else y


def _ends(grey: NDArray[np.uint8], x: float, y: float, em: float, gap: float) -> tuple[float, float] | None:
    ink, start, _ = _part(grey, x - REACH * em, x + REACH * em, y - CORE * em, y + CORE * em)
    if not ink.size:
        return None
    strongest = ink.max(axis=0)
    size, at = len(strongest), x - start
    near = strongest[max(0, int(at - 1.5 * em)) : int(at + 1.5 * em) + 1]
    inked = np.flatnonzero(strongest > max(FAINTEST, WHITE * near.max(initial=0)))
    if not len(inked):
        return None
    # words begin and end where the next ink is a gap away
    cuts = np.flatnonzero(np.diff(inked) > gap * em + 1)
    begins, ends = inked[np.concatenate([[0], cuts + 1])], inked[np.concatenate([cuts, [len(inked) - 1]])] + 1
    word = int(np.argmin(np.maximum(begins - at, at - ends)))
    left, right = int(begins[word]), int(ends[word])
    apart = max(left - at, at - right)
    cut = (left == 0 and start > 0) or (right == size and start + size < grey.shape[1])
    return None if cut or apart > em or right - left < NARROWEST * em else (start + left, start + right)


def picture_of(grey: Image.Image, place: Place, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A word, so many pixels high: 255 is its ink, 0 its paper."""
    from PIL import Image

    left, top, right, bottom = place
    box = (max(0.0, left), max(0.0, top), min(float(grey.width), right), min(float(grey.height), bottom))
    zoom = height / (bottom - top)
    size = max(4, round((box[2] - box[0]) * zoom)), max(1, min(height, round((box[3] - box[1]) * zoom)))
    part = np.asarray(grey.resize(size, Image.Resampling.BILINEAR, box, reducing_gap=2.0))
    counts = np.bincount(part.ravel(), minlength=256).cumsum()
    ranks = (part.size // 200, part.size // 2, part.size - 1 - part.size // 200)
    low, paper, high = counts.searchsorted(ranks, side="right").tolist()
    dark = paper - low >= high - paper
    strength = max(16, paper - low if dark else high - paper)
    ink = (paper - _LEVELS) if dark else (_LEVELS - paper)
    table = np.clip(ink * 255 // strength, 0, 255).astype(np.uint8)
    picture = np.zeros((height, size[0]), np.uint8)
    above = min(height - size[1], max(0, round((box[1] - top) * zoom)))
    picture[above : above + size[1]] = table[part]
    return picture
