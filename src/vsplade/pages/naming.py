"""Which files are pages, and what their pages are called in an index.

A picture's page is called after the file's stem, page N of a document or of a TIFF with several pages
``stem_N``. Two files may share a stem (``2023/report.pdf``, ``2024/report.pdf``). Then the first one keeps
the plain stem, and each later one is called ``stem~`` with eight hexadecimal digits of the SHA-256 of its
absolute path. First means: already in the index, else first in the order of discovery. So a name never
changes once it is given. The same holds for the rarer clash of ``report_1.png`` with ``report.pdf``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

PDF_SUFFIXES = frozenset({".pdf"})
TIFF_SUFFIXES = frozenset({".tif", ".tiff"})
HEIF_SUFFIXES = frozenset({".heic", ".heif"})
PICTURE_SUFFIXES = HEIF_SUFFIXES | {
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".jp2", ".jpx", ".j2k",
}  # fmt: skip
DJVU_SUFFIXES = frozenset({".djvu", ".djv"})
HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
OFFICE_SUFFIXES = HTML_SUFFIXES | {
    ".docx", ".doc", ".odt", ".rtf", ".xlsx", ".xls", ".ods", ".pptx", ".ppt", ".odp", ".epub",
}  # fmt: skip
DOCUMENT_SUFFIXES = PDF_SUFFIXES | DJVU_SUFFIXES | OFFICE_SUFFIXES
"""Their pages have numbers, also where there is only one."""
SUFFIXES = DOCUMENT_SUFFIXES | TIFF_SUFFIXES | PICTURE_SUFFIXES
"""All that can be read somewhere; ``formats`` knows which of them can be read here."""

_NUMBERED = re.compile(r"(.+)_[1-9][0-9]*\Z", re.DOTALL)


def suffix(path: str) -> str:
    return PurePath(path).suffix.lower()


def is_pdf(path: str) -> bool:
    return suffix(path) in PDF_SUFFIXES


def page_id(path: str, doc_id: str, number: int, pages: int) -> str:
    """What page ``number`` of a file with so many ``pages`` is called."""
    kind = suffix(path)
    if kind in DOCUMENT_SUFFIXES or (kind in TIFF_SUFFIXES and pages > 1):
        return f"{doc_id}_{number}"
    return doc_id


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file and the name that its pages carry."""

    path: str
    """Absolute."""
    doc_id: str
    skip: frozenset[int] = frozenset()
    """Page numbers that need not be rendered: an earlier run has them."""

    def page_id(self, number: int, pages: int) -> str:
        return page_id(self.path, self.doc_id, number, pages)


class NameBook:
    """Hands out document names so that no two pages of an index share an id."""

    def __init__(self) -> None:
        self._documents: set[str] = set()
        self._numbered: set[str] = set()
        """Documents whose pages are called ``document_N``."""
        self._prefixes: set[str] = set()
        """``x`` for every single page called ``x_N``: a document named ``x`` would take its id."""

    def claim(self, path: str, doc_id: str) -> None:
        """Note a name that is in use."""
        self._documents.add(doc_id)
        kind = suffix(path)
        if kind not in PICTURE_SUFFIXES:
            self._numbered.add(doc_id)
        if kind not in DOCUMENT_SUFFIXES and (match := _NUMBERED.match(doc_id)):
            self._prefixes.add(match[1])

    def assign(self, path: str) -> str:
        """A free name for a new file: its stem, or the stem with a hash of the path."""
        stem = PurePath(path).stem
        name = stem
        if not self._is_free(path, name):
            name = f"{stem}~{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
        repeat = 2
        unique = name
        while not self._is_free(path, unique):
            unique = f"{name}.{repeat}"
            repeat += 1
        self.claim(path, unique)
        return unique

    def _is_free(self, path: str, name: str) -> bool:
        if name in self._documents:
            return False
        kind = suffix(path)
        if kind not in PICTURE_SUFFIXES and name in self._prefixes:
            return False
        match = _NUMBERED.match(name)
        return kind in DOCUMENT_SUFFIXES or match is None or match[1] not in self._numbered


def name_files(paths: Iterable[str], taken: Mapping[str, str] | None = None) -> list[SourceFile]:
    """Name ``paths`` in order; ``taken`` maps the paths that an index holds to their names."""
    book = NameBook()
    known = taken or {}
    for path, doc_id in known.items():
        book.claim(path, doc_id)
    return [SourceFile(path, known.get(path) or book.assign(path)) for path in paths]
