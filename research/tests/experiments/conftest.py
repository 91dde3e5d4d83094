"""The data set that the package's tests of evaluation use, and an encoder whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.conftest import *  # noqa: F403

from research.experiments import lexicon
from vsplade.encode.modernvbert.query import QuerySide
from vsplade.encode.tokenizer import Tokenizer
from vsplade.evaluate import PageVectors
from vsplade.types import Page, SparseVector, TermStatistics

WORDS = (
    "anchor", "basket", "candle", "dragon", "engine", "forest", "garden", "harbour", "island", "jacket",
    "kettle", "ladder",
)  # fmt: skip


class Known:
    """Reads texts perfectly: every term weighs 1."""

    fingerprint, longest_edge = "known-1", 8
    reads_grey = on_gpu = latin_only = False

    def __init__(self, name: str, vocabulary: Tokenizer | QuerySide, pages: dict[str, str]) -> None:
        self.name, self.vocabulary, self.pages = name, vocabulary, pages

    def encode_text(self, text: str) -> SparseVector:
        return SparseVector.from_dict(dict.fromkeys(lexicon.text_terms(self)(text), 1.0))

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return self.encode_text(text)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for page in pages:
            yield self.encode_text(self.pages[page.id])

    def perfect(self) -> PageVectors:
        return lexicon.encode_texts(self, self.pages)

    def random(self) -> PageVectors:
        rng = np.random.default_rng(0)
        terms = (np.sort(rng.choice(len(self.vocabulary), 100, replace=False)) for _ in self.pages)
        return PageVectors.collect(
            (page, SparseVector(found.astype(np.uint32), rng.random(100, np.float32) + 0.5))
            for page, found in zip(self.pages, terms, strict=True)
        )


def reader_like(_: Path) -> Known:
    return Known("uncased", Tokenizer.load(), {f"p{n}": f"the {word}" for n, word in enumerate(WORDS)})


def paper_like(folder: Path) -> Known:
    """Single letters are its words: capitals are other terms than small letters."""
    from tests.encode.modernvbert import tiny

    tiny.write_tokenizer(folder)
    side = QuerySide(folder, "cased", "known-1", 8, np.ones(tiny.TERMS, np.float32))
    letters = "BCDFGHJKLMNP"
    return Known("cased", side, {f"p{n}": f"a{letter}" for n, letter in enumerate(letters)})


@pytest.fixture(params=[reader_like, paper_like], ids=["uncased", "cased"])
def known(request: pytest.FixtureRequest, tmp_path: Path) -> Known:
    make: Callable[[Path], Known] = request.param
    return make(tmp_path)
