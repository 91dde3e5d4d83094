"""Writes a searchable PDF. Run as ``python -m vsplade.reading.pdf_process`` with the job as JSON on stdin.

Invisible text is set in Helvetica, each word as wide as its box, with a space behind it. PDFium adds it to a
page as a content stream of its own and keeps what is there.
"""

from __future__ import annotations

import ctypes
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.pdf import PdfFile, save_pdf
from vsplade.pages.picture import PictureFile
from vsplade.pages.render_worker import _bound_memory, open_file, reason

Point = tuple[float, float]
ToPage = Callable[[float, float], Point]
"""From fractions of the page as it is shown to a PDF's own coordinates."""

BASELINE = 0.25
"""Of a word's height, from the bottom of its box."""
LINE_HEIGHT = 1.2
"""Of the size of the type."""
JPEG_QUALITY = 90
POINTS_PER_PIXEL = 72 / 150
"""Pictures that do not say how large they are count as 150 dots an inch."""
LARGEST_SIDE = 14_400.0
"""Points, as PDF has it."""
_DIRECTIONS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""In which text runs on a page that so many quarter turns bring upright; y grows downwards."""


class TextWriter:
    """Invisible text for the pages of one document."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._document = document
        self._font = raw.FPDFText_LoadStandardFont(document, b"Helvetica")

    def add(self, page: pdfium.PdfPage, lines: list[list[list[Any]]], quarters: int) -> None:
        to_page = page_coordinates(page)
        for line in lines:
            for number, (text, *box) in enumerate(line):
                self._add_word(page, text, box, quarters, to_page, number + 1 < len(line))
        if not raw.FPDFPage_GenerateContent(page):
            raise PageError("cannot be written: PDFium refuses to add text to a page")

    def _add_word(
        self, page: pdfium.PdfPage, text: str, box: list[float], quarters: int, to_page: ToPage, spaced: bool
    ) -> None:
        start, along, up = _placed(box, quarters)
        origin, end, top = (
            to_page(start[0] + step[0], start[1] + step[1]) for step in ((0.0, 0.0), along, up)
        )
        advance = self._advance(text)
        if advance <= 0:
            return
        word = raw.FPDFPageObj_CreateTextObj(self._document, self._font, 1.0)
        encoded = ctypes.create_string_buffer((text + (" " if spaced else "") + "\0").encode("utf-16-le"))
        raw.FPDFText_SetText(word, ctypes.cast(encoded, ctypes.POINTER(ctypes.c_ushort)))
        raw.FPDFTextObj_SetTextRenderMode(word, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        matrix = raw.FS_MATRIX(
            (end[0] - origin[0]) / advance,
            (end[1] - origin[1]) / advance,
            (top[0] - origin[0]) / LINE_HEIGHT,
            (top[1] - origin[1]) / LINE_HEIGHT,
            *origin,
        )
        raw.FPDFPageObj_SetMatrix(word, matrix)
        raw.FPDFPage_InsertObject(page, word)

    def _advance(self, text: str) -> float:
        """The width of a word in type of size 1."""
        width, whole = ctypes.c_float(), 0.0
        for letter in text:
            raw.FPDFFont_GetGlyphWidth(self._font, ord(letter), 1.0, ctypes.byref(width))
            whole += width.value
        return whole


def _placed(box: list[float], quarters: int) -> tuple[Point, Point, Point]:
    """Where the baseline begins, how far it goes, and the line's height, in fractions of the page."""
    left, top, right, bottom = box
    wide, high = right - left, bottom - top
    step = _DIRECTIONS[quarters % 4]
    starts = (
        (left, bottom - BASELINE * high),
        (left + BASELINE * wide, top),
        (right, top + BASELINE * high),
        (right - BASELINE * wide, bottom),
    )
    along = (step[0] * wide, step[1] * high)
    up = (step[1] * wide, -step[0] * high)
    return starts[quarters % 4], along, up


def page_coordinates(page: pdfium.PdfPage) -> ToPage:
    """The way back from what ``viewer_process`` makes of places, whatever rotation and crop box."""
    left, bottom, right, top = page.get_bbox()
    width, height = right - left, top - bottom
    turn = page.get_rotation() % 360

    def convert(x: float, y: float) -> Point:
        across, upwards = {0: (x, 1 - y), 90: (y, x), 180: (1 - x, y), 270: (1 - y, 1 - x)}[turn]
        return left + across * width, bottom + upwards * height

    return convert


def add_picture(document: pdfium.PdfDocument, picture: PictureFile, number: int) -> pdfium.PdfPage:
    """A new page that shows one picture, at its own size in pixels."""
    shape = picture.page(number, 0)
    content = picture.page(number, round(max(shape.width, shape.height)))
    assert content.pixels is not None
    stream = io.BytesIO()
    content.pixels.image().save(stream, "JPEG", quality=JPEG_QUALITY)
    scale = min(POINTS_PER_PIXEL, LARGEST_SIDE / max(shape.width, shape.height))
    width, height = shape.width * scale, shape.height * scale
    page = document.new_page(width, height)
    image = pdfium.PdfImage.new(document)
    stream.seek(0)
    image.load_jpeg(stream, inline=True)
    image.set_matrix(pdfium.PdfMatrix().scale(width, height))
    page.insert_obj(image)
    return page


def write(job: dict[str, Any]) -> None:
    limits = Limits(**job["limits"])
    file = open_file(job["source"], limits)
    if isinstance(file, PdfFile):
        document = file.document
    else:
        assert isinstance(file, PictureFile)
        document = pdfium.PdfDocument.new()
    writer = TextWriter(document)
    for number in range(1, file.pages + 1):
        read = job["pages"].get(str(number), {"lines": [], "quarters": 0})
        if isinstance(file, PictureFile):
            writer.add(add_picture(document, file, number), read["lines"], read["quarters"])
        elif read["lines"]:
            writer.add(document[number - 1], read["lines"], read["quarters"])
    save_pdf(document, job["output"])


def main() -> None:
    job = json.load(sys.stdin.buffer)
    _bound_memory(Limits(**job["limits"]))
    try:
        write(job)
    except Exception as error:  # whatever a decoder throws at a file is that file's failure
        print(reason(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
