"""Pictures of single words, cut from the page in its own detail: ``word_ends`` tells where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

HEIGHT = 24
"""Pixels that a word's picture is high."""
EM = 16.0
"""Pixels of an em there; three quarters of one are shown above and below the middle of the letters."""
GAP = 0.27
"""White between two words, at least so many em; letters of typewriters stand less far apart."""

_LEVELS = np.arange(256, dtype=np.int32)

Place = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the page."""


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
