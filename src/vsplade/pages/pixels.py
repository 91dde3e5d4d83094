"""What a file gives for one page, on its way from a decoder to the parent process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_BYTES = "_vsplade_bytes"


@dataclass(frozen=True, slots=True)
class Pixels:
    """Rows from the top, no padding; ``L`` or ``RGB``.

    Plain bytes and not a Pillow image, because Pillow keeps 4 bytes for an RGB pixel: to turn PDFium's bitmap
    into an image and that into bytes again would cost a fifth of the time that rendering takes.
    """

    mode: str
    size: tuple[int, int]
    data: bytes | memoryview

    @classmethod
    def of(cls, image: Image.Image) -> Pixels:
        return cls(image.mode, image.size, image.tobytes())

    def image(self) -> Image.Image:
        return Image.frombytes(self.mode, self.size, self.data)

    def grey(self) -> Pixels:
        return self if self.mode == "L" else Pixels.of(self.image().convert("L"))


@dataclass(frozen=True, slots=True)
class PageContent:
    """One page of an open file."""

    pixels: Pixels | None
    """None where no pixels were asked for."""
    width: float
    """Natural size, upright: points in a PDF, pixels in a picture."""
    height: float
    text: str | None = None


def as_image(mode: str, size: tuple[int, int], data: NDArray[np.uint8]) -> Image.Image:
    """A picture over these bytes; a grey one shares them, and they can be had back without a copy."""
    image = Image.frombuffer(mode, size, data, "raw", mode, 0, 1)
    if mode == "L":
        vars(image)[_BYTES] = data
    return image


def grey_levels(image: Image.Image) -> NDArray[np.uint8]:
    """(height, width) of a picture in any mode; not to be written to."""
    data = vars(image).get(_BYTES)
    if data is not None and image.readonly:  # whoever changes a shared picture gets a copy of his own
        shared: NDArray[np.uint8] = data
        return shared.reshape(image.height, image.width)
    return np.asarray(image if image.mode == "L" else image.convert("L"))
