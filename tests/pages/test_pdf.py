"""PDFs without worker processes around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages.samples import pdf_bytes, write_pdf
from vsplade.errors import PageError
from vsplade.pages.pdf import PdfFile


def test_why_a_file_is_refused_does_not_depend_on_the_file_before(tmp_path: Path) -> None:
    """PDFium, asked what went wrong, may name what went wrong with another file."""
    (tmp_path / "cut.pdf").write_bytes(pdf_bytes(["one", "two"])[:40])
    write_pdf(tmp_path / "locked.pdf", "secret", password="no")
    write_pdf(tmp_path / "zero.pdf")
    reasons = {"cut": "damaged", "locked": "password", "zero": "has no pages"}
    for name in ("zero", "cut", "zero", "locked", "zero", "cut", "locked"):
        with pytest.raises(PageError, match=reasons[name]):
            PdfFile(str(tmp_path / f"{name}.pdf"))
