"""An EPUB taken apart: its chapters in reading order, as HTML. LibreOffice reads that, and no EPUB."""

from __future__ import annotations

import posixpath
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote
from xml.etree import ElementTree

from vsplade.errors import PageError

MOST_CHAPTERS = 2000
LARGEST_LIST = 8 << 20
"""Bytes of a file that lists the book's parts."""
_NEEDED = frozenset({".html", ".xhtml", ".htm", ".css", ".png", ".jpg", ".jpeg", ".gif"})
_CONTAINER = "META-INF/container.xml"


def unpack(path: str, folder: Path) -> list[Path]:
    """Chapters and pictures go to ``folder``; returns the chapters, named by their places in the book."""
    try:
        with zipfile.ZipFile(path) as archive:
            chapters = list(_chapters(archive))
            for name in archive.namelist():
                if PurePosixPath(name).suffix.lower() in _NEEDED:
                    _extract(archive, name, _target(folder, name))
    except (zipfile.BadZipFile, KeyError, ElementTree.ParseError, NotImplementedError, RuntimeError) as error:
        raise PageError(f"is not an EPUB that can be read: {error}") from None
    found = []
    for place, name in enumerate(chapters, 1):
        chapter = _target(folder, name)
        if chapter.is_file():
            found.append(chapter.rename(chapter.with_name(f"chapter-{place:05}.html")))
    if not found:
        raise PageError("is an EPUB without chapters that can be read")
    return found


def _chapters(archive: zipfile.ZipFile) -> Iterator[str]:
    """Names in the archive, in reading order, each once."""
    listed = next(_all(_parse(archive, _CONTAINER), "rootfile")).attrib["full-path"]
    package = _parse(archive, listed)
    files = {item.attrib["id"]: item.attrib["href"] for item in _all(package, "item")}
    order = dict.fromkeys(item.attrib["idref"] for item in _all(package, "itemref"))
    if len(order) > MOST_CHAPTERS:
        raise PageError(f"has {len(order):,} chapters, above the limit of {MOST_CHAPTERS:,}")
    for name in order:
        if name in files:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(listed), unquote(files[name])))


def _parse(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if archive.getinfo(name).file_size > LARGEST_LIST:
        raise PageError(f"has a list of parts that is too long ({name})")
    content = archive.read(name)
    if b"<!ENTITY" in content:
        raise PageError("defines entities of its own, which no EPUB needs")
    return ElementTree.fromstring(content)


def _all(tree: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (item for item in tree.iter() if item.tag.rpartition("}")[2] == name)


def _target(folder: Path, name: str) -> Path:
    """Inside of the folder, whatever the archive calls it."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    if not parts or any(len(part.encode()) > 200 or "\0" in part for part in parts):
        raise PageError(f"holds a file with an impossible name: {name[:80]!r}")
    return folder.joinpath(*parts)


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, open(target, "wb") as stream:
        shutil.copyfileobj(source, stream)  # no more than its size in the list, which was checked
