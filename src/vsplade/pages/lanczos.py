"""Grey pages shrunk by loops that numba compiles: the pixels that ``fit`` gives, in a ninth of the time.

Pillow's filter goes over one pixel at a time. Here a whole row is multiplied at once. For the pass across,
the picture is laid on its side before and after. Sums are Pillow's own integers, so every pixel is the same
as Pillow 13 makes it. Loading numba takes a third of a second: processes that render pages use Pillow.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vsplade.compiled import compiled
from vsplade.pages.pixels import as_image, grey_levels
from vsplade.pages.resize import LANCZOS_LOBES, REDUCING_GAP, fit_size

_BITS = 22
"""Of a weight's fraction."""
_LONG = 8
"""Bytes that are moved at once: sides of pictures between the passes are multiples of it."""

Taps = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]
"""For every output its first input, how many there are, and their weights."""


def fit_grey(image: Image.Image, longest_edge: int, enlarge: bool = False) -> Image.Image:
    """The grey picture as ``fit`` gives it."""
    size = fit_size(*image.size, longest_edge, enlarge)
    if longest_edge <= 0 or size == image.size:
        return image
    ends = [float(side) for side in image.size]
    factors = [int(old / new / REDUCING_GAP) or 1 for old, new in zip(image.size, size, strict=True)]
    if max(factors) > 1:
        image = image.reduce((factors[0], factors[1]))
        ends = [end / factor for end, factor in zip(ends, factors, strict=True)]
    return as_image("L", size, resized(grey_levels(image), size, (ends[0], ends[1])))


def resized(grey: NDArray[np.uint8], size: tuple[int, int], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """Of this width and height; ``ends`` is how much of the picture that is."""
    height, width = grey.shape
    across, down = (width, *size[:1], ends[0]), (height, *size[1:], ends[1])
    lost = height - size[1]
    if lost > 0 and lost > 2 * (width - size[0]):  # as Pillow does: the way that leaves less for the other
        return np.ascontiguousarray(_across(_down(grey, *down), *across)[:, : size[0]])
    return _down(_across(grey, *across)[:, : size[0]], *down)


def _down(grey: NDArray[np.uint8], inputs: int, outputs: int, end: float) -> NDArray[np.uint8]:
    if inputs == outputs == end:
        return grey
    out = np.empty((outputs, grey.shape[1]), np.uint8)
    _filter_down(grey, *taps(inputs, outputs, end), out)
    return out


def _across(grey: NDArray[np.uint8], inputs: int, outputs: int, end: float) -> NDArray[np.uint8]:
    return grey if inputs == outputs == end else _on_side(_down(_on_side(grey), inputs, outputs, end))


def _on_side(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Columns become rows, which end in some bytes that mean nothing."""
    out = np.empty((grey.shape[1], -(-grey.shape[0] // _LONG)), np.uint64)
    _turn(grey, out)
    return out.view(np.uint8)[:, : grey.shape[0]]


@lru_cache(maxsize=64)
def taps(inputs: int, outputs: int, end: float) -> Taps:
    scale = float(np.float32(end)) / outputs
    size = math.ceil(LANCZOS_LOBES * max(scale, 1.0)) * 2 + 1
    first, count = np.empty(outputs, np.int64), np.empty(outputs, np.int64)
    weights = np.zeros((outputs, size), np.int32)
    _weigh(inputs, scale, first, count, weights)
    return first, count, weights


@compiled()
def _lanczos(x: Any) -> Any:
    if not -LANCZOS_LOBES <= x < LANCZOS_LOBES:
        return 0.0
    if x == 0.0:
        return 1.0
    near, far = x * math.pi, x / LANCZOS_LOBES * math.pi
    return math.sin(near) / near * (math.sin(far) / far)


@compiled()
def _weigh(inputs: Any, scale: Any, first: Any, count: Any, weights: Any) -> None:
    outputs, size = weights.shape
    reach, inverse = LANCZOS_LOBES * max(scale, 1.0), 1.0 / max(scale, 1.0)
    row = np.empty(size)
    for place in range(outputs):
        middle = (place + 0.5) * scale
        low, high = max(0, int(middle - reach + 0.5)), min(inputs, int(middle + reach + 0.5))
        total = 0.0
        for n in range(high - low):
            row[n] = _lanczos((n + low - middle + 0.5) * inverse)
            total += row[n]
        for n in range(high - low):
            weight = row[n] / total * (1 << _BITS)
            weights[place, n] = int(weight - 0.5) if weight < 0 else int(weight + 0.5)
        first[place], count[place] = low, high - low


@compiled()
def _filter_down(grey: Any, first: Any, count: Any, weights: Any, out: Any) -> None:
    """Each row the sum of some rows. Four at a time: the sums go to memory and back less often."""
    rows, width = out.shape
    sums = np.empty(width, np.int32)
    for y in range(rows):
        sums[:] = 1 << (_BITS - 1)
        top, rest = first[y], count[y]
        for n in range(0, rest - 3, 4):
            a, b, c, d = weights[y, n], weights[y, n + 1], weights[y, n + 2], weights[y, n + 3]
            one, two, three, four = grey[top + n], grey[top + n + 1], grey[top + n + 2], grey[top + n + 3]
            for x in range(width):
                sums[x] += a * one[x] + b * two[x] + c * three[x] + d * four[x]
        for n in range(rest // 4 * 4, rest):
            a, one = weights[y, n], grey[top + n]
            for x in range(width):
                sums[x] += a * one[x]
        for x in range(width):
            out[y, x] = min(max(sums[x] >> _BITS, 0), 255)


@compiled()
def _turn(grey: Any, out: Any) -> None:
    """Eight rows become one column of 64 bits; a picture's last rows may be fewer."""
    height, width = grey.shape
    for column in range(out.shape[1]):
        y = column * _LONG
        last = height - 1
        a, b, c, d = grey[y], grey[min(y + 1, last)], grey[min(y + 2, last)], grey[min(y + 3, last)]
        e, f, g = grey[min(y + 4, last)], grey[min(y + 5, last)], grey[min(y + 6, last)]
        h = grey[min(y + 7, last)]
        for x in range(width):
            low = np.uint64(a[x]) | np.uint64(b[x]) << np.uint64(8)
            low |= np.uint64(c[x]) << np.uint64(16) | np.uint64(d[x]) << np.uint64(24)
            high = np.uint64(e[x]) << np.uint64(32) | np.uint64(f[x]) << np.uint64(40)
            high |= np.uint64(g[x]) << np.uint64(48) | np.uint64(h[x]) << np.uint64(56)
            out[x, column] = low | high
