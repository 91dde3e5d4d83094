"""Which pages are about what a query means, and one score of words and meaning.

Every window of a page has a direction and belongs to the cluster whose centre is nearest. A search looks at
the clusters nearest to the query, as many as fit its budget of windows: all of them in a small index, which
is then exact; in a large one a few, and the share that is found is measured (docs/meaning.md). So its time
is bounded.

The score of a page is

    (words + trust * (sum of the query's word weights) * max(0, cosine)) / (1 + trust)

where ``words`` is the sum over shared terms, the cosine that of the page's best window with the query, and
``trust`` falls with how much of the query the best pages match word by word: where words are found, they
decide. It is the mean of two scores of about one size, so scores of several searches can be compared.

Pages of a document with several pages have a little more where the others match, too (``by_document``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import IndexFormatError
from vsplade.search.by_document import BEST, NONE, AskedNames, Documents, NameTerms, no_terms, supported
from vsplade.search.numpy_meaning import NumpyMeaning
from vsplade.search.query_plan import Masks, MeaningPart, Mix, Ranking, damaged_result
from vsplade.types import Direction, SparseVector

if TYPE_CHECKING:
    from vsplade.search.native.meaning_engine import CompiledMeaning

SHARE, BUDGET, MOST_BUDGET = 8, 24_576, 98_304
"""Windows that a query looks at, about: one in so many, but at least and at most so many."""
LEAST_CLUSTERS = 8
"""At least so many clusters are looked at, however full they are."""
DEPTH = 50
"""Pages that words propose, and pages that meaning proposes, at least."""

WINDOWS_A_PAGE = 4
"""For each of these pages so many of the nearest windows are kept: some pages have several of them."""
LOOKED_AT = 10
"""Of so many of the best pages by words the one with most of the query's words counts."""
LEAST_TRUST, MOST_TRUST = 0.3, 2.3
DOUBT, MATCHED, COVERED = 6.9, 23.0, 9.0
"""Chosen by questions of half A of the development sets (docs/meaning.md)."""


def trust(matched: float, covered: float) -> float:
    """In meaning. ``matched`` is the best page's score by words over the sum of the query's word weights.
    ``covered`` is the share of those weights whose words a page has, however often: of the best pages the
    most. Ordinary questions reach 0.34 and 0.7 (medians), questions in other words 0.12 and 0.35.
    """
    doubt = DOUBT - MATCHED * matched - COVERED * covered
    return LEAST_TRUST + MOST_TRUST / (1 + math.exp(-doubt))


def single_words(query: SparseVector, vocabulary: int) -> SparseVector:
    """Without what stands for several words together."""
    single = query.terms < vocabulary
    return SparseVector(query.terms[single], query.weights[single])


def mix_of(
    query: SparseVector, vocabulary: int, best: float | None, covered: Callable[[SparseVector], float]
) -> Mix:
    """``best`` is the best of the scores by words, None without any; ``covered`` tells the largest sum of
    these weights over the words that one of the best pages has."""
    asked = single_words(query, vocabulary)
    total = float(asked.weights.sum(dtype=np.float64))
    if not total:
        return Mix(1.0, 0.5)
    share = trust(0, 0) if best is None else trust(best / total, covered(asked) / total)
    return Mix(total * share, 1 / (1 + share))


class MeaningEngine:
    def __init__(self, parts: Sequence[MeaningPart]) -> None:
        self._parts = parts
        self._plain = NumpyMeaning(parts)
        stored = [part.windows for part in parts if part.windows is not None]
        self._dimensions = {windows.codes.shape[1] for windows in stored}
        clusters = max((len(windows.starts) - 1 for windows in stored), default=0)
        self._sizes = np.zeros(clusters, np.int64)
        """Windows of each cluster, over all segments."""
        for windows in stored:
            starts = windows.starts.astype(np.int64)
            self._sizes[: len(starts) - 1] += starts[1:] - starts[:-1]
        self._budget = min(max(int(self._sizes.sum()) // SHARE, BUDGET), MOST_BUDGET)

    def __bool__(self) -> bool:
        return len(self._sizes) > 0

    @cached_property
    def _compiled(self) -> CompiledMeaning:
        from vsplade.search.native.meaning_engine import CompiledMeaning

        return CompiledMeaning(self._parts)

    def nearest(
        self, direction: Direction, masks: Masks, depth: int, compiled: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The ``depth`` nearest pages, and the cosine of the best window of each."""
        loops = self._compiled if compiled else self._plain
        most = min(WINDOWS_A_PAGE * depth, int(self._sizes.sum()))
        return loops.nearest(direction.vector, self._clusters(direction), masks, most, depth)

    def _clusters(self, direction: Direction) -> NDArray[np.int64]:
        """The nearest clusters that hold anything, as many as the budget allows, in ascending order."""
        near = direction.clusters[direction.clusters < len(self._sizes)].astype(np.int64)
        near = near[self._sizes[near] > 0]
        count = max(LEAST_CLUSTERS, int(np.searchsorted(np.cumsum(self._sizes[near]), self._budget)) + 1)
        return np.sort(near[:count])

    def join(
        self,
        query: SparseVector,
        words: Ranking,
        masks: Masks,
        k: int,
        compiled: bool = False,
        documents: Documents | None = None,
        name_terms: NameTerms = no_terms,
    ) -> Ranking:
        """``words`` are the best pages by words; the ``k`` best by words and meaning together, and by what
        their ``documents`` add.
        """
        direction = query.meaning
        if not isinstance(direction, Direction):
            return Ranking(words.numbers[:k], words.scores[:k])
        if self._dimensions != {len(direction.vector)}:
            raise IndexFormatError(
                f"What this index's pages are about was told in {sorted(self._dimensions)} numbers, but the "
                f"query's meaning has {len(direction.vector)}. Search with --words-only, or index again."
            )
        loops = self._compiled if compiled else self._plain
        if documents is None or (documents.of_page[words.numbers] == NONE).all():
            documents, words = None, words.first(max(k, DEPTH))

        def covered(asked: SparseVector) -> float:
            return float(loops.word_scores(asked, words.numbers[:LOOKED_AT], how_often=False).max())

        top = float(words.scores[0]) if len(words) else None
        mix = mix_of(query, direction.vocabulary, top, covered)
        near, cosine = self.nearest(direction, masks, max(k, DEPTH), compiled)
        known = set(words.numbers.tolist())  # of so few, faster than numpy's sets
        new = np.array([number not in known for number in near.tolist()], np.bool_)
        numbers = np.concatenate([words.numbers, near[new]])
        scores = np.concatenate([words.scores, loops.word_scores(query, near[new])]).astype(np.float64)
        cosines = np.concatenate([loops.cosines(direction.vector, words.numbers), cosine[new]])
        scores = mix.scale * (scores + mix.meaning * np.maximum(cosines, 0))
        if not np.isfinite(scores).all():
            raise damaged_result()
        if documents is not None:
            is_best = np.ones(len(numbers), np.bool_)
            if k > DEPTH:
                is_best = np.isin(numbers, np.concatenate([words.numbers[:BEST], near[:DEPTH]]))
            names = AskedNames(single_words(query, direction.vocabulary), name_terms)
            support, scores = supported(documents, names, numbers, scores, is_best)
            mix = replace(mix, support=support)
        best = np.lexsort((numbers, -scores))[:k]
        best = best[scores[best] > 0]
        return Ranking(numbers[best], scores[best].astype(np.float32), mix=mix)
