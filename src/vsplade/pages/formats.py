"""Which kinds of files can be read here, what the others would need, and what their first bytes look like."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec

from vsplade.pages.naming import (
    DJVU_SUFFIXES,
    HEIF_SUFFIXES,
    HTML_SUFFIXES,
    OFFICE_SUFFIXES,
    PDF_SUFFIXES,
    SUFFIXES,
    TIFF_SUFFIXES,
    suffix,
)
from vsplade.pages.office import missing_office

HEAD = 1024
"""Bytes of a file that show what it is."""
_EXTRA = "pip install 'vsplade[formats]'"
_STARTS: tuple[tuple[Iterable[str], tuple[bytes, ...]], ...] = (
    ((".png",), (b"\x89PNG\r\n\x1a\n",)),
    ((".jpg", ".jpeg", ".jpe", ".jfif"), (b"\xff\xd8\xff",)),
    ((".gif",), (b"GIF87a", b"GIF89a")),
    (TIFF_SUFFIXES, (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    ((".bmp",), (b"BM",)),
    ((".jp2", ".jpx", ".j2k"), (b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")),
    (DJVU_SUFFIXES, (b"AT&TFORM",)),
    ((".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub"), (b"PK\x03\x04",)),
    ((".doc", ".xls", ".ppt"), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)),
    ((".rtf",), (b"{\\rtf",)),
)
_BEGINNINGS = {ending: starts for endings, starts in _STARTS for ending in endings}


@cache
def needs(ending: str) -> str | None:
    """What has to be there before files with this ending can be read; None: nothing, or it is there."""
    if ending in HEIF_SUFFIXES and find_spec("pi_heif") is None:
        return f"the package pi-heif ({_EXTRA})"
    if ending in DJVU_SUFFIXES and find_spec("djvu_rs") is None:
        return f"the package djvu-rs ({_EXTRA})"
    return missing_office() if ending in OFFICE_SUFFIXES else None


def readable() -> list[str]:
    """The endings of the files that can be read here."""
    return sorted(ending for ending in SUFFIXES if needs(ending) is None)


def is_supported(path: str) -> bool:
    ending = suffix(path)
    return ending in SUFFIXES and needs(ending) is None


def why_not(path: str) -> str:
    """What to tell a person about a file that is not supported."""
    missing = needs(suffix(path))
    return (
        f"needs {missing}" if missing else f"is not a page format; known endings are {', '.join(readable())}"
    )


def looks_like(head: bytes, ending: str) -> bool:
    """Whether the first ``HEAD`` bytes of a file are those of the format that its ending names."""
    if ending in PDF_SUFFIXES:
        return b"%PDF-" in head[:HEAD]
    if ending == ".webp":
        return head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    if ending in HEIF_SUFFIXES:
        return head[4:8] == b"ftyp"
    if ending in HTML_SUFFIXES:
        return b"\0" not in head and head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    return head.startswith(_BEGINNINGS.get(ending, ()))
