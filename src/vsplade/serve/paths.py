"""Names and paths that come from outside: which are allowed."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from vsplade.pages.formats import is_supported, why_not
from vsplade.serve.request_errors import RequestError, bad_request

LONGEST_NAME = 200
"""Bytes; file systems allow 255, and page ids are made from names."""
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
    ".bmp": "image/bmp",
}
"""Of the files that browsers may show. Others are handed out to be kept: an HTML file that is shown from here
could act in the name of this server."""


def checked_name(name: str) -> str:
    """The name of an upload, as it is; whatever could lead elsewhere is refused, not repaired."""
    name = unicodedata.normalize("NFC", name)
    if not name or name != os.path.basename(name) or "\\" in name or name.startswith("."):
        raise bad_request("A file's name must not hold slashes or begin with a dot.")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in name):
        raise bad_request("A file's name must not hold control characters.")
    if len(name.encode()) > LONGEST_NAME:
        raise bad_request(f"A file's name may have {LONGEST_NAME} bytes at most.")
    if not is_supported(name):
        raise RequestError(415, "unknown_format", f"This file {why_not(name)}.")
    return name


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
