"""Pages of a DjVu file, with the text layer that it carries. Needs the extra ``formats``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PIL import Image

from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.picture import to_grey_or_rgb, too_many_pixels
from vsplade.pages.pixels import PageContent, Pixels

POINTS = 72
"""An inch."""


class DjvuFile:
    def __init__(self, path: str, limits: Limits) -> None:
        try:
            import djvu_rs
        except ImportError:
            raise PageError("needs the package djvu-rs: pip install 'vsplade[formats]'") from None
        self._limits, self._failure = limits, djvu_rs.Error
        try:
            self._document = djvu_rs.Document.open(path)
        except djvu_rs.Error as error:
            raise PageError(f"is not a DjVu file that can be read: {error}") from None
        self.pages = int(self._document.page_count())

    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        try:
            page = self._document.page(number - 1)
            text = page.text()
            pixels = self._pixels(page, longest_edge) if longest_edge else None
        except self._failure as error:
            raise PageError(f"cannot be rendered, the DjVu file is damaged: {error}") from None
        scale = POINTS / (page.dpi or 300)
        return PageContent(
            pixels, page.width * scale, page.height * scale, text if text and text.strip() else None
        )

    def _pixels(self, page: Any, longest_edge: int) -> Pixels:
        if page.width * page.height > self._limits.max_pixels:
            raise PageError(too_many_pixels(page.width, page.height, self._limits))
        drawn = page.render()
        image = Image.frombuffer("RGBA", (drawn.width, drawn.height), drawn.data(), "raw", "RGBA", 0, 1)
        edge = longest_edge if drawn.width * drawn.height > longest_edge**2 else 0
        return Pixels.of(to_grey_or_rgb(image.convert("RGB"), edge))  # a page has no holes: alpha is full

    def words(self, number: int) -> Iterator[list[str | float]]:
        """[text, left, top, right, bottom] of each word, in fractions of the page."""
        page = self._document.page(number - 1)
        zones = list((page.text_layer() or {"zones": []})["zones"])
        while zones:
            zone = zones.pop(0)
            if zone["kind"] == "Word":
                place, text = zone["rect"], zone["text"].strip()
                left, top = place["x"] / page.width, place["y"] / page.height
                right, bottom = left + place["width"] / page.width, top + place["height"] / page.height
                if text:
                    yield [text, *(round(min(1.0, max(0.0, side)), 5) for side in (left, top, right, bottom))]
            else:
                zones[:0] = zone["children"]

    def close(self) -> None:
        del self._document
