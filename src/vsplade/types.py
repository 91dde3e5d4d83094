"""The few small types that every stage speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

Json = str | int | float | bool | None
Progress = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""
Metadata = Mapping[str, Any]
"""Values are ``Json``, or lists of it (tags): a filter holds where it holds for one of the values."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of one file, as pixels, with whatever text layer the file itself carries."""

    id: str
    """Unique in an index: the image's stem, or ``stem_N`` with N the 1-based page of a PDF or TIFF."""
    image: Image.Image
    """Mode ``L`` or ``RGB``, upright, alpha already flattened on white, within the pixel limit."""
    path: str
    number: int = 1
    """1-based page number in its file."""
    text: str | None = None
    """The file's own text layer; ``None`` where there is none (images, scans)."""
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Windows:
    """What stretches of a page are about: a direction each, in 8 bits, and the cluster that it belongs to."""

    codes: NDArray[np.int8]
    """(windows, dimensions)"""
    clusters: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.clusters)


@dataclass(frozen=True, slots=True)
class Direction:
    """What a query is about: a vector of length 1, and all clusters, the nearest first."""

    vector: NDArray[np.float32]
    clusters: NDArray[np.uint16]
    vocabulary: int = 1 << 32
    """Terms below this number are words or pieces of one; those above stand for several together."""


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Terms (strictly increasing) and their positive weights: what a page or a query becomes."""

    terms: NDArray[np.uint32]
    weights: NDArray[np.float32]
    meaning: Windows | Direction | None = None
    """Of a page or of a query, where the encoder has it."""

    def __len__(self) -> int:
        return len(self.terms)

    @classmethod
    def from_dict(cls, weights: Mapping[int, float]) -> SparseVector:
        """Build from ``{term: weight}``; terms without a positive weight are dropped."""
        kept = sorted((term, weight) for term, weight in weights.items() if weight > 0)
        terms = np.array([term for term, _ in kept], dtype=np.uint32)
        return cls(terms, np.array([weight for _, weight in kept], dtype=np.float32))

    def weight_bits(self) -> dict[int, int]:
        """Each term and the bits of its weight, as a whole number."""
        bits = np.ascontiguousarray(self.weights, np.float32).view(np.uint32)
        return dict(zip(self.terms.tolist(), bits.tolist(), strict=True))

    def top(self, n: int) -> SparseVector:
        """The ``n`` heaviest terms (ties go to the smaller term), back in term order."""
        if len(self) <= n:
            return self
        keep = np.sort(np.lexsort((self.terms, -self.weights))[:n])
        return SparseVector(self.terms[keep], self.weights[keep], self.meaning)


@dataclass(frozen=True, slots=True)
class QueryVector(SparseVector):
    """A query with terms that are hashes: two words may share the number of two others."""

    checks: NDArray[np.int32] | None = None
    """For each term the check that tells them apart (``encode.hash_bits``); -1 where it is no hash."""


@dataclass(frozen=True, slots=True)
class PageVector(SparseVector):
    """The vector of a page from an encoder that can tell whether it could read the page at all."""

    legible: bool = True
    """False: there are words, but in a script that the encoder does not know."""


@dataclass(frozen=True, slots=True)
class Box:
    """A place on a page, in fractions of its width and height: (left, top, right, bottom)."""

    left: float
    top: float
    right: float
    bottom: float

    def around(self, other: Box) -> Box:
        """The least box that holds both."""
        low = min(self.left, other.left), min(self.top, other.top)
        return Box(*low, max(self.right, other.right), max(self.bottom, other.bottom))


@dataclass(frozen=True, slots=True)
class TermMatch:
    """Why a page matched: one shared term and what it added to the score."""

    token: str
    term: int
    query_weight: float
    page_weight: float
    in_part: bool = False
    """It is a piece of a word of the query that does not stand on the page as a whole."""
    meant_by: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of a match by meaning (its term is ``BY_MEANING``): words of the query that the page has not, each
    with the words of the page that come nearest to it.
    """

    @property
    def product(self) -> float:
        return self.query_weight * self.page_weight


BY_MEANING = -1
"""The term of a match that is no word: what the page is about."""
BY_DOCUMENT = -2
"""The term of a match that is no word: other pages of the document match, too."""
FOUND, IN_PART, NOT_FOUND = "found", "in part", "not found"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A term that a page has where it holds a word."""

    term: int
    check: int = 0
    mask: int = 0
    """Those bits of the term's weight are the ``check``: they tell apart what a hash does not."""

    def on(self, page: Mapping[int, int]) -> bool:
        """Whether a page has it; ``page`` is its ``weight_bits``."""
        return self.term in page and page[self.term] & self.mask == self.check


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of a query as it was typed, and the terms of a page that speak for it."""

    typed: str
    parts: tuple[int, ...] = ()
    """The terms of its pieces: where a page has some of them, it may hold a similar word."""
    wholes: tuple[tuple[Evidence, ...], ...] = ()
    """For each way to write it: all that a page has which holds it, also that its pieces stand together.
    Without any, as for a word in letters that the encoder does not know, no page holds it."""

    @property
    def terms(self) -> set[int]:
        """All that speaks for it."""
        return {*self.parts, *(evidence.term for whole in self.wholes for evidence in whole)}

    def on(self, page: Mapping[int, int]) -> str:
        """``found``, ``in part`` or ``not found`` on a page with these ``weight_bits``."""
        if any(all(evidence.on(page) for evidence in whole) for whole in self.wholes):
            return FOUND
        return IN_PART if any(term in page for term in self.parts) else NOT_FOUND


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A word of the query, and whether it was found: ``found``, ``in part`` or ``not found``."""

    word: str
    status: str


class TermStatistics(Protocol):
    """What an index knows about its corpus; some query weights (BM25's idf) need it."""

    @property
    def pages(self) -> int: ...

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]: ...


class Vocabulary(Protocol):
    """Names for term numbers."""

    def __len__(self) -> int: ...

    def token(self, term: int) -> str: ...


@runtime_checkable
class EncodingVocabulary(Protocol):
    """A vocabulary that tells the terms of a text."""

    def encode(self, text: str) -> list[int]: ...


def shown(vocabulary: Vocabulary, term: int) -> str:
    """A term's name for people, where the vocabulary has a better one than its token."""
    name: str = getattr(vocabulary, "shown", vocabulary.token)(term)
    return name


@runtime_checkable
class Encoder(Protocol):
    """Pages to sparse vectors, query text to weights. No network may run in ``encode_query``."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors or the query weights change; the index stores and checks it."""
        ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def longest_edge(self) -> int:
        """Pages should be rendered so that the longest edge has this many pixels (0: no pixels needed)."""
        ...

    @property
    def reads_grey(self) -> bool:
        """Whether grey pages are enough: they are a third of the bytes."""
        return False

    @property
    def on_gpu(self) -> bool:
        """Whether all processors but the little that keeps a GPU busy are free to render."""
        return False

    @property
    def latin_only(self) -> bool:
        """Whether pages in other scripts than Latin are lost to it."""
        return False

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        """One vector a page, order kept, memory bounded whatever the length of ``pages``."""
        ...

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector: ...


# What some encoders can do beside. Each names only what it adds: isinstance looks at every member of a
# protocol, and some of Encoder's cost much (whether a GPU is there is asked of torch).


@runtime_checkable
class WeighingEncoder(Protocol):
    """An encoder that can say beforehand what each term weighs in a query."""

    @property
    def query_weights(self) -> NDArray[np.float32]:
        """For each term of the vocabulary: its weight in a query that asks for it."""
        ...


@runtime_checkable
class TextReadingEncoder(Protocol):
    """An encoder that makes a page's vector of its text, too."""

    def encode_text(self, text: str) -> SparseVector: ...


@runtime_checkable
class MeaningEncoder(Protocol):
    """An encoder that also says what pages and queries are about. No network may run for a query."""

    @property
    def has_meaning(self) -> bool:
        """False where meaning was left out: then no page and no query has any."""
        ...

    def encode_meaning(self, text: str) -> Direction | None:
        """Of a query; None without meaning, or where no word tells what is meant."""
        ...

    def meant_by(self, asked: Sequence[str], page: SparseVector) -> list[list[str]]:
        """For each of these words the words of a page that come nearest to it; empty where nobody knows."""
        ...

    def expansions(self, page: SparseVector, most: int = 10) -> list[tuple[str, float]]:
        """Words that a page does not hold but would answer, with their weights, heaviest first."""
        ...


@runtime_checkable
class WordEncoder(Protocol):
    """An encoder that knows whole words, and not only their pieces."""

    def query_words(self, text: str) -> list[QueryWord]:
        """The words of a query, in order; what has no letter and no digit is none."""
        ...

    @property
    def in_a_row(self) -> int:
        """So many words of a phrase are known to follow each other: 0 where their order is not kept."""
        ...

    def phrase(self, text: str) -> QueryWord:
        """What a page has that holds these words one after the other."""
        ...

    def beginning(self, letters: str) -> QueryWord:
        """What pages have that hold a word with this beginning."""
        ...

    def weigh_terms(self, terms: Sequence[int], statistics: TermStatistics | None = None) -> dict[int, float]:
        """What terms weigh in a query, each by itself."""
        ...


@runtime_checkable
class PlacingEncoder(Protocol):
    """An encoder that can also say where on the page each term was seen."""

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        """The page's vector, and one box for each of its terms, in the same order."""
        ...
