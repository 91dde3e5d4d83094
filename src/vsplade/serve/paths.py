"""Names and paths that come from outside: which are allowed, and what files claim to be."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from vsplade.pages.naming import SUFFIXES, suffix
from vsplade.serve.request_errors import RequestError, bad_request

LONGEST_NAME = 200
"""Bytes; file systems allow 255, and page ids are made from names."""
HEAD = 1024
"""Bytes of a file that show what it is."""
MEDIA_TYPES = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".jpe": "image/jpeg",
    ".jfif": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
}


def checked_name(name: str) -> str:
    """The name of an upload, as it is; whatever could lead elsewhere is refused, not repaired."""
    name = unicodedata.normalize("NFC", name)
    if not name or name != os.path.basename(name) or "\\" in name or name.startswith("."):
        raise bad_request("A file's name must not hold slashes or begin with a dot.")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        raise bad_request("A file's name must not hold control characters.")
    if len(name.encode()) > LONGEST_NAME:
        raise bad_request(f"A file's name may have {LONGEST_NAME} bytes at most.")
    if suffix(name) not in SUFFIXES:
        known = ", ".join(sorted(SUFFIXES))
        raise RequestError(415, "unknown_format", f"This is not a page format. Known endings: {known}.")
    return name


def looks_like(head: bytes, name: str) -> bool:
    """Whether a file's first bytes are those of the format that its ending names."""
    kind = MEDIA_TYPES.get(suffix(name))
    if kind == "application/pdf":
        return b"%PDF-" in head[:HEAD]
    if kind == "image/webp":
        return head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    starts = {
        "image/png": (b"\x89PNG\r\n\x1a\n",),
        "image/jpeg": (b"\xff\xd8\xff",),
        "image/gif": (b"GIF87a", b"GIF89a"),
        "image/tiff": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
    }
    return kind in starts and head.startswith(starts[kind])


def inside(path: str, roots: Iterable[str]) -> bool:
    """Whether a path, with every link followed, lies in one of the folders."""
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return False
    return any(Path(real).is_relative_to(os.path.realpath(root)) for root in roots)


def checked_paths(given: Iterable[str], roots: tuple[str, ...]) -> tuple[str, ...]:
    """Paths to add. Outside the roots all look alike: whether something exists there is not told."""
    if not roots:
        raise RequestError(
            403, "no_roots", "This server adds no files by path; upload them, or start it with --root."
        )
    checked = []
    for path in given:
        if "\0" in path or not path.strip():
            raise bad_request("A path is empty or holds a NUL byte.")
        wanted = path if os.path.isabs(path) else os.path.join(roots[0], path)
        if not inside(wanted, roots):
            raise RequestError(
                403, "outside_roots", "That path is not in a folder that files may be added from."
            )
        if not os.path.exists(wanted):
            raise RequestError(404, "not_found", "There is no such file or folder.")
        checked.append(os.path.abspath(wanted))
    return tuple(checked)
