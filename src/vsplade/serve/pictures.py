"""Pages as pictures for the browser: thumbnails, large views, marked views; kept for a while in memory."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vsplade.pages.picture import THUMBNAIL
from vsplade.search.page_view import EDGE, LruCache, draw_marks, place_of
from vsplade.serve.library import Library
from vsplade.types import Metadata, TermMatch

if TYPE_CHECKING:
    from PIL import Image

SMALLEST, LARGEST = 64, EDGE
QUALITY = 82
MEMORY = 48 << 20
"""Bytes of finished pictures that a worker keeps."""


class Pictures:
    """JPEG pictures of pages. Safe on several threads."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._kept: LruCache[bytes] = LruCache(MEMORY, len)

    def tag(self, page_id: str, metadata: Metadata, *more: object) -> str:
        """Changes whenever the picture would."""
        text = repr((page_id, metadata.get("hash"), metadata.get("path"), metadata.get("page_num"), more))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    def page(self, page_id: str, metadata: Metadata, edge: int) -> bytes:
        def make() -> bytes:
            return to_jpeg(self._library.views.image(*place_of(page_id, metadata), edge))

        return self._kept.get(self.tag(page_id, metadata, edge), make)

    def thumbnail(self, page_id: str, metadata: Metadata) -> bytes:
        """The one that the index keeps, or one made now."""
        return self._library.index.thumbnail(page_id) or self.page(page_id, metadata, THUMBNAIL)

    def marked(self, page_id: str, metadata: Metadata, edge: int, matches: Sequence[TermMatch]) -> bytes:
        def make() -> bytes:
            views, place = self._library.views, place_of(page_id, metadata)
            marks = views.view(*place, matches).marks
            return to_jpeg(draw_marks(views.image(*place, edge), [mark.box for mark in marks]))

        asked = tuple((match.token, round(match.product, 4)) for match in matches)
        return self._kept.get(self.tag(page_id, metadata, edge, asked), make)


def to_jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
