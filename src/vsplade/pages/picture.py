"""PNG, JPEG, WebP, GIF, TIFF, BMP, JPEG 2000 and HEIC files as upright pictures in grey or RGB."""

from __future__ import annotations

import io
import os
from functools import partial

import numpy as np
from PIL import Image, UnidentifiedImageError

from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.naming import HEIF_SUFFIXES, suffix
from vsplade.pages.pixels import PageContent, Pixels
from vsplade.pages.resize import fit, fit_size, is_shrinkable
from vsplade.pages.webp import decode_grey, webp_size

THUMBNAIL = 480
"""Longest edge of the pictures that an index keeps for lists of results."""
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "JPEG2000")
"""Only these decoders are ever tried, whatever a file claims to be."""

_ORIENTATION_TAG = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PictureFile:
    """A picture, or the pages of a TIFF. An animation is its first frame."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        # Our own check below knows how much of a JPEG must really be decoded; Pillow's does not.
        Image.MAX_IMAGE_PIXELS = None
        if (size := webp_size(path)) is not None:
            self._check(*size, *size)  # Pillow takes memory for the whole picture when it opens one
        try:
            self._image: Image.Image = Image.open(path, formats=_formats(path))
        except UnidentifiedImageError:
            if os.path.getsize(path) == 0:
                raise PageError("is an empty file") from None
            raise PageError("is not a picture that can be read, or it is damaged") from None
        self.pages = int(getattr(self._image, "n_frames", 1)) if self._image.format == "TIFF" else 1

    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        image = self._image
        if self.pages > 1:
            image.seek(number - 1)
        width, height = image.size
        if width < 1 or height < 1:
            raise PageError(f"is an empty picture ({width} x {height} pixels)")
        if longest_edge:
            self._check(width, height, *self._decoded_size(image, longest_edge, grey))
        turn = _UPRIGHT.get(_orientation(image, may_decode=longest_edge > 0))
        upright = (height, width) if turn is not None and turn in _SWAPS_SIDES else (width, height)
        if longest_edge == 0:
            return PageContent(None, *upright)
        if grey and image.format == "WEBP" and image.mode == "RGB":
            image = decode_grey(self._path, image.size) or image
        image.load()
        # Few enough pixels for the page's place in shared memory: who reads it shrinks it by itself, and
        # doing that twice took longer than decoding.
        edge = longest_edge if image.width * image.height > longest_edge**2 else 0
        shown = to_grey_or_rgb(image.convert("L") if grey and image.mode == "RGB" else image, edge)
        return PageContent(Pixels.of(shown if turn is None else shown.transpose(turn)), *upright)

    @staticmethod
    def _decoded_size(image: Image.Image, longest_edge: int, grey: bool) -> tuple[int, int]:
        """What the decoder will hold in memory, by the file's header alone."""
        whole = image.size
        if image.format not in ("JPEG", "MPO"):
            return whole
        # The decoder itself can leave out detail: a huge photograph costs a 64th of its pixels. A
        # progressive one is held in memory whole all the same, so there it does not count.
        # Asked for grey, it leaves out colour too.
        image.draft("L" if grey else None, fit_size(*whole, longest_edge))
        return whole if image.info.get("progressive") else image.size

    def _check(self, width: int, height: int, decoded_width: int, decoded_height: int) -> None:
        if decoded_width * decoded_height > self._limits.max_pixels:
            raise PageError(too_many_pixels(width, height, self._limits))

    def close(self) -> None:
        self._image.close()


def _formats(path: str) -> tuple[str, ...]:
    """HEIC has a decoder of its own, which only files with its ending get to see."""
    if suffix(path) not in HEIF_SUFFIXES:
        return FORMATS
    try:
        import pi_heif
    except ImportError:
        raise PageError("needs the package pi-heif: pip install 'vsplade[formats]'") from None
    pi_heif.options.DECODE_THREADS = 1
    pi_heif.options.THUMBNAILS = False
    pi_heif.register_heif_opener()
    return ("HEIF",)


def too_many_pixels(width: int, height: int, limits: Limits) -> str:
    return (
        f"has {width} x {height} pixels, above the limit of {limits.max_pixels:,} pixels; "
        "make it smaller or raise --max-pixels"
    )


_SWAPS_SIDES = frozenset(
    {
        Image.Transpose.TRANSPOSE,
        Image.Transpose.ROTATE_270,
        Image.Transpose.TRANSVERSE,
        Image.Transpose.ROTATE_90,
    }
)


def _orientation(image: Image.Image, may_decode: bool) -> int:
    # A PNG's note may follow its pixels, and Pillow decodes them all to look there. Without leave to do that,
    # only what stands before them is read.
    notes = image.getexif if may_decode else partial(Image.Image.getexif, image)
    try:
        return int(notes().get(_ORIENTATION_TAG, 1))
    except (SyntaxError, ValueError, TypeError, OSError, KeyError):
        return 1  # a damaged note about the camera is no reason to refuse the picture


def to_grey_or_rgb(image: Image.Image, longest_edge: int = 0) -> Image.Image:
    """Any picture as mode ``L`` or ``RGB``, alpha on white, fitted to ``longest_edge`` (0: size kept)."""
    if is_shrinkable(image):
        return _flatten(fit(image, longest_edge))
    return fit(_flatten(image), longest_edge)


def _flatten(image: Image.Image) -> Image.Image:
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I") or image.mode == "F":
        return _wide_to_grey(image)
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        with_alpha = image.convert("RGBA")
        paper = Image.new("RGB", image.size, "white")
        paper.paste(with_alpha, mask=with_alpha.getchannel("A"))
        return paper
    return image.convert("RGB")


def _wide_to_grey(image: Image.Image) -> Image.Image:
    """More than 8 bits a sample: 16-bit pictures use their whole range, others are stretched to theirs."""
    samples = np.asarray(image)
    if image.mode.startswith("I;16") or (image.mode == "I" and 255 < samples.max() <= 0xFFFF):
        return Image.fromarray((np.clip(samples, 0, 0xFFFF) >> 8).astype(np.uint8))
    low, high = float(np.nanmin(samples)), float(np.nanmax(samples))
    if image.mode == "I" and low >= 0 and high <= 255:
        return Image.fromarray(samples.astype(np.uint8))
    scale = 255.0 / (high - low) if high > low else 0.0
    return Image.fromarray(np.nan_to_num((samples - low) * scale).clip(0, 255).astype(np.uint8))


def thumbnail_jpeg(image: Image.Image, longest_edge: int) -> bytes:
    """A small JPEG of an upright grey or RGB picture."""
    small = fit(image, longest_edge)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=75)
    return buffer.getvalue()
