"""The text layers of PDFs: where every character stands on a page as it is rendered."""

from __future__ import annotations

import ctypes
import random
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_HYPHENS = {"\u0002", "\ufffe", "\u00ad", "\u2010", "\u2011"}
Letter = tuple[str, float, float, float, float]  # character, left, right, middle y, em; in px of the picture


def characters_of(page: Any, scale: float) -> Iterator[Letter]:
    """The letters of a page in reading order, a space between words.

    Text is placed in the PDF's own coordinates, whose origin may lie outside the part of the page that is
    shown.
    """
    import pypdfium2.raw as raw

    text = page.get_textpage()
    shown_left, _, _, shown_top = page.get_bbox()
    box = raw.FS_RECTF()
    for n in range(raw.FPDFText_CountChars(text)):
        char = chr(raw.FPDFText_GetUnicode(text, n) or 32)
        if char.isspace():
            yield " ", 0, 0, 0, 0
            continue
        if not raw.FPDFText_GetLooseCharBox(text, n, ctypes.byref(box)):
            continue
        tall = (box.top - box.bottom) * scale
        y = (shown_top - box.bottom - 0.42 * (box.top - box.bottom)) * scale
        folded = "-" if char in _HYPHENS else unicodedata.normalize("NFKC", char)
        step = (box.right - box.left) * scale / max(1, len(folded))
        for i, part in enumerate(folded):
            left = (box.left - shown_left) * scale + i * step
            yield part, left, left + step, y, tall / 1.2
    text.close()


def page_jobs(
    pdfs: Sequence[Path], per_file: int, edges: tuple[int, int], seed: int
) -> list[tuple[str, int, int]]:
    """(file, page, longest edge) in random order, at most ``per_file`` pages of a file, of random sizes."""
    import pypdfium2

    rng = random.Random(seed)
    jobs = []
    for path in pdfs:
        try:
            count = len(pypdfium2.PdfDocument(str(path)))
        except pypdfium2.PdfiumError:
            continue
        pages = rng.sample(range(count), min(count, per_file))
        jobs += [(str(path), number, rng.randint(*edges)) for number in pages]
    rng.shuffle(jobs)
    return jobs
