"""What every engine is given: a checked query, and the pages that may be found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import IndexFormatError, InputError
from vsplade.search.by_document import Support
from vsplade.store.durable import from_bytes
from vsplade.store.meaning_windows import StoredWindows
from vsplade.store.postings import WEIGHTS, Inverted
from vsplade.store.segment import Segment
from vsplade.types import QueryVector, SparseVector

Masks = Sequence[NDArray[np.bool_] | None]
"""For each segment the pages that may be found; None: all of them."""

MAX_TERMS = 1 << 16
MAX_TOP = 1 << 24


@dataclass(frozen=True, slots=True)
class PackedIds:
    """Pages' ids as they were read along with a ranking: name i is bytes[starts[i]:starts[i + 1]]."""

    starts: NDArray[np.int64]
    bytes: NDArray[np.uint8]

    def only(self, rows: NDArray[np.intp]) -> PackedIds:
        """Those of some rows, in this order."""
        spans = [self.bytes[self.starts[row] : self.starts[row + 1]] for row in rows.tolist()]
        starts = np.cumsum([0, *map(len, spans)], dtype=np.int64)
        return PackedIds(starts, np.concatenate([*spans, self.bytes[:0]]))

    def decoded(self) -> list[str]:
        body = self.bytes[self.starts[0] : self.starts[-1]].tobytes()
        spans = pairwise((self.starts - self.starts[0]).tolist())
        if body.isascii():  # one decoding for all: bytes and characters are at the same places
            text = body.decode("ascii")
            return [text[start:end] for start, end in spans]
        try:
            return [from_bytes(body[start:end]) for start, end in spans]
        except UnicodeDecodeError as error:
            raise damaged_result() from error


class HasIds(Protocol):
    """Where the names of pages are; a ``Snapshot`` is one."""

    def ids(self, numbers: NDArray[np.int64]) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Mix:
    """A score is ``scale * (words + meaning * cosine)``, and what the page's document adds: of words alone,
    what it is by words."""

    meaning: float = 0.0
    scale: float = 1.0
    support: Support | None = None

    def query(self, vector: SparseVector) -> SparseVector:
        """With the weights that add up to the score."""
        if self.scale == 1:
            return vector
        return replace(vector, weights=vector.weights * np.float32(self.scale))

    @property
    def cosine_weight(self) -> float:
        return self.scale * self.meaning


WORDS_ALONE = Mix()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Page numbers and their scores, best first; equal scores in page order."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.float32]
    names: PackedIds | None = None
    """Where the engine reads them along."""
    mix: Mix = WORDS_ALONE

    def at_least(self, score: float) -> Ranking:
        """Without the pages below this score."""
        if math.isnan(score):
            raise InputError("min_score is not a number.")
        least = np.float32(min(score, float(np.finfo(np.float32).max)))  # no score is above that
        return self.first(int(np.count_nonzero(self.scores >= least)))

    def first(self, k: int) -> Ranking:
        """The best ``k``."""
        names = None if self.names is None else PackedIds(self.names.starts[: k + 1], self.names.bytes)
        return Ranking(self.numbers[:k], self.scores[:k], names, self.mix)

    def only(self, rows: NDArray[np.intp], scores: NDArray[np.float32]) -> Ranking:
        """Some of the pages, in this order, with other scores (of all)."""
        names = None if self.names is None else self.names.only(rows)
        return Ranking(self.numbers[rows], scores[rows], names, self.mix)

    def ids(self, pages: HasIds) -> list[str]:
        """Of the pages found, in the commit that was searched."""
        return pages.ids(self.numbers) if self.names is None else self.names.decoded()

    def __len__(self) -> int:
        return len(self.numbers)


def damaged_result() -> IndexFormatError:
    return IndexFormatError(
        "A page that was found has terms, weights or an id that cannot be: a segment of this index is "
        "damaged. Run `vsplade index --check` with its folder."
    )


NOTHING = Ranking(np.zeros(0, np.int64), np.zeros(0, np.float32))


class Engine(Protocol):
    """Searches the segments it was made for, for one query or several. ``first_stage`` > 0: only that many
    pages, found in the segments' pruned structure, are scored. Here a hashed term counts wherever a page has
    its number: ``hashed_search`` sorts those of other words out."""

    def search(
        self, queries: Sequence[SparseVector], k: int, masks: Masks, first_stage: int = 0
    ) -> list[Ranking]: ...

    def word_scores(self, query: SparseVector, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of these pages; a hashed term counts only where the page's check agrees."""
        ...


@dataclass(frozen=True, slots=True)
class Searchable:
    """A segment with the inverted structure that is scanned (the full one, or the pruned one)."""

    segment: Segment
    inverted: Inverted
    base: int


@dataclass(frozen=True, slots=True)
class MeaningPart:
    """A segment, its windows (None: it has none) and the number of its first page."""

    segment: Segment
    windows: StoredWindows | None
    base: int


def checked_query(query: SparseVector, vocabulary: int) -> SparseVector:
    """Terms increasing and known, weights positive and finite; terms beyond the vocabulary are dropped."""
    terms = np.asarray(query.terms, dtype=np.uint32)
    weights = np.asarray(query.weights, dtype=np.float32)
    if terms.ndim != 1 or terms.shape != weights.shape:
        raise InputError(f"the query has {len(terms)} terms but {len(weights)} weights.")
    if len(terms) > MAX_TERMS:
        raise InputError(f"the query has {len(terms)} terms; at most {MAX_TERMS} are possible.")
    if (terms[1:] <= terms[:-1]).any():
        raise InputError("the query's terms must increase strictly; build it with SparseVector.from_dict.")
    if not ((weights >= WEIGHTS[0]) & (weights <= WEIGHTS[1])).all():
        raise InputError(f"the query's weights must be positive: from {WEIGHTS[0]} to {WEIGHTS[1]}.")
    known = terms < vocabulary
    checks = query.checks if isinstance(query, QueryVector) else None
    if checks is not None and checks.shape != terms.shape:
        raise InputError(f"the query has {len(terms)} terms but {len(checks)} checks.")
    if not known.all():
        terms, weights, checks = terms[known], weights[known], None if checks is None else checks[known]
    return QueryVector(terms, weights, query.meaning, checks)


def checked_top(k: int) -> int:
    if not 1 <= k <= MAX_TOP:
        raise InputError(f"k is {k}; ask for 1 to {MAX_TOP} results.")
    return int(k)


def rank(numbers: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> Ranking:
    """The ``k`` best, equal scores in page order. Scores that are not above zero are no results."""
    if not np.isfinite(scores).all():
        raise damaged_result()
    found = scores > 0
    numbers, scores = numbers[found], scores[found]
    best = np.lexsort((numbers, -scores))[:k]
    return Ranking(numbers[best], scores[best])
