"""One call adds one thing: a picture, the bytes of a file, or a path."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from PIL import Image

from vsplade.errors import InputError
from vsplade.ingest.records import own_metadata
from vsplade.pages import to_grey_or_rgb
from vsplade.pages.formats import HEAD, looks_like
from vsplade.pages.naming import page_id
from vsplade.pages.picture import THUMBNAIL, thumbnail_jpeg
from vsplade.pages.viewer import shared_viewer
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, Metadata, Page

_SUFFIXES = {
    "PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "TIFF": ".tif", "GIF": ".gif", "BMP": ".bmp",
    "JPEG2000": ".jp2",
}  # fmt: skip

Source = Image.Image | bytes | str | os.PathLike[str]


def add_pages(
    folder: Path, encoder: Encoder, source: Source, id: str, metadata: Metadata | None = None
) -> list[str]:
    """Add, or replace, the pages of ``source`` in one commit; returns their ids: ``id``, or ``id_1``, ...

    The pages of a path can be shown again from there; of the others the index keeps a small picture.
    """
    users = own_metadata(metadata or {})
    if not isinstance(id, str) or not id:
        raise InputError(f"A page's id must be a non-empty string, not {id!r}.")
    pages = list(_pages(source, encoder.longest_edge or THUMBNAIL, id))
    with closing(IndexWriter(folder, encoder)) as writer:
        for page, vector in zip(pages, encoder.encode_pages(pages), strict=True):
            own = {"doc_id": id, "page_num": page.number, "pages": len(pages), **page.metadata}
            if page.path:
                own["path"] = page.path
            small = b"" if page.path else thumbnail_jpeg(page.image, THUMBNAIL)
            writer.add(page.id, vector, {**users, **own}, small)
        writer.commit()
    return [page.id for page in pages]


def _pages(source: Source, edge: int, id: str) -> Iterator[Page]:
    if isinstance(source, Image.Image):
        image = to_grey_or_rgb(source, edge if max(source.size) > edge else 0)
        yield Page(id, image, "", 1, None, {"width": source.width, "height": source.height})
    elif isinstance(source, bytes | bytearray | memoryview):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"page{_suffix(bytes(source))}"
            path.write_bytes(source)
            yield from _of_file(str(path), edge, id, keep_path=False)
    else:
        yield from _of_file(os.path.abspath(source), edge, id, keep_path=True)


def _suffix(content: bytes) -> str:
    for ending in (".pdf", ".djvu", ".heic"):
        if looks_like(content[:HEAD], ending):
            return ending
    try:
        with Image.open(io.BytesIO(content), formats=tuple(_SUFFIXES)) as picture:
            return _SUFFIXES[str(picture.format)]
    except OSError as error:
        raise InputError(
            "These bytes are no PDF, DjVu file or picture that can be read. Add other files by path."
        ) from error


def _of_file(path: str, edge: int, id: str, keep_path: bool) -> Iterator[Page]:
    viewer = shared_viewer()
    number, pages = 1, 1
    while number <= pages:
        seen = viewer.view(path, number, edge)
        pages = seen.pages
        assert seen.image is not None  # pixels were asked for
        size = {"width": round(seen.width, 2), "height": round(seen.height, 2)}
        yield Page(
            page_id(path, id, number, pages), seen.image, path if keep_path else "", number, seen.text, size
        )
        number += 1
