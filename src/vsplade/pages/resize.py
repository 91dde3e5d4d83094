"""The one place that changes the size of a picture."""

from __future__ import annotations

import math

from PIL import Image

_SHRINKABLE = frozenset({"L", "RGB", "CMYK", "RGBA", "LA", "YCbCr"})
"""Modes that can be averaged as they are; the others (palette, 1 bit, 16 bit) must be converted first."""


WORTH_ENLARGING = 1.25


def fit_size(width: float, height: float, longest_edge: int) -> tuple[int, int]:
    """The size of the same shape that a page of this longest edge is shrunk to.

    A picture that is a little too small stays as it is: enlarging adds bytes and work for every later stage,
    and no detail. A smaller one is enlarged, twice at most, to bring its writing into reach (docs/log.md). A
    strip more than twice as long as wide keeps the area of a page of two to one, or its writing is lost.
    """
    longest = max(width, height)
    if longest > 2 * min(width, height):
        longest = math.sqrt(2 * width * height)
    scale = longest_edge / longest
    if scale > 1:
        scale = min(scale, 2.0) if scale >= WORTH_ENLARGING else 1.0
    return max(1, round(width * scale)), max(1, round(height * scale))


def fit(image: Image.Image, longest_edge: int) -> Image.Image:
    """The picture in the size of ``fit_size`` (a longest edge of 0: as it is)."""
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
