"""Which pages are about what a query means, and one score of words and meaning.

Every window of a page has a direction and belongs to the cluster whose centre is nearest. A search looks at
the clusters nearest to the query, as many as fit its budget of windows: all of them in a small index, which
is then exact; in a large one a few, and the share that is found is measured (docs/meaning.md). So its time
is bounded.

The score of a page is

    words + (sum of the query's weights) * trust * max(0, cosine)

where ``words`` is the sum over shared terms, the cosine that of the page's best window with the query, and
``trust`` falls with how much of the query the best page matches word by word: where words are found, they
decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsplade.index.segment import Segment
from vsplade.index.windows import StoredWindows
from vsplade.query.plan import Masks, Ranking
from vsplade.types import Direction, SparseVector

BUDGET = 24_576
"""Windows that a query looks at, about."""
LEAST_CLUSTERS = 8
"""At least so many clusters are looked at, however full they are."""
DEPTH = 50
"""Pages that words propose, and pages that meaning proposes, at least."""

FOUND, AHEAD = 0.08, 0.05
"""Words decide alone where the best page has so much of the query's weight, or is so much of it ahead of the
tenth. Ordinary questions reach 0.13 and 0.09 (medians), questions in other words 0.05 and 0.02."""
LEAST_TRUST, MOST_TRUST = 0.08, 2.0


def trust(matched: float, ahead: float) -> float:
    """In meaning. ``matched`` is the share of the query's weight that the best page has by words, ``ahead``
    by how much of it that page is ahead of the tenth."""
    missing = (1 - min(matched / FOUND, 1.0)) * (1 - min(ahead / AHEAD, 1.0))
    return LEAST_TRUST + MOST_TRUST * missing


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, its windows (None: it has none) and the number of its first page."""

    segment: Segment
    windows: StoredWindows | None
    base: int


class MeaningEngine:
    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
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
        self, direction: Direction, masks: Masks, depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The ``depth`` nearest pages, and the cosine of the best window of each."""
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        cosines: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
        chosen = self._clusters(direction)
        for part, mask in zip(self._parts, masks, strict=True):
            if part.windows is None:
                continue
            pages, cosine = _scan(part.windows, chosen, direction.vector)
            if mask is not None:
                allowed = mask[pages]
                pages, cosine = pages[allowed], cosine[allowed]
            if len(cosine) > 4 * depth:
                best = np.argpartition(-cosine, 4 * depth)[: 4 * depth]
                pages, cosine = pages[best], cosine[best]
            numbers.append(pages.astype(np.int64) + part.base)
            cosines.append(cosine)
        return _best_windows(np.concatenate(numbers), np.concatenate(cosines), depth)

    def _clusters(self, direction: Direction) -> NDArray[np.int64]:
        """The nearest clusters that hold anything, as many as the budget allows, in ascending order."""
        near = direction.clusters[direction.clusters < len(self._sizes)].astype(np.int64)
        near = near[self._sizes[near] > 0]
        count = max(LEAST_CLUSTERS, int(np.searchsorted(np.cumsum(self._sizes[near]), BUDGET)) + 1)
        return np.sort(near[:count])

    def cosines(self, direction: Direction, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of the best window of each of these pages; 0 for pages without any."""
        out = np.zeros(len(numbers), np.float32)
        for place, (part, page) in enumerate(self._located(numbers)):
            if part.windows is not None and len(rows := part.windows.rows(page)):
                codes, lengths = part.windows.codes[rows], part.windows.lengths[rows]
                out[place] = (codes.astype(np.float32) @ direction.vector / lengths).max()
        return out

    # -- with words -------------------------------------------------------------------------------------

    def join(self, query: SparseVector, words: Ranking, masks: Masks, k: int) -> Ranking:
        """``words`` are the best pages by words; the ``k`` best by words and meaning together."""
        direction = query.meaning
        if not isinstance(direction, Direction):
            return Ranking(words.numbers[:k], words.scores[:k])
        total = float(query.weights.sum(dtype=np.float64))
        first, tenth = (float(words.scores[n]) if len(words) > n else 0.0 for n in (0, 9))
        weight = total * trust(first / total, (first - tenth) / total) if total else 1.0
        numbers, _ = self.nearest(direction, masks, max(k, DEPTH))
        new = np.setdiff1d(numbers, words.numbers)
        numbers = np.concatenate([words.numbers, new])
        scores = np.concatenate([words.scores, self._word_scores(query, new)]).astype(np.float64)
        scores += weight * np.maximum(self.cosines(direction, numbers), 0)
        best = np.lexsort((numbers, -scores))[:k]
        best = best[scores[best] > 0]
        return Ranking(numbers[best], scores[best].astype(np.float32), meaning=weight)

    def _word_scores(self, query: SparseVector, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        out = np.zeros(len(numbers), np.float32)
        if not len(query):
            return out
        for place, (part, page) in enumerate(self._located(numbers)):
            start, end = int(part.segment.starts[page]), int(part.segment.starts[page + 1])
            terms = part.segment.terms[start:end]
            found = np.searchsorted(terms, query.terms.astype(terms.dtype))
            inside = found < len(terms)
            found = found[inside]
            same = terms[found] == query.terms[inside]
            weights = part.segment.weights[start:end][found[same]].astype(np.float64)
            out[place] = weights @ query.weights[inside][same].astype(np.float64)
        return out

    def _located(self, numbers: NDArray[np.int64]) -> list[tuple[Part, int]]:
        bases = np.array([part.base for part in self._parts])
        which = np.searchsorted(bases, numbers, side="right") - 1
        return [(self._parts[n], int(number - bases[n])) for n, number in zip(which, numbers, strict=True)]


def _scan(
    windows: StoredWindows, clusters: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """The pages of all windows of these clusters, and their cosines with the query."""
    clusters = clusters[clusters < len(windows.starts) - 1]
    if not len(clusters):
        return windows.pages[:0], windows.lengths[:0]
    first, last = windows.starts[clusters].astype(np.int64), windows.starts[clusters + 1].astype(np.int64)
    new = np.concatenate([[True], first[1:] != last[:-1]])  # neighbours are read in one go
    ranges = zip(first[new].tolist(), np.append(last[:-1][new[1:]], last[-1]).tolist(), strict=True)
    rows = [slice(start, end) for start, end in ranges if start < end]
    if not rows:
        return windows.pages[:0], windows.lengths[:0]
    sums = [windows.codes[row].astype(np.float32) @ vector for row in rows]
    lengths = np.concatenate([windows.lengths[row] for row in rows])
    return np.concatenate([windows.pages[row] for row in rows]), np.concatenate(sums) / lengths


def _best_windows(
    numbers: NDArray[np.int64], cosines: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The best window of each page, then the best pages; equal ones in page order."""
    order = np.lexsort((numbers, -cosines))
    numbers, cosines = numbers[order], cosines[order]
    first = np.sort(np.unique(numbers, return_index=True)[1])[:depth]
    return numbers[first], cosines[first]
