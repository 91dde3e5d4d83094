"""WebP pictures in grey, straight from the codec: half the time of a decoder that makes colours first.

A lossy WebP file stores brightness apart from colour. Pillow always asks for colours; the library that Pillow
itself has loaded also gives the brightness alone.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from PIL import Image

_DARKEST, _LIGHTEST = 16, 235
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


def decode_grey(path: str, size: tuple[int, int]) -> Image.Image | None:
    """The picture in mode ``L``; None where only Pillow can say what is in the file, or what is wrong."""
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
        rows = (ctypes.c_uint8 * (stride.value * (height.value - 1) + width.value)).from_address(levels)
        # one more copy, widened to the full range, before the memory goes back
        return Image.frombytes("L", size, bytes(rows), "raw", "L", stride.value, 1).point(_FULL_RANGE)
    finally:
        library.WebPFree(levels)
