"""A page answers more likely where other pages of its document answer, too.

People name a document and ask for a detail: "CoreCard effective tax rate in 2022". The page with the detail
need not name the company; other pages of the report do. So the best pages of a search speak for the other
pages of their documents:

    excess  = max(0, score - the least score of these pages)
    support = min(4 * mean excess of the document's other pages, 0.3 * the best score)
    others  = how many other pages it has
    known   = support * others / (others + 5)
    named   = the share of the query's weight that stands in the document's name
    lift    = known + the most known of any document * 5 / (others + 5) + 0.4 * named * the best score

The lift is added to the score. So a page by itself, of which no other page can tell anything, counts like one
of the best document. Where all pages are by themselves, nothing is added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.store.segment import Segment
from vsplade.types import Json, SparseVector

BEST = 100
"""Pages by words that speak for their documents, beside those that meaning proposes."""
TIMES, MOST = 4.0, 0.3
FEW_PAGES = 5
"""In a document of few pages one page alone says little about the others."""
NAMED = 0.4
# These were chosen by questions about reports and manuals (docs/meaning.md).

NONE = -1
"""The document of a page that is one by itself, or of which nobody knows."""
Document = tuple[str, int]
"""Its name, and how many pages it has: more than one."""
Scores = NDArray[np.float64]
NameTerms = Callable[[str], frozenset[int]]
"""The terms of a document's name."""
_BETWEEN = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_NAMES = 1 << 16
"""Names whose terms are kept."""


def document_of(metadata: Mapping[str, Json]) -> Document | None:
    name, pages = metadata.get("doc_id"), metadata.get("pages")
    if isinstance(name, str) and isinstance(pages, int) and pages > 1:
        return name, pages
    return None


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of pages: of all that are in an index, or of those that an engine proposes."""

    all: Sequence[Document]
    of_page: NDArray[np.int32]
    """For each page the number of its document, or NONE."""

    def __bool__(self) -> bool:
        return bool(self.all)

    @classmethod
    def in_segments(cls, segments: Iterable[Segment]) -> Documents:
        return cls._join(map(_documents_in, segments))

    @classmethod
    def in_metadata(cls, pages: Sequence[Mapping[str, Json]]) -> Documents:
        return cls._join([([document_of(page) for page in pages], np.arange(len(pages)))])

    @classmethod
    def _join(cls, parts: Iterable[tuple[Sequence[Document | None], NDArray[Any]]]) -> Documents:
        """Of each part its documents, and which of them each of its pages has."""
        known: dict[Document, int] = {}
        of_page = [np.zeros(0, np.int32)]
        for found, rows in parts:
            numbers = [NONE if one is None else known.setdefault(one, len(known)) for one in found]
            of_page.append(np.array(numbers, np.int32)[rows])
        return cls(list(known), np.concatenate(of_page))


def _documents_in(segment: Segment) -> tuple[Sequence[Document | None], NDArray[Any]]:
    names, counts = segment.column("doc_id"), segment.column("pages")
    if names is None or counts is None or not any(isinstance(n, int) and n > 1 for n in counts.values):
        return [None], np.zeros(segment.pages, np.int64)  # seen at once: no name needs to be looked at
    codes = np.asarray(names.codes, np.int64) << 32 | np.asarray(counts.codes, np.int64)
    distinct, rows = np.unique(codes, return_inverse=True)
    of_name, of_count = [None, *names.values], [None, *counts.values]
    found = [
        document_of({"doc_id": of_name[code >> 32], "pages": of_count[code & 0xFFFFFFFF]})
        for code in distinct.tolist()
    ]
    return found, rows


def no_terms(name: str) -> frozenset[int]:
    """Of names that nobody can read."""
    return frozenset()


def name_terms(encode: Callable[[str], Iterable[int]]) -> NameTerms:
    """``encode`` gives the terms of a text: those of a name as people write names of files."""

    @lru_cache(_NAMES)
    def terms(name: str) -> frozenset[int]:
        return frozenset(encode(_BETWEEN.sub(" ", name)))

    return terms


@dataclass(frozen=True)
class AskedNames:
    """How much of a query stands in a document's name."""

    query: SparseVector
    """Its single words."""
    terms: NameTerms

    @cached_property
    def _weights(self) -> dict[int, float]:
        total = float(self.query.weights.sum(dtype=np.float64)) or 1.0
        shares = (self.query.weights / total).tolist()
        return dict(zip(self.query.terms.tolist(), shares, strict=True))

    def share(self, name: str) -> float:
        weights = self._weights
        return sum(weights.get(term, 0.0) for term in self.terms(name))


@dataclass(frozen=True, slots=True)
class Support:
    """What the best pages of a search, and the query, say for the pages of documents."""

    least: float
    best: float
    most_known: float
    excess: Mapping[str, float]
    """By document: the sum over those of its pages that are among the best."""
    names: AskedNames

    def lift(self, document: Document | None, score: float) -> float:
        """What a page of this document has more; ``score`` is its own, without the lift."""
        name, pages = document or ("", 1)
        others = self.excess.get(name, 0.0) - max(0.0, score - self.least) if document else 0.0
        known = _known(np.array([others]), np.array([pages]), self.best)
        named = np.array([self.names.share(name)])
        return float(_lifts(known, self.most_known, np.array([pages]), named, self.best)[0])


def _known(excess: Scores, pages: NDArray[np.int64], best: float) -> Scores:
    """``excess`` is the sum over a document's other pages."""
    others = np.maximum(pages - 1, 1)
    support: Scores = np.minimum(TIMES * np.maximum(excess, 0) / others, MOST * best)
    return support * (pages - 1) / (pages - 1 + FEW_PAGES)


def _lifts(known: Scores, most_known: float, pages: NDArray[np.int64], named: Scores, best: float) -> Scores:
    return known + most_known * FEW_PAGES / (pages - 1 + FEW_PAGES) + NAMED * best * named


def supported(
    documents: Documents,
    names: AskedNames,
    pages: NDArray[np.int64],
    scores: Scores,
    is_best: NDArray[np.bool_],
) -> tuple[Support, Scores]:
    """Of pages with these scores: what the best of them say for others, and the scores with their lifts."""
    least, best = float(scores[is_best].min()), float(scores[is_best].max())
    excess = np.maximum(scores - least, 0)
    found, place = np.unique(documents.of_page[pages], return_inverse=True)
    sums: Scores = np.bincount(place, excess * is_best, len(found)).astype(np.float64)
    each = [documents.all[number] if number != NONE else ("", 1) for number in found.tolist()]
    counts = np.array([count for _, count in each])
    named = np.array([names.share(name) for name, _ in each])
    known = _known(sums[place] - excess, counts[place], best)
    most = float(known[is_best].max())
    by_name = {name: total for (name, _), total in zip(each, sums.tolist(), strict=True) if name}
    lifts = _lifts(known, most, counts[place], named[place], best)
    return Support(least, best, most, by_name, names), scores + lifts
