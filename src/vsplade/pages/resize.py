"""The one place that changes the size of a picture."""

from __future__ import annotations

import math

from PIL import Image

_SHRINKABLE = frozenset({"L", "RGB", "CMYK", "RGBA", "LA", "YCbCr"})
"""Modes that can be averaged as they are; the others (palette, 1 bit, 16 bit) must be converted first."""

LANCZOS_LOBES = 3.0
"""Of Pillow's Lanczos filter, on each side; copies on a GPU are made as Pillow makes them."""
REDUCING_GAP = 2.0
"""A cheap box average goes first, down to so many times the size, then the good filter: as sharp as that
alone, several times faster on large scans."""
WORTH_ENLARGING = 1.25
"""Less than this gains nothing that could be read."""


def fit_scale(width: float, height: float, longest_edge: int) -> float:
    """What to multiply both sides by, so that the page has this longest edge.

    A strip more than twice as long as wide keeps the area of a page of two to one, or its writing is lost.
    """
    longest = max(width, height)
    if longest > 2 * min(width, height):
        longest = math.sqrt(2 * width * height)
    return longest_edge / longest


def fit_size(width: float, height: float, longest_edge: int, enlarge: bool = False) -> tuple[int, int]:
    """The size that a picture is shrunk to; a smaller one stays as it is.

    Enlarging adds bytes and work for every later stage, and no detail. Who asks for it gets pictures that are
    much too small enlarged, twice at most, to bring their writing into reach (docs/log.md).
    """
    scale = fit_scale(width, height, longest_edge)
    if scale > 1:
        scale = min(scale, 2.0) if enlarge and scale >= WORTH_ENLARGING else 1.0
    return max(1, round(width * scale)), max(1, round(height * scale))


def fit(image: Image.Image, longest_edge: int, enlarge: bool = False) -> Image.Image:
    """The picture in the size of ``fit_size`` (a longest edge of 0: as it is)."""
    if longest_edge <= 0:
        return image
    size = fit_size(*image.size, longest_edge, enlarge)
    if size == image.size:
        return image
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=REDUCING_GAP)


def is_shrinkable(image: Image.Image) -> bool:
    return image.mode in _SHRINKABLE
