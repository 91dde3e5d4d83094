"""The inner loops of search by meaning, compiled. ``plain_windows`` has the same ones in numpy.

A window is 256 bytes and they lie one behind the other, so the scan is bound by memory: each byte is read
once, turned into a float in a register and multiplied. numpy would write the floats to memory first: four
times the time at 100,000 pages. The other two handle some tens of pages, for which numpy takes many calls.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vsplade.search.native.segment_table import find, rise, sink
from vsplade.search.query_plan import Mask
from vsplade.store.meaning_windows import StoredWindows
from vsplade.store.segment import Segment
from vsplade.types import SparseVector

_EVERY_PAGE = np.zeros(0, dtype=np.bool_)


def nearest_windows(
    windows: StoredWindows, clusters: NDArray[np.int64], vector: NDArray[np.float32], mask: Mask, most: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The pages of the ``most`` nearest windows of these clusters, in any order, and their cosines."""
    allowed = _EVERY_PAGE if mask is None else mask
    found: tuple[NDArray[np.int64], NDArray[np.float32]] = _nearest_windows(
        windows.codes, windows.lengths, windows.pages, windows.starts, clusters, vector, allowed, most
    )
    return found


def best_cosines(
    windows: StoredWindows, pages: NDArray[np.int64], vector: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Of the best window of each of these pages; 0 for pages without any."""
    cosines: NDArray[np.float32] = _best_cosines(
        windows.codes, windows.lengths, windows.by_page, windows.page_starts, pages, vector
    )
    return cosines


def word_scores(
    segment: Segment, pages: NDArray[np.int64], query: SparseVector, how_often: bool
) -> NDArray[np.float32]:
    """By words; or, unless ``how_often`` counts, the weights of those words that a page has at all."""
    scores: NDArray[np.float32] = _word_scores(
        segment.terms, segment.weights, segment.starts, pages, query.terms, query.weights, how_often
    )
    return scores


@njit(nogil=True, cache=True, fastmath=True, forceinline=True)
def _cosine(codes, lengths, row, vector):
    total = np.float32(0)
    for place in range(len(vector)):
        total += np.float32(codes[row, place]) * vector[place]
    return total / lengths[row]


@njit(nogil=True, cache=True, fastmath=True)
def _nearest_windows(codes, lengths, pages, starts, clusters, vector, allowed, most):
    cosines, found = np.empty(most, dtype=np.float32), np.empty(most, dtype=np.int64)
    filled = 0
    for cluster in clusters:
        for row in range(starts[cluster], starts[cluster + 1]):
            cosine = _cosine(codes, lengths, row, vector)
            if filled == most and cosine <= cosines[0]:
                continue
            page = np.int64(pages[row])
            if len(allowed) and not allowed[page]:
                continue
            if filled < most:
                cosines[filled], found[filled] = cosine, page
                rise(cosines, found, filled)
                filled += 1
            else:
                sink(cosines, found, most, cosine, page)
    return found[:filled], cosines[:filled]


@njit(nogil=True, cache=True, fastmath=True)
def _best_cosines(codes, lengths, by_page, page_starts, pages, vector):
    best = np.zeros(len(pages), dtype=np.float32)
    for i in range(len(pages)):
        low, high = page_starts[pages[i]], page_starts[pages[i] + 1]
        for place in range(low, high):
            row = by_page[place]
            cosine = _cosine(codes, lengths, row, vector)
            if place == low or cosine > best[i]:
                best[i] = cosine
    return best


@njit(nogil=True, cache=True)
def _word_scores(terms, weights, starts, pages, query_terms, query_weights, how_often):
    scores = np.zeros(len(pages), dtype=np.float32)
    for i in range(len(pages)):
        low, high = np.int64(starts[pages[i]]), np.int64(starts[pages[i] + 1])
        score = 0.0
        for term in range(len(query_terms)):
            low = find(terms, low, high, query_terms[term])
            if low < high and terms[low] == query_terms[term]:
                weight = np.float64(weights[low]) if how_often else 1.0
                score += np.float64(query_weights[term]) * weight
        scores[i] = score
    return scores
