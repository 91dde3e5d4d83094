"""WebP scans in grey, straight from the codec: half the time of a decoder that makes colours first.

A lossy WebP file stores brightness apart from colour. Pillow always asks for colours; the library that Pillow
itself has loaded also gives the brightness alone. For pages without colour that is the same, within one grey
level. Where there is colour it is not: strong colours are cut off at what a screen can show, and their
brightness with them. Those pages are left to Pillow (slides lost a quarter of a point of NDCG@5 otherwise).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_HEADER_BYTES = 30
_DARKEST, _LIGHTEST = 16, 235
_NO_COLOUR = 128
_TINT, _TINTED = 4, 0.001
"""A page is grey when no larger share of its places is further from no colour than that."""
_FULL_RANGE = [
    max(0, min(255, round((level - _DARKEST) * 255 / (_LIGHTEST - _DARKEST)))) for level in range(256)
]


@cache
def _library() -> Any:
    """libwebp as Pillow's own module is linked to it; None where it cannot be reached (Windows)."""
    try:
        from PIL import _webp

        library = ctypes.CDLL(_webp.__file__)
        library.WebPDecodeYUV.restype = ctypes.c_void_p
        library.WebPDecodeYUV.argtypes = [ctypes.c_char_p, ctypes.c_size_t, *[ctypes.c_void_p] * 6]
        library.WebPFree.restype = None
        library.WebPFree.argtypes = [ctypes.c_void_p]
    except (ImportError, OSError, AttributeError):
        return None
    return library


def _plane(address: int, size: tuple[int, int], stride: int) -> NDArray[np.uint8]:
    length = stride * (size[1] - 1) + size[0]
    values = np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(address))
    return np.lib.stride_tricks.as_strided(values, size[::-1], (stride, 1), writeable=False)


def _is_tinted(colour: NDArray[np.uint8]) -> bool:
    # differences wrap around below zero, to large numbers
    away = (colour - np.uint8(_NO_COLOUR - _TINT)) > np.uint8(2 * _TINT)
    return int(np.count_nonzero(away)) > _TINTED * away.size


def webp_size(path: str) -> tuple[int, int] | None:
    """Width and height by the header of a WebP file, before any decoder sees it; None for other files."""
    with open(path, "rb") as file:
        start = file.read(_HEADER_BYTES)
    if start[:4] != b"RIFF" or start[8:12] != b"WEBP" or len(start) < _HEADER_BYTES:
        return None
    if start[12:16] == b"VP8X":  # with more than a picture in it: less one, in three bytes each
        return 1 + int.from_bytes(start[24:27], "little"), 1 + int.from_bytes(start[27:30], "little")
    if start[12:16] == b"VP8L":  # without loss: less one, in 14 bits each
        bits = int.from_bytes(start[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = (int.from_bytes(start[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return width, height


def decode_grey(path: str, size: tuple[int, int]) -> Image.Image | None:
    """The picture in mode ``L``; None where it has colour, or only Pillow can say what is in the file."""
    library = _library()
    if library is None:
        return None
    with open(path, "rb") as file:
        data = file.read()
    width, height, stride, other_stride = (ctypes.c_int() for _ in range(4))
    u, v = ctypes.c_void_p(), ctypes.c_void_p()
    places = (ctypes.byref(value) for value in (width, height, u, v, stride, other_stride))
    levels = library.WebPDecodeYUV(data, len(data), *places)
    if not levels:
        return None
    try:
        if (width.value, height.value) != size:
            return None
        half = ((size[0] + 1) // 2, (size[1] + 1) // 2)
        if any(_is_tinted(_plane(address.value or 0, half, other_stride.value)) for address in (u, v)):
            return None
        # one more copy, widened to the full range, before the memory goes back
        rows = _plane(levels, size, stride.value)
        return Image.fromarray(np.ascontiguousarray(rows)).point(_FULL_RANGE)
    finally:
        library.WebPFree(levels)
