"""What a file gives for one page, on its way from a decoder to the parent process."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image


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


@dataclass(frozen=True, slots=True)
class PageContent:
    """One page of an open file."""

    pixels: Pixels | None
    """None where no pixels were asked for."""
    width: float
    """Natural size, upright: points in a PDF, pixels in a picture."""
    height: float
    text: str | None = None
