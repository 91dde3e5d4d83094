"""Pages in any order of shapes, to batches of about one shape for a GPU, and their vectors back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vsplade.types import SparseVector

if TYPE_CHECKING:
    from PIL import Image

MOST_WAITING = 8
"""Batches of pages taken and not yet answered, before some are run that are not full."""
LARGEST_SHARED = 256
"""Squares of SIDE that the common shape of different pages has, at most: a long strip beside a tall one would
be padded to a picture that no GPU holds.
"""
SIDE = 128
"""Pages are filled up to multiples of this. There must be few shapes: cuDNN takes a third of a second to
prepare for each, and batches of one shape must fill up. For the same reason numbers of pages are rounded up.
"""


@dataclass(eq=False)
class _Open:
    """Pages of one shape that wait for their batch, or are on their way."""

    images: list[Image.Image] = field(default_factory=list)
    answer: Future[list[SparseVector]] | None = None
    offset: int = 0
    """Of the first of them in the answer."""


class PageQueue:
    """Pages into batches of about one shape; vectors out in the order of the pages."""

    def __init__(
        self,
        submit: Callable[[list[Image.Image]], Future[list[SparseVector]]],
        batch: int,
        shape: Callable[[Image.Image], tuple[int, int]],
    ) -> None:
        """``shape`` tells how many squares of SIDE a page covers across and down."""
        self._submit, self._batch, self._shape = submit, batch, shape
        self._open: dict[tuple[int, int], _Open] = {}
        self._waiting: deque[tuple[_Open, int]] = deque()

    def add(self, image: Image.Image) -> None:
        shape = self._shape(image)
        pages = self._open.setdefault(shape, _Open())
        self._waiting.append((pages, len(pages.images)))
        pages.images.append(image)
        if len(pages.images) == self._batch:
            self._send([self._open.pop(shape)])

    def ready(self) -> Iterator[SparseVector]:
        """What is done; waits only where too much is under way."""
        while self._waiting:
            answer = self._waiting[0][0].answer
            if len(self._waiting) < MOST_WAITING * self._batch and (answer is None or not answer.done()):
                return
            yield self._next()

    def rest(self) -> Iterator[SparseVector]:
        while self._waiting:
            yield self._next()

    def give_up(self) -> None:
        """No more answers are wanted."""
        for pages, _ in self._waiting:
            if pages.answer is not None:
                pages.answer.cancel()

    def _next(self) -> SparseVector:
        pages, number = self._waiting.popleft()
        if pages.answer is None:
            self._send(self._odd_ones(pages))
        assert pages.answer is not None
        return pages.answer.result()[pages.offset + number]

    def _odd_ones(self, first: _Open) -> list[_Open]:
        """Pages that can wait no longer, and others of rare shapes: they share a batch, at some loss."""
        chosen, room = [first], self._batch - len(first.images)
        width, height = next(shape for shape, pages in self._open.items() if pages is first)
        for shape, pages in sorted(self._open.items(), key=lambda one: len(one[1].images)):
            common = max(width, shape[0]), max(height, shape[1])
            fits = (
                len(pages.images) <= min(room, self._batch // 2) and common[0] * common[1] <= LARGEST_SHARED
            )
            if pages is not first and fits:
                chosen.append(pages)
                room -= len(pages.images)
                width, height = common
        self._open = {shape: pages for shape, pages in self._open.items() if pages not in chosen}
        return chosen

    def _send(self, together: list[_Open]) -> None:
        answer = self._submit([image for pages in together for image in pages.images])
        offset = 0
        for pages in together:
            pages.answer, pages.offset = answer, offset
            offset += len(pages.images)
            pages.images = []
