"""An encoder for tests: every word of the text layer is a term."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator

from vsplade.types import Page, SparseVector, TermStatistics

TERMS = 5000


class Words:
    def __len__(self) -> int:
        return TERMS

    def token(self, term: int) -> str:
        return f"word{term}"


def term(word: str) -> int:
    return zlib.crc32(word.lower().encode()) % TERMS


class WordEncoder:
    name = "words"
    vocabulary = Words()
    reads_grey = on_gpu = latin_only = False

    def __init__(
        self, *, longest_edge: int = 0, batch: int = 1, seconds: float = 0.0, fingerprint: str = "w1"
    ):
        self.longest_edge = longest_edge
        self.fingerprint = fingerprint
        self.batch = batch
        self.seconds = seconds
        self.seen: list[str] = []
        self.sizes: list[tuple[int, int]] = []

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        waiting: list[Page] = []
        for page in pages:
            waiting.append(page)
            if len(waiting) == self.batch:
                yield from map(self._encode, waiting)
                waiting = []
        yield from map(self._encode, waiting)

    def _encode(self, page: Page) -> SparseVector:
        time.sleep(self.seconds)
        self.seen.append(page.id)
        self.sizes.append(page.image.size)
        return self.encode_query(page.text or "")

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return SparseVector.from_dict({term(word): 1.0 for word in text.split()})
