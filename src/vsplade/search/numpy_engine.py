"""The engine for small indexes and single queries: numpy only, so nothing to compile and nothing to load.

Same method as native/accumulate.py: add up 8-bit levels term by term, keep every page that the error bound
cannot rule out of the top k, score those exactly. A level stands for the weight rounded up by less than one
step, so a page's sum is above its true score by no more than one step of every query term.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.hash_bits import agree
from vsplade.search.query_plan import NOTHING, Masks, Ranking, Searchable, damaged_result, rank
from vsplade.store.array_file import Array
from vsplade.store.postings import DENSE, LEVELS, row_stride
from vsplade.types import QueryVector, SparseVector

_ROWS_AT_ONCE = 1 << 14


class NumpyEngine:
    def __init__(self, parts: Sequence[Searchable]) -> None:
        self.parts = tuple(parts)

    def work(self, query: SparseVector) -> int:
        """Postings that a query adds up."""
        return sum(int(part.inverted.counts[_entries(part, query)[1]].sum()) for part in self.parts)

    def search(
        self, queries: Sequence[SparseVector], k: int, masks: Masks, first_stage: int = 0
    ) -> list[Ranking]:
        return [self._search(query, k, masks, first_stage) for query in queries]

    def word_scores(self, query: SparseVector, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        scores = np.zeros(len(numbers), np.float32)
        which = np.searchsorted([part.base for part in self.parts], numbers, side="right") - 1
        for n in np.unique(which).tolist():
            here, part = which == n, self.parts[n]
            scores[here] = exact_scores(part, query, numbers[here] - part.base, checked=True)
        return scores

    def _search(self, query: SparseVector, k: int, masks: Masks, first_stage: int) -> Ranking:
        sums = [_sums(part, query, mask) for part, mask in zip(self.parts, masks, strict=True)]
        if first_stage:
            threshold = _kth([found for found, _ in sums], first_stage)
            chosen = _first(sums, threshold, first_stage)
        else:
            width = max((bound for _, bound in sums), default=0.0)
            threshold = _kth([found for found, _ in sums], k) - width
            chosen = [np.flatnonzero((found > 0) & (found >= threshold)) for found, _ in sums]
        numbers = [part.base + pages for part, pages in zip(self.parts, chosen, strict=True)]
        scores = [exact_scores(part, query, pages) for part, pages in zip(self.parts, chosen, strict=True)]
        if not numbers:
            return NOTHING
        return rank(np.concatenate(numbers), np.concatenate(scores), k)


def _entries(part: Searchable, query: SparseVector) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(places in the query, places in the segment's terms) of the terms they share."""
    terms = part.inverted.terms
    places = np.searchsorted(terms, query.terms.astype(terms.dtype))
    places[places == len(terms)] = 0
    shared = np.flatnonzero(terms[places] == query.terms) if len(terms) else np.zeros(0, dtype=np.intp)
    return shared, places[shared]


def _sums(
    part: Searchable, query: SparseVector, mask: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], float]:
    """Each page's sum, zero for those that match nothing or may not be found, and how far above the true
    score a sum can be."""
    inverted, pages = part.inverted, part.segment.pages
    sums = np.zeros(pages, dtype=np.float32)
    bound = total = 0.0
    for position, entry in zip(*_entries(part, query), strict=True):
        step = float(query.weights[position]) * float(inverted.tops[entry]) / LEVELS
        bound += step
        total += step * LEVELS
        place, count = int(inverted.places[entry]), int(inverted.counts[entry])
        if place & DENSE:
            start = (place - DENSE) * row_stride(pages)
            sums += np.float32(step) * inverted.dense[start : start + pages]
        else:
            pages_of_term = inverted.offsets[place : place + count]
            try:
                sums[pages_of_term] += np.float32(step) * inverted.levels[place : place + count]
            except IndexError as error:
                raise damaged_result() from error
    if mask is not None:
        sums[~mask] = 0
    # float32 additions, and the rounding of a score to float32, err by at most 2^-23 of the total each.
    return sums, bound + total * (len(query) + 4) * 2.0**-22


def _kth(sums: list[NDArray[np.float32]], k: int) -> float:
    """The k-th largest sum, or 0 where fewer pages match."""
    best = [found if len(found) <= k else np.partition(found, len(found) - k)[-k:] for found in sums]
    joined = np.concatenate(best) if best else np.zeros(0, dtype=np.float32)
    return 0.0 if len(joined) < k else float(np.partition(joined, len(joined) - k)[-k])


def _first(
    sums: Sequence[tuple[NDArray[np.float32], float]], threshold: float, count: int
) -> list[NDArray[np.intp]]:
    """The ``count`` largest sums: all above the threshold, then those on it, in page order."""
    left = count - sum(int(np.count_nonzero(found > threshold)) for found, _ in sums)
    chosen = []
    for found, _ in sums:
        on = np.flatnonzero((found == threshold) & (found > 0))[:left]
        left -= len(on)
        chosen.append(np.sort(np.concatenate((np.flatnonzero(found > threshold), on))))
    return chosen


def exact_scores(
    part: Searchable, query: SparseVector, pages: NDArray[np.int64] | NDArray[np.intp], checked: bool = False
) -> NDArray[np.float32]:
    """Float32 scores from the stored vectors: products and sums in float64, by increasing term. ``checked``:
    a hashed term counts only where the page's check agrees.
    """
    weights = np.zeros(part.segment.vocabulary, dtype=np.float64)
    weights[query.terms] = query.weights
    checks = None
    if checked and isinstance(query, QueryVector) and query.checks is not None:
        checks = np.full(part.segment.vocabulary, -1, dtype=np.int32)
        checks[query.terms] = query.checks
    scores = np.zeros(len(pages), dtype=np.float64)
    for first in range(0, len(pages), _ROWS_AT_ONCE):
        some = pages[first : first + _ROWS_AT_ONCE]
        scores[first : first + len(some)] = _exact_rows(part, weights, some, checks)
    return scores.astype(np.float32)


def _exact_rows(
    part: Searchable,
    weights: NDArray[np.float64],
    pages: NDArray[np.int64] | NDArray[np.intp],
    checks: NDArray[np.int32] | None,
) -> NDArray[np.float64]:
    # Clipped: in a damaged file the starts may be anything.
    starts = np.minimum(part.segment.starts, len(part.segment.weights)).astype(np.int64)
    lengths = np.maximum(starts[pages + 1] - starts[pages], 0)
    rows = np.repeat(np.arange(len(pages)), lengths)
    ends = np.cumsum(lengths)
    places = np.arange(len(rows)) - np.repeat(ends - lengths, lengths) + np.repeat(starts[pages], lengths)
    terms: Array = part.segment.terms[places]
    try:
        matched = np.flatnonzero(weights[terms])
    except IndexError as error:
        raise damaged_result() from error
    products = weights[terms[matched]] * part.segment.weights[places[matched]]
    if checks is not None:
        products *= agree(part.segment.weights[places[matched]], checks[terms[matched]])
    # bincount adds in order, as the compiled engine does: both give the same bits.
    scores: NDArray[np.float64] = np.bincount(rows[matched], weights=products, minlength=len(pages))  # type: ignore[assignment]
    return scores
