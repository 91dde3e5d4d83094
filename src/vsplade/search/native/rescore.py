"""Exact scores of the pages that candidates.py found, from their float32 vectors; compiled, without the GIL.

Candidates lie anywhere in memory, so waiting for memory is what this costs. A few are handled together, and
what the next ones need is asked for before it is read: where a page's terms are, the terms, then only those
weights that the query wants. It stops as soon as no candidate left can get in.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray, njit

from vsplade.encode.hash_bits import SAME
from vsplade.search.native.segment_table import (
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
from vsplade.search.native.simd import fetch

AHEAD = 16
"""Candidates that are loaded together."""


@inlined
def segment_of(table, number):
    low, high = 0, table.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if table[middle, BASE] <= number:
            low = middle
        else:
            high = middle
    return low


@inlined
def _span(segment, page):
    """Where a page's vector is among the segment's postings; within them, whatever the file says."""
    starts = carray(at_u64(segment[STARTS]), segment[PAGES] + 1)
    low = max(0, min(np.int64(starts[page]), segment[POSTINGS]))
    return low, max(0, min(np.int64(starts[page + 1]), segment[POSTINGS]))


@helper
def _fetch_terms(table, numbers):
    """Begin to load the terms of some pages; first where they are, for that is far away too."""
    for number in numbers:
        s = segment_of(table, number)
        fetch(table[s, STARTS] + 8 * (number - table[s, BASE]))
    for number in numbers:
        s = segment_of(table, number)
        low, high = _span(table[s], number - table[s, BASE])
        size = 4 if table[s, WIDE] else 2
        for address in range(table[s, PAGE_TERMS] + low * size, table[s, PAGE_TERMS] + high * size, 64):
            fetch(address)


@helper
def _find_weights(segment, page, query_terms, places):
    """Fill in where the weights of the query's terms are (-1: not on the page), and begin to load them."""
    low, high = _span(segment, page)
    for i in range(len(query_terms)):
        found = False
        if segment[WIDE]:
            wide = carray(at_u32(segment[PAGE_TERMS]), segment[POSTINGS])
            low = find(wide, low, high, query_terms[i])
            found = low < high and wide[low] == query_terms[i]
        else:
            narrow = carray(at_u16(segment[PAGE_TERMS]), segment[POSTINGS])
            low = find(narrow, low, high, query_terms[i])
            found = low < high and narrow[low] == query_terms[i]
        places[i] = low if found else -1
        if found:
            fetch(segment[PAGE_WEIGHTS] + 4 * low)


@helper
def _score(segment, places, query_weights):
    """The exact score: float64 products and sums by increasing term."""
    weights = carray(at_f32(segment[PAGE_WEIGHTS]), segment[POSTINGS])
    score = 0.0
    for i in range(len(places)):
        if places[i] >= 0:
            score += np.float64(query_weights[i]) * np.float64(weights[places[i]])
    return np.float32(score)


@helper
def _drop_others(segment, places, query_checks):
    """Hashed terms that stand on the page for other words, by their checks, are not on it."""
    bits = carray(at_u32(segment[PAGE_WEIGHTS]), segment[POSTINGS])
    for i in range(len(query_checks)):
        if places[i] >= 0 and query_checks[i] >= 0 and (bits[places[i]] ^ query_checks[i]) & SAME:
            places[i] = -1


@njit(nogil=True, cache=True)
def word_scores(table, query_terms, query_weights, query_checks, numbers, how_often):
    """Of all these pages; or, unless ``how_often`` counts, the query's weights of a page's terms.
    ``query_checks`` may be empty.
    """
    scores = np.zeros(len(numbers), dtype=np.float32)
    places = np.empty((AHEAD, len(query_terms)), dtype=np.int64)
    _fetch_terms(table, numbers[:AHEAD])
    for first in range(0, len(numbers), AHEAD):
        _fetch_terms(table, numbers[first + AHEAD : first + 2 * AHEAD])
        last = min(first + AHEAD, len(numbers))
        for i in range(first, last):
            s = segment_of(table, numbers[i])
            _find_weights(table[s], numbers[i] - table[s, BASE], query_terms, places[i - first])
        for i in range(first, last):
            _drop_others(table[segment_of(table, numbers[i])], places[i - first], query_checks)
            if how_often:
                scores[i] = _score(table[segment_of(table, numbers[i])], places[i - first], query_weights)
            else:
                scores[i] = np.float32(query_weights.astype(np.float64)[places[i - first] >= 0].sum())
    return scores


@helper
def rescore(table, query_terms, query_weights, sums, numbers, k, unit, under):
    """Exact scores of candidates, best sum first, until none of the others can reach the k-th best."""
    best = np.empty(k, dtype=np.int64)
    filled = 0
    scores = np.empty(len(numbers), dtype=np.float32)
    places = np.empty((AHEAD, len(query_terms)), dtype=np.int64)
    _fetch_terms(table, numbers[:AHEAD])
    for i in range(len(numbers)):
        # best[] holds floor(score / unit): whole numbers, so that one heap serves both uses.
        if filled == k and sums[i] + under < best[0]:
            return scores[:i]
        if i % AHEAD == 0:
            _fetch_terms(table, numbers[i + AHEAD : i + 2 * AHEAD])
            for j in range(i, min(i + AHEAD, len(numbers))):
                s = segment_of(table, numbers[j])
                _find_weights(table[s], numbers[j] - table[s, BASE], query_terms, places[j - i])
        s = segment_of(table, numbers[i])
        scores[i] = _score(table[s], places[i % AHEAD], query_weights)
        whole = np.int64(scores[i] / unit)
        if filled < k or whole > best[0]:
            filled = push(best, filled, whole)
    return scores
