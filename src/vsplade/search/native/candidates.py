"""Which pages may be among the best: those whose sums are near enough to the k-th largest. Compiled by numba
without the GIL.

The sums (accumulate.py) only nominate. How far a sum can be from the true score is known (``scale_query``),
so every page that might be in the top k is kept; rescore.py scores them from their float32 vectors, best sum
first, until the bound says that no page left can get in.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np

from vsplade.search.native.accumulate import add_up, apply_mask, look_up, scale_query
from vsplade.search.native.segment_table import BASE, MASK, PAGES, helper, inlined, push
from vsplade.search.native.simd import LANES, any_from, lowest_bit, top_of, which_from


@helper
def _keep_from(sums, numbers, count, least):
    """Drop the candidates below ``least``; returns how many are left."""
    kept = 0
    for i in range(count):
        if sums[i] >= least:
            sums[kept] = sums[i]
            numbers[kept] = numbers[i]
            kept += 1
    return kept


@inlined
def _which_from(sums, first, least):
    """A bit for each of the 64 sums from ``first`` on that is at least ``least``."""
    if sums.itemsize == 2:
        if not any_from(sums.ctypes.data + 2 * first, least):
            return np.uint64(0)
        return which_from(sums.ctypes.data + 2 * first, least)
    bits = np.uint64(0)
    for page in range(LANES):
        if sums[first + page] >= least:
            bits |= np.uint64(1) << np.uint64(page)
    return bits


@helper
def _grown(rows):
    larger = np.empty((rows.shape[0], 2 * rows.shape[1]), dtype=np.int64)
    for row in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            larger[row, i] = rows[row, i]
    return larger


@helper
def _first_bound(sums, pages, heap):
    """A lower bound of the k-th largest sum, cheaply: the k-th largest of the tops of every 64 pages (0 where
    there are too few). With it the first segment does not walk through its early, low pages."""
    filled = 0
    for first in range(0, pages, LANES):
        top = np.int64(0)
        if sums.itemsize == 2:
            top = top_of(sums.ctypes.data + 2 * first)
        else:
            for page in range(first, first + LANES):
                top = max(top, np.int64(sums[page]))
        if filled < len(heap) or top > heap[0]:
            filled = push(heap, filled, top)
    return heap[0] if filled == len(heap) else np.int64(0)


@helper
def _collect(sums, first, pages, base, width, heap, filled, least, found_sums, found_numbers, count):
    """Walk the sums from page ``first`` on and keep those of at least ``least``, which rises with the heap of
    the k largest. Stops early when the candidates' arrays are nearly full (they are not made larger in here,
    for numba would then count references at every step). Returns (stop, filled, least, count)."""
    room = len(found_sums) - LANES
    while first < pages and count <= room:
        bits = _which_from(sums, first, least)
        while bits:
            page = first + lowest_bit(bits)
            bits &= bits - np.uint64(1)
            value = np.int64(sums[page])
            if value < least or page >= pages:  # behind the last page only a damaged file has sums
                continue
            found_sums[count] = value
            found_numbers[count] = base + page
            count += 1
            if filled < len(heap) or value > heap[0]:
                filled = push(heap, filled, value)
                if filled == len(heap):
                    least = max(least, heap[0] - width)
        first += LANES
    return first, filled, least, count


@helper
def _nominate(table, entries, multipliers, sums, k, widths):
    """(sums, numbers, counts): for each query every page whose sum is within its width of the k-th largest
    sum, in page order. Segment by segment: lists that several queries read are then still in cache."""
    queries = len(widths)
    heaps = np.empty((queries, k), dtype=np.int64)
    filled, counts = np.zeros(queries, dtype=np.int64), np.zeros(queries, dtype=np.int64)
    least = np.ones(queries, dtype=np.int64)
    found_sums = np.empty((queries, 4096), dtype=np.int64)
    found_numbers = np.empty((queries, 4096), dtype=np.int64)
    for s in range(table.shape[0]):
        segment = table[s]
        for q in range(queries):
            if not add_up(segment, entries[q, s], multipliers[q, s], sums):
                continue
            if segment[MASK]:
                apply_mask(segment, sums)
            pages, first = segment[PAGES], 0
            if filled[q] == 0:
                least[q] = max(1, _first_bound(sums, pages, heaps[q]) - widths[q])
            while first < pages:
                first, filled[q], least[q], counts[q] = _collect(
                    sums,
                    first,
                    pages,
                    segment[BASE],
                    widths[q],
                    heaps[q],
                    filled[q],
                    least[q],
                    found_sums[q],
                    found_numbers[q],
                    counts[q],
                )
                if first < pages:
                    counts[q] = _keep_from(found_sums[q], found_numbers[q], counts[q], least[q])
                    if 2 * counts[q] > found_sums.shape[1]:
                        found_sums, found_numbers = _grown(found_sums), _grown(found_numbers)
    for q in range(queries):
        counts[q] = _keep_from(found_sums[q], found_numbers[q], counts[q], least[q])
    return found_sums, found_numbers, counts


@helper
def nominate(table, starts, terms, weights, k, exact, sums):
    """(sums, numbers, counts, units, unders): for each query the pages that may be among the k best, or (not
    ``exact``) those with the k largest sums and all that tie with the last; and what a sum says about a true
    score. Query q has terms[starts[q]:starts[q + 1]].

    ``sums`` (uint16 for at most SHORT_QUERY terms, else uint32) is scratch memory for 65,536 pages.
    """
    queries, longest = len(starts) - 1, 1
    for q in range(queries):
        longest = max(longest, starts[q + 1] - starts[q])
    shape = (queries, table.shape[0], longest)
    entries = np.empty(shape, dtype=np.int64)
    tops = np.empty(shape[1:], dtype=np.float64)
    multipliers = np.empty(shape, dtype=np.uint32)
    units = np.empty(queries, dtype=np.float64)
    unders, widths = np.empty(queries, dtype=np.int64), np.zeros(queries, dtype=np.int64)
    for q in range(queries):
        low, high = starts[q], starts[q + 1]
        used = high - low
        for s in range(table.shape[0]):
            for i in range(used, longest):
                entries[q, s, i] = -1
        look_up(table, terms[low:high], entries[q], tops)
        units[q], over, unders[q] = scale_query(weights[low:high], tops, multipliers[q], sums.itemsize == 2)
        if exact:
            widths[q] = over + unders[q]
    found, numbers, counts = _nominate(table, entries, multipliers, sums, k, widths)
    return found, numbers, counts, units, unders
