"""The one place that changes the size of a picture."""

from __future__ import annotations

import math

from PIL import Image

MAX_UPSCALE = 2.0
"""Small pictures grow at most this much: more would add bytes for every later stage and no detail."""

_SHRINKABLE = frozenset({"L", "RGB", "CMYK", "RGBA", "LA", "YCbCr"})
"""Modes that can be averaged as they are; the others (palette, 1 bit, 16 bit) must be converted first."""


def fit_size(
    width: float, height: float, longest_edge: int, max_scale: float = MAX_UPSCALE
) -> tuple[int, int]:
    """The size of the same shape with this longest edge, never above ``max_scale`` times the given one.

    A strip more than twice as long as it is wide would lose its writing that way: it keeps the area of a page
    of two to one instead.
    """
    longest = max(width, height)
    if longest > 2 * min(width, height):
        longest = math.sqrt(2 * width * height)
    scale = min(longest_edge / longest, max_scale)
    return max(1, round(width * scale)), max(1, round(height * scale))


def fit(image: Image.Image, longest_edge: int) -> Image.Image:
    """Resize so that the longest edge has ``longest_edge`` pixels (0: leave it as it is)."""
    if longest_edge <= 0:
        return image
    size = fit_size(*image.size, longest_edge)
    if size == image.size:
        return image
    # A cheap box average first, down to twice the size, then a good filter for the rest: as sharp as the
    # good filter alone, several times faster on large scans.
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def is_shrinkable(image: Image.Image) -> bool:
    return image.mode in _SHRINKABLE
