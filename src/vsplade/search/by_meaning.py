"""Which pages are about what a query means, and one score of words and meaning.

Every window of a page has a direction and belongs to the cluster whose centre is nearest. A search looks at
the clusters nearest to the query, as many as fit its budget of windows: all of them in a small index, which
is then exact; in a large one a few, and the share that is found is measured (docs/meaning.md). So its time
is bounded.

The score of a page is

    words + (sum of the query's word weights) * trust * max(0, cosine)

where ``words`` is the sum over shared terms, the cosine that of the page's best window with the query, and
``trust`` falls with how much of the query the best pages match word by word: where words are found, they
decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vsplade.search import plain_windows
from vsplade.search.query_plan import Mask, Masks, Ranking
from vsplade.store.meaning_windows import StoredWindows
from vsplade.store.segment import Segment
from vsplade.types import Direction, SparseVector

BUDGET = 24_576
"""Windows that a query looks at, about."""
LEAST_CLUSTERS = 8
"""At least so many clusters are looked at, however full they are."""
DEPTH = 50
"""Pages that words propose, and pages that meaning proposes, at least."""

LOOKED_AT = 10
"""Of so many of the best pages by words the one with most of the query's words counts."""
LEAST_TRUST, MOST_TRUST = 0.2, 3.2
DOUBT, MATCHED, COVERED = 2.85, 12.5, 6.1
"""Chosen by questions of half A of the development sets (docs/meaning.md)."""


def trust(matched: float, covered: float) -> float:
    """In meaning. ``matched`` is the best page's score by words over the sum of the query's word weights.
    ``covered`` is the share of those weights whose words a page has, however often: of the best pages the
    most. Ordinary questions reach 0.34 and 0.7 (medians), questions in other words 0.12 and 0.35.
    """
    doubt = DOUBT - MATCHED * matched - COVERED * covered
    return LEAST_TRUST + MOST_TRUST / (1 + math.exp(-doubt))


def meaning_weight(
    query: SparseVector, vocabulary: int, best: float | None, covered: Callable[[SparseVector], float]
) -> float:
    """What a cosine counts for, beside scores by words. ``best`` is the best of those, None without any;
    ``covered`` tells the largest sum of these weights over the words that one of the best pages has."""
    single = query.terms < vocabulary
    asked = SparseVector(query.terms[single], query.weights[single])
    total = float(asked.weights.sum(dtype=np.float64))
    if not total:
        return 1.0
    return total * (trust(0, 0) if best is None else trust(best / total, covered(asked) / total))


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, its windows (None: it has none) and the number of its first page."""

    segment: Segment
    windows: StoredWindows | None
    base: int


class InnerLoops(Protocol):
    """What touches every window or posting: in numpy, or compiled."""

    def nearest_windows(
        self,
        windows: StoredWindows,
        clusters: NDArray[np.int64],
        vector: NDArray[np.float32],
        mask: Mask,
        most: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

    def best_cosines(
        self, windows: StoredWindows, pages: NDArray[np.int64], vector: NDArray[np.float32]
    ) -> NDArray[np.float32]: ...

    def word_scores(
        self, segment: Segment, pages: NDArray[np.int64], query: SparseVector, how_often: bool
    ) -> NDArray[np.float32]: ...


def inner_loops(compiled: bool) -> InnerLoops:
    """``compiled`` where numba is loaded already."""
    if not compiled:
        return plain_windows
    from vsplade.search.native import scan_windows

    return scan_windows


class MeaningEngine:
    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._bases = np.array([part.base for part in parts], np.int64)
        stored = [part.windows for part in parts if part.windows is not None]
        clusters = max((len(windows.starts) - 1 for windows in stored), default=0)
        self._sizes = np.zeros(clusters, np.int64)
        """Windows of each cluster, over all segments."""
        for windows in stored:
            starts = windows.starts.astype(np.int64)
            self._sizes[: len(starts) - 1] += starts[1:] - starts[:-1]

    def __bool__(self) -> bool:
        return len(self._sizes) > 0

    # -- by meaning alone -------------------------------------------------------------------------------

    def nearest(
        self, direction: Direction, masks: Masks, depth: int, compiled: bool = False
    ) -> NDArray[np.int64]:
        """The ``depth`` pages whose best windows are nearest."""
        loops = inner_loops(compiled)
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        cosines: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
        chosen = self._clusters(direction)
        for part, mask in zip(self._parts, masks, strict=True):
            if part.windows is None:
                continue
            inside = chosen[chosen < len(part.windows.starts) - 1]
            pages, cosine = loops.nearest_windows(part.windows, inside, direction.vector, mask, 4 * depth)
            numbers.append(pages + part.base)
            cosines.append(cosine)
        return _best_pages(np.concatenate(numbers), np.concatenate(cosines), depth)

    def _clusters(self, direction: Direction) -> NDArray[np.int64]:
        """The nearest clusters that hold anything, as many as the budget allows, nearest first: so the best
        windows are met early, and few others are ever kept."""
        near = direction.clusters[direction.clusters < len(self._sizes)].astype(np.int64)
        near = near[self._sizes[near] > 0]
        count = max(LEAST_CLUSTERS, int(np.searchsorted(np.cumsum(self._sizes[near]), BUDGET)) + 1)
        return near[:count]

    def cosines(
        self, direction: Direction, numbers: NDArray[np.int64], compiled: bool = False
    ) -> NDArray[np.float32]:
        """Of the best window of each of these pages; 0 for pages without any."""
        out = np.zeros(len(numbers), np.float32)
        loops = inner_loops(compiled)
        for part, places, pages in self._located(numbers):
            if part.windows is not None:
                out[places] = loops.best_cosines(part.windows, pages, direction.vector)
        return out

    # -- with words -------------------------------------------------------------------------------------

    def join(
        self, query: SparseVector, words: Ranking, masks: Masks, k: int, compiled: bool = False
    ) -> Ranking:
        """``words`` are the best pages by words; the ``k`` best by words and meaning together."""
        direction = query.meaning
        if not isinstance(direction, Direction):
            return Ranking(words.numbers[:k], words.scores[:k])
        weight = self._weight(query, words, direction.vocabulary, compiled)
        near = _not_among(self.nearest(direction, masks, max(k, DEPTH), compiled), words.numbers)
        numbers = np.concatenate([words.numbers, near])
        proposed = self._word_scores(query, near, compiled)
        scores = np.concatenate([words.scores, proposed]).astype(np.float64)
        cosines = self.cosines(direction, numbers, compiled)
        scores += weight * np.maximum(cosines, 0)
        best = np.lexsort((numbers, -scores))[:k]
        best = best[scores[best] > 0]
        return Ranking(numbers[best], scores[best].astype(np.float32), meaning=weight)

    def _weight(self, query: SparseVector, words: Ranking, vocabulary: int, compiled: bool) -> float:
        def covered(asked: SparseVector) -> float:
            return float(self._word_scores(asked, words.numbers[:LOOKED_AT], compiled, how_often=False).max())

        return meaning_weight(query, vocabulary, float(words.scores[0]) if len(words) else None, covered)

    def _word_scores(
        self, query: SparseVector, numbers: NDArray[np.int64], compiled: bool, how_often: bool = True
    ) -> NDArray[np.float32]:
        """By words; or, unless ``how_often`` counts, the weights of those words that a page has at all."""
        out = np.zeros(len(numbers), np.float32)
        loops = inner_loops(compiled)
        if len(query):
            for part, places, pages in self._located(numbers):
                out[places] = loops.word_scores(part.segment, pages, query, how_often)
        return out

    def _located(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[Part, NDArray[np.int64], NDArray[np.int64]]]:
        """By segment: which of the numbers lie in it, and their pages there."""
        which = np.searchsorted(self._bases, numbers, side="right") - 1
        for n in sorted(set(which.tolist())):
            places = np.flatnonzero(which == n)
            yield self._parts[n], places, numbers[places] - self._bases[n]


def _best_pages(numbers: NDArray[np.int64], cosines: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    """The pages of the best windows, each once; equal ones in page order."""
    found: dict[int, None] = {}
    for number in numbers[np.lexsort((numbers, -cosines))].tolist():
        found[number] = None
        if len(found) == depth:
            break
    return np.array(list(found), dtype=np.int64)


def _not_among(numbers: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
    """What ``np.isin`` would tell, which takes ten times as long for so few."""
    if not len(known):
        return numbers
    order = np.sort(known)
    places = np.minimum(np.searchsorted(order, numbers), len(order) - 1)
    return numbers[order[places] != numbers]
