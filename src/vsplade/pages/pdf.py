"""Pages of a PDF, rendered by PDFium, with the text layer that the file carries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pypdfium2 as pdfium
from pypdfium2 import raw

from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.passwords import known_passwords
from vsplade.pages.pixels import PageContent, Pixels
from vsplade.pages.resize import fit_scale

MAX_SCALE = 600 / 72
"""Tiny pages (stamps, labels) are rendered at 600 dots an inch at most."""

_HEADER_WINDOW = 1024
_SIGNATURE = b"%PDF-"
_DEEPEST_FORM = 16
_LINE_END_HYPHEN = "\ufffe"


class PdfFile:
    """An open PDF."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._limits = limits
        with open(path, "rb") as stream:
            start = stream.read(_HEADER_WINDOW)
        if not start:
            raise PageError("is an empty file")
        if _SIGNATURE not in start:
            raise PageError("is not a PDF, although its name says so")
        self.document = _open(path)
        self.pages = len(self.document)
        self.document.init_forms()

    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        try:
            page = self.document[number - 1]
            try:
                width, height = page.get_size()
                if width <= 0 or height <= 0:
                    raise PageError(f"has no area ({width:g} x {height:g} points)")
                text = _text(page)
                if longest_edge:
                    _check_pictures(page, self._limits)
                pixels = _render(page, width, height, longest_edge) if longest_edge else None
            finally:
                page.close()
        except pdfium.PdfiumError as error:
            raise PageError(f"cannot be rendered, the PDF is damaged: {error}") from None
        return PageContent(pixels, width, height, text)

    def close(self) -> None:
        self.document.close()


class _Sink:
    """What PDFium writes to. It goes on after an error, as if all was well: so the first one is kept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> None:
        try:
            if self.error is None:
                self._file.write(data)
        except OSError as error:
            self.error = error


def save_pdf(document: pdfium.PdfDocument, path: str | os.PathLike[str]) -> None:
    """Write a document to a file; a disk that is full is an error."""
    try:
        with open(path, "wb") as file:
            sink = _Sink(file)
            document.save(sink)
            if sink.error is not None:
                raise sink.error
    except OSError as error:
        raise PageError(f"could not be written as a PDF: {error.strerror or error}") from error


def _open(path: str) -> pdfium.PdfDocument:
    """Without a password, then with each that is known."""
    known = known_passwords()
    for password in (None, *known):
        try:
            return pdfium.PdfDocument(path, password)
        except pdfium.PdfiumError:
            if raw.FPDF_GetLastError() != raw.FPDF_ERR_PASSWORD:
                break
    why = _why_not_opened(path)
    if why == NEEDS_PASSWORD and known:
        why = f"is protected by a password, and none of those given ({len(known)}) opens it"
    raise PageError(why)


def _check_pictures(page: pdfium.PdfPage, limits: Limits) -> None:
    """Refuse a page with a picture above the limit, before PDFium decodes it.

    Pictures that are no objects of the page (masks, patterns, notes) are not seen here. What they may cost is
    bounded by the memory that the worker is given.
    """
    width, height = ctypes.c_uint(), ctypes.c_uint()
    sizes = ctypes.byref(width), ctypes.byref(height)
    for picture in _pictures(page):
        if not raw.FPDFImageObj_GetImagePixelSize(picture, *sizes):
            continue
        if width.value * height.value > limits.max_pixels:
            raise PageError(
                f"holds a picture of {width.value} x {height.value} pixels, above the limit of "
                f"{limits.max_pixels:,} pixels; make it smaller or raise --max-pixels"
            )


def _pictures(page: pdfium.PdfPage) -> Iterator[Any]:
    """The page's picture objects, also those inside of forms."""
    groups = [(raw.FPDFPage_CountObjects(page), raw.FPDFPage_GetObject, page.raw, 0)]
    while groups:
        count, get, owner, depth = groups.pop()
        for place in range(count):
            item = get(owner, place)
            kind = raw.FPDFPageObj_GetType(item)
            if kind == raw.FPDF_PAGEOBJ_IMAGE:
                yield item
            elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _DEEPEST_FORM:
                inside = raw.FPDFFormObj_CountObjects(item)
                groups.append((inside, raw.FPDFFormObj_GetObject, item, depth + 1))


def _render(page: pdfium.PdfPage, width: float, height: float, longest_edge: int) -> Pixels:
    scale = min(fit_scale(width, height, longest_edge), MAX_SCALE)
    # PDFium's binding rounds sizes up; the hair less keeps 1408.0000000001 from becoming 1409.
    bitmap = page.render(scale=scale * (1 - 1e-9), rev_byteorder=True)
    if bitmap.mode != "RGB":
        return Pixels.of(bitmap.to_pil().convert("RGB"))
    # The array keeps the bitmap's memory alive. Rows are padded to 4 bytes.
    rows = np.frombuffer(bitmap.buffer, dtype=np.uint8).reshape(bitmap.height, bitmap.stride)
    return Pixels(
        "RGB", (bitmap.width, bitmap.height), np.ascontiguousarray(rows[:, : bitmap.width * 3]).data
    )


def _text(page: pdfium.PdfPage) -> str | None:
    layer = page.get_textpage()
    try:
        text = str(layer.get_text_range())
    finally:
        layer.close()
    # PDFium joins "third-" and "party" across a line end with a mark of its own in place of the hyphen.
    text = text.replace(_LINE_END_HYPHEN, "-").replace("\r\n", "\n").replace("\0", "")
    return text if text.strip() else None


def _why_not_opened(path: str) -> str:
    """What PDFium says of a file that it does not open.

    It refuses a file without pages silently, and then still names what was wrong with an earlier file. So a
    failure of a known kind goes first: if that is still what it names, it had nothing to say.
    """
    raw.FPDF_LoadDocument(b"", None)
    try:
        pdfium.PdfDocument(path).close()
    except pdfium.PdfiumError as error:
        code = raw.FPDF_GetLastError()
        return _REASONS.get(code, f"cannot be opened: {error}")
    return "could not be opened at first; try again"


NEEDS_PASSWORD = "is protected by a password; give it with --password-file or VSPLADE_PDF_PASSWORDS"
_REASONS = {
    raw.FPDF_ERR_FILE: "has no pages",
    raw.FPDF_ERR_FORMAT: "is damaged or incomplete: no PDF structure could be found in it",
    raw.FPDF_ERR_PASSWORD: NEEDS_PASSWORD,
    raw.FPDF_ERR_SECURITY: "is encrypted in a way that cannot be read; save a copy without encryption",
}
