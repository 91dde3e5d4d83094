"""PDFs without worker processes around them."""

from __future__ import annotations

from pathlib import Path

import pypdfium2 as pdfium
import pytest

from pages.samples import pdf_bytes, write_pdf
from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.pdf import PdfFile


def test_why_a_file_is_refused_does_not_depend_on_the_file_before(tmp_path: Path) -> None:
    """PDFium, asked what went wrong, may name what went wrong with another file."""
    (tmp_path / "cut.pdf").write_bytes(pdf_bytes(["one", "two"])[:40])
    write_pdf(tmp_path / "locked.pdf", "secret", password="no")
    write_pdf(tmp_path / "zero.pdf")
    reasons = {"cut": "damaged", "locked": "password", "zero": "has no pages"}
    for name in ("zero", "cut", "zero", "locked", "zero", "cut", "locked"):
        with pytest.raises(PageError, match=reasons[name]):
            PdfFile(str(tmp_path / f"{name}.pdf"), Limits())


def test_a_strip_keeps_the_area_of_a_page(tmp_path: Path) -> None:
    """A web page printed in one piece must not become a thread of pixels."""
    document = pdfium.PdfDocument.new()
    document.new_page(300, 6000)
    document.save(str(tmp_path / "strip.pdf"))
    pixels = PdfFile(str(tmp_path / "strip.pdf"), Limits()).page(1, 1000).pixels
    assert pixels is not None
    width, height = pixels.size
    assert width == pytest.approx(158, abs=2)
    assert width * height == pytest.approx(1000 * 500, rel=0.02)
