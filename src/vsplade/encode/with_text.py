"""Two vectors a page in one index: what a model sees (``reader``) and the text layer (``text``).

    vsplade index FILES --index DIR --encoder reader+text

The terms of the text layer follow those of the first encoder: term t of the text is stored as ``len(first)
+ t``. So both halves are written, committed, replaced and deleted together, by machinery that knows nothing
of it. Plain search looks at the first half only; ``encode_text_query`` asks the other one, and
``results.fused`` joins the two rankings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.keyed import encode_keyed
from vsplade.encode.text import TextEncoder
from vsplade.types import (
    Direction,
    Encoder,
    EncodingVocabulary,
    Evidence,
    MeaningEncoder,
    Page,
    PageVector,
    QueryWord,
    SparseVector,
    TermStatistics,
    Vocabulary,
    WeighingEncoder,
    WordEncoder,
    shown,
)


class PairedVocabulary:
    """Names for both halves; a term of the text layer is shown as ``text:word``."""

    MARK = "text:"

    def __init__(self, first: Vocabulary, text: Vocabulary) -> None:
        self.first = first
        self._text = text

    def __len__(self) -> int:
        return len(self.first) + len(self._text)

    def token(self, term: int) -> str:
        split = len(self.first)
        return self.first.token(term) if term < split else self.MARK + self._text.token(term - split)

    def shown(self, term: int) -> str:
        split = len(self.first)
        return shown(self.first, term) if term < split else self.MARK + shown(self._text, term - split)

    def encode(self, text: str) -> list[int]:
        """By the first half; nothing where it cannot tell."""
        return self.first.encode(text) if isinstance(self.first, EncodingVocabulary) else []


class PairedEncoder:
    """A page's own vector and that of its text layer, side by side; no text layer leaves that half empty."""

    def __init__(self, first: Encoder, text: TextEncoder) -> None:
        self.first = first
        self.text = text
        self._split = len(first.vocabulary)

    @property
    def name(self) -> str:
        return f"{self.first.name}+{self.text.name}"

    @cached_property
    def fingerprint(self) -> str:
        parts = f"{self.first.fingerprint}\n{self.text.fingerprint}"
        return "pair-" + hashlib.sha256(parts.encode()).hexdigest()[:32]

    def former(self) -> list[PairedEncoder]:
        return [PairedEncoder(one, self.text) for one in getattr(self.first, "former", list)()]

    @cached_property
    def vocabulary(self) -> PairedVocabulary:
        return PairedVocabulary(self.first.vocabulary, self.text.vocabulary)

    @property
    def longest_edge(self) -> int:
        return self.first.longest_edge

    @property
    def reads_grey(self) -> bool:
        return self.first.reads_grey

    @property
    def latin_only(self) -> bool:
        return self.first.latin_only

    @property
    def on_gpu(self) -> bool:
        return self.first.on_gpu

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for text, vector in encode_keyed(self.first, ((page.text or "", page) for page in pages)):
            yield self._join(vector, self.text.encode_text(text))

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """The first encoder's weights: what plain search uses."""
        return self.first.encode_query(text, statistics)

    @property
    def has_meaning(self) -> bool:
        return isinstance(self.first, MeaningEncoder) and self.first.has_meaning

    def encode_meaning(self, text: str) -> Direction | None:
        return self.first.encode_meaning(text) if isinstance(self.first, MeaningEncoder) else None

    def meant_by(self, asked: Sequence[str], page: SparseVector) -> list[list[str]]:
        return self.first.meant_by(asked, page) if isinstance(self.first, MeaningEncoder) else []

    def expansions(self, page: SparseVector, most: int = 10) -> list[tuple[str, float]]:
        return self.first.expansions(page, most) if isinstance(self.first, MeaningEncoder) else []

    def query_words(self, text: str) -> list[QueryWord]:
        """A page holds a word where the first encoder saw it whole, or where its text layer has it."""
        seen = self.first.query_words(text) if isinstance(self.first, WordEncoder) else []
        by_typed = {word.typed: word for word in seen}
        found = []
        for word in self.text.query_words(text):
            behind = tuple(
                tuple(Evidence(mark.term + self._split, mark.check, mark.mask) for mark in whole)
                for whole in word.wholes[:1]
            )
            first = by_typed.get(word.typed)
            wholes = (*(first.wholes if first else ()), *behind)
            parts = (*(first.parts if first else ()), *(term + self._split for term in word.parts))
            found.append(QueryWord(word.typed, parts, wholes))
        return found

    @property
    def in_a_row(self) -> int:
        return self.first.in_a_row if isinstance(self.first, WordEncoder) else 0

    def phrase(self, text: str) -> QueryWord:
        """As the first encoder has it, which knows the order of words, where it does."""
        return self.first.phrase(text) if isinstance(self.first, WordEncoder) else self.text.phrase(text)

    def beginning(self, letters: str) -> QueryWord:
        chosen = self.first if isinstance(self.first, WordEncoder) else self.text
        return chosen.beginning(letters)

    def weigh_terms(self, terms: Sequence[int], statistics: TermStatistics | None = None) -> dict[int, float]:
        chosen = self.first if isinstance(self.first, WordEncoder) else self.text
        return chosen.weigh_terms(terms, statistics)

    @cached_property
    def query_weights(self) -> NDArray[np.float32]:
        """Those of the first encoder (all alike where it cannot say); plain search asks for no text."""
        first = self.first.query_weights if isinstance(self.first, WeighingEncoder) else np.ones(self._split)
        return np.concatenate([first, np.zeros(len(self.text.vocabulary))]).astype(np.float32)

    def encode_text_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """BM25's weights, for the half of the index that holds text layers."""
        shifted = None if statistics is None else _Shifted(statistics, self._split)
        query = self.text.encode_query(text, shifted)
        return SparseVector(query.terms + np.uint32(self._split), query.weights)

    def has_text(self, vector: SparseVector) -> bool:
        """Whether the page of this vector has a text layer with words in it."""
        return bool(len(vector)) and int(vector.terms[-1]) >= self._split

    def _join(self, first: SparseVector, text: SparseVector) -> SparseVector:
        return PageVector(
            np.concatenate([first.terms, text.terms + np.uint32(self._split)]),
            np.concatenate([first.weights, text.weights]),
            first.meaning,
            not isinstance(first, PageVector) or first.legible,
        )


class _Shifted:
    """The statistics of the text half, under its own term numbers."""

    def __init__(self, statistics: TermStatistics, split: int) -> None:
        self._statistics = statistics
        self._split = split

    @property
    def pages(self) -> int:
        return self._statistics.pages

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        return self._statistics.document_frequency(terms + np.uint32(self._split))
