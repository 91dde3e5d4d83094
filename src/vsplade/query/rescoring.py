"""Exact scores of the pages that kernels.py nominated, from their float32 vectors; compiled, without the GIL.

Candidates lie anywhere in memory, so waiting for memory is what this costs: the vectors of the next few are
asked for together before the first is read, and it stops as soon as no candidate left can get in.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray, njit

from vsplade.query.lanes import fetch
from vsplade.query.table import (
    BASE,
    PAGE_TERMS,
    PAGE_WEIGHTS,
    PAGES,
    POSTINGS,
    STARTS,
    WIDE,
    at_f32,
    at_u16,
    at_u32,
    at_u64,
    find,
    helper,
    inlined,
    push,
)

AHEAD = 8
"""Candidates whose vectors are being loaded at a time."""


@helper
def _score(segment, page, query_terms, query_weights):
    """The exact score: float64 products and sums by increasing term."""
    starts = carray(at_u64(segment[STARTS]), segment[PAGES] + 1)
    low = max(0, min(np.int64(starts[page]), segment[POSTINGS]))
    high = max(0, min(np.int64(starts[page + 1]), segment[POSTINGS]))
    weights = carray(at_f32(segment[PAGE_WEIGHTS]), segment[POSTINGS])
    score = 0.0
    if segment[WIDE]:
        wide = carray(at_u32(segment[PAGE_TERMS]), segment[POSTINGS])
        for i in range(len(query_terms)):
            low = find(wide, low, high, query_terms[i])
            if low < high and wide[low] == query_terms[i]:
                score += np.float64(query_weights[i]) * np.float64(weights[low])
    else:
        narrow = carray(at_u16(segment[PAGE_TERMS]), segment[POSTINGS])
        for i in range(len(query_terms)):
            low = find(narrow, low, high, query_terms[i])
            if low < high and narrow[low] == query_terms[i]:
                score += np.float64(query_weights[i]) * np.float64(weights[low])
    return np.float32(score)


@inlined
def _segment_of(table, number):
    low, high = 0, table.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if table[middle, BASE] <= number:
            low = middle
        else:
            high = middle
    return low


@helper
def _fetch_page(segment, page):
    """Begin to load a page's vector: candidates lie anywhere, and several loads at once hide each other."""
    starts = carray(at_u64(segment[STARTS]), segment[PAGES] + 1)
    start = max(0, min(np.int64(starts[page]), segment[POSTINGS]))
    end = max(0, min(np.int64(starts[page + 1]), segment[POSTINGS]))
    size = 4 if segment[WIDE] else 2
    for address in range(segment[PAGE_TERMS] + start * size, segment[PAGE_TERMS] + end * size, 64):
        fetch(address)
    for address in range(segment[PAGE_WEIGHTS] + start * 4, segment[PAGE_WEIGHTS] + end * 4, 64):
        fetch(address)


@njit(nogil=True, cache=True)
def rescore(table, query_terms, query_weights, sums, numbers, k, unit, under):
    """Exact scores of candidates, best sum first, until none of the others can reach the k-th best."""
    best = np.empty(k, dtype=np.int64)
    filled = 0
    scores = np.empty(len(numbers), dtype=np.float32)
    for i in range(len(numbers)):
        # best[] holds floor(score / unit): whole numbers, so that one heap serves both uses.
        if filled == k and sums[i] + under < best[0]:
            return scores[:i]
        if i % AHEAD == 0:
            for j in range(i, min(i + AHEAD, len(numbers))):
                s = _segment_of(table, numbers[j])
                _fetch_page(table[s], numbers[j] - table[s, BASE])
        s = _segment_of(table, numbers[i])
        scores[i] = _score(table[s], numbers[i] - table[s, BASE], query_terms, query_weights)
        whole = np.int64(scores[i] / unit)
        if filled < k or whole > best[0]:
            filled = push(best, filled, whole)
    return scores
