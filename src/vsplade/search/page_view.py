"""See a page that was found: its picture, its words, and where those that were asked for stand.

Words come from the file's text layer, or are read from the pixels where there is none. Both are made when
asked for and kept for the next question about the same page.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

from vsplade.errors import PageError
from vsplade.pages.resize import fit
from vsplade.pages.viewer import PageViewer, ViewedPage, shared_viewer
from vsplade.search.marks import (
    Excerpt,
    Mark,
    PageWord,
    best_place,
    find_marks,
    make_snippet,
    matched_tokens,
)
from vsplade.types import Box, Json, TermMatch

if TYPE_CHECKING:
    from PIL import Image

EDGE = 1600
"""Pixels of the longest edge of a page as it is kept: enough to read small print on a screen."""
PICTURES, READINGS = 12, 512
"""Pages whose pixels, and whose words, are kept."""
MARK_COLOUR = (255, 200, 0)
MARK_EDGE = (224, 140, 0)

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """The last few values, by key; ``size`` says how much of ``most`` each takes. Safe on several threads."""

    def __init__(self, most: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._most, self._size, self._taken = most, size, 0
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = value
                self._taken += self._size(value)
            while self._taken > self._most:
                self._taken -= self._size(self._kept.popitem(last=False)[1])
        return value


@dataclass(frozen=True, slots=True)
class PageView:
    """A page's words, and those of them that were asked for."""

    words: tuple[PageWord, ...]
    marks: tuple[Mark, ...]
    from_text_layer: bool

    def snippet(self, length: int = 28) -> Excerpt:
        return make_snippet(self.words, self.marks, length)

    def best_place(self) -> Box | None:
        return best_place(self.words, self.marks)


class PageViews:
    """Pages of files, looked at one by one. Safe on several threads."""

    def __init__(self, viewer: PageViewer | None = None) -> None:
        self._viewer = viewer
        self._pictures: LruCache[ViewedPage] = LruCache(PICTURES)
        self._readings: LruCache[tuple[tuple[PageWord, ...], bool]] = LruCache(READINGS)
        self._reading = threading.Lock()

    def page(self, path: str, number: int) -> ViewedPage:
        """With pixels, the longest edge ``EDGE``."""
        viewer = self._viewer or shared_viewer()
        return self._pictures.get(_key(path, number), lambda: viewer.view(path, number, EDGE, words=True))

    def image(self, path: str, number: int, longest_edge: int = EDGE) -> Image.Image:
        image = self.page(path, number).image
        if image is None:
            raise PageError(f"{path}: page {number} has no picture.")
        return fit(image, longest_edge) if longest_edge < max(image.size) else image

    def words(self, path: str, number: int) -> tuple[tuple[PageWord, ...], bool]:
        """In reading order, and whether they are the text layer's."""
        return self._readings.get(_key(path, number), lambda: self._words(path, number))

    def _words(self, path: str, number: int) -> tuple[tuple[PageWord, ...], bool]:
        page = self.page(path, number)
        if page.words:
            return tuple(PageWord(word.text, word.box) for word in page.words), True
        if page.image is None:
            return (), False
        with self._reading:  # one page at a time: reading uses every core by itself
            return tuple(_read(page.image)), False

    def warm_up(self) -> None:
        """Load what reads scans, so that the first one does not wait for it."""
        from PIL import Image as Images

        with self._reading:
            _read(Images.new("L", (64, 64), "white"))

    def view(self, path: str, number: int, matches: Iterable[TermMatch]) -> PageView:
        words, layer = self.words(path, number)
        return PageView(words, tuple(find_marks(words, matched_tokens(matches))), layer)


@cache
def shared_page_views() -> PageViews:
    """One for this process: hits of all indexes share it."""
    return PageViews()


def _read(image: Image.Image) -> Iterable[PageWord]:
    """What the reader that ships sees, whatever encoder made the index."""
    from vsplade.reading.read_files import read_picture

    blocks, _ = read_picture(image)
    return [
        PageWord(word.text, word.box, word.certainty, word.tokens)
        for block in blocks
        for line in block.lines
        for word in line.words
    ]


def _key(path: str, number: int) -> tuple[str, int, int]:
    """Changes when the file does."""
    try:
        return path, number, os.stat(path).st_mtime_ns
    except OSError as error:
        raise PageError(
            f"{path}: the file of this page cannot be read ({error.strerror}). Put it back, or index again "
            "with --prune."
        ) from error


def place_of(page_id: str, metadata: Mapping[str, Json]) -> tuple[str, int]:
    """The file of a page and the page's number there."""
    path, number = metadata.get("path"), metadata.get("page_num", 1)
    if not isinstance(path, str) or not isinstance(number, int):
        raise PageError(f"Page {page_id!r} does not know its file, so it cannot be shown.")
    return path, number


def draw_marks(image: Image.Image, boxes: Iterable[Box]) -> Image.Image:
    """A copy, with the places marked as by a highlighter: the print below stays readable."""
    from PIL import Image as Images
    from PIL import ImageChops, ImageDraw

    marked = image.convert("RGB")
    layer = Images.new("RGB", marked.size, "white")
    pen = ImageDraw.Draw(layer)
    corners = [_corners(box, marked.size) for box in boxes]
    for corner in corners:
        pen.rectangle(corner, fill=MARK_COLOUR)
    marked = ImageChops.multiply(marked, layer)
    outline = ImageDraw.Draw(marked)
    for corner in corners:
        outline.rectangle(corner, outline=MARK_EDGE, width=max(1, max(marked.size) // 800))
    return marked


def _corners(box: Box, size: tuple[int, int]) -> tuple[float, float, float, float]:
    width, height = size
    around = max(2.0, 0.002 * max(size))
    return (
        max(0.0, box.left * width - around),
        max(0.0, box.top * height - around),
        min(width - 1.0, box.right * width + around),
        min(height - 1.0, box.bottom * height + around),
    )
