"""The hot loops of search, compiled by numba without the GIL.

Why they look the way they do
- Memory traffic is the limit, so a posting is 3 bytes and is read once, in order: term at a time over one
  segment (at most 65,536 pages), whose 16-bit sums (128 KiB) stay in L2 cache. Skipping (MaxScore, block-max)
  reads less but waits more; measured on learned-sparse vectors, the plain scan won.
- Common terms are dense rows of one byte a page: widen, multiply, add, many pages an instruction, no scatter.
- A level q of a term adds floor(q * m / 256) to a page's 16-bit sum, with a 16-bit multiplier m for each term
  and segment. In the 16-bit lanes of a CPU that is one instruction (the high half of a product), and it is
  far finer than an 8-bit multiplier would be.
- m >= 256, so that a page that matches has a sum above zero, whatever its weights.
- Sums cannot overflow: ``_scale_query`` makes all maxima together stay below 65,536. Queries of more than
  ``SHORT_QUERY`` terms use 32-bit sums.
- The sums only nominate. How far a sum can be from the true score is known (``_scale_query``), so every page
  that might be in the top k is kept and scored from its float32 vector, best sum first, until the bound says
  that no page left can get in.
- One call (answering.py) handles a few queries, segment by segment (lists that several of them read are then
  still in cache), from the weights to the names of the pages found: no Python in between, for which several
  threads would have to wait in turn. Arrays are handed over
  as addresses in a table, for unpacking hundreds of numpy arrays costs more than searching them.
  ``compiled.py`` fills the table and keeps the arrays alive. Places read from a file are checked against the
  arrays' lengths before they are followed.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray

from vsplade.query.lanes import (
    LANES,
    add_levels,
    any_from,
    keep_masked,
    lowest_bit,
    set_levels,
    top_of,
    which_from,
)
from vsplade.query.table import (
    BASE,
    COUNTS,
    DENSE,
    LEVELS,
    LISTED,
    MASK,
    OFFSETS,
    PAGES,
    PLACES,
    ROW_BYTES,
    STRIDE,
    TERM_COUNT,
    TERMS,
    TOPS,
    WIDE,
    at_f32,
    at_u8,
    at_u16,
    at_u32,
    find,
    helper,
    inlined,
    push,
)

SHORT_QUERY = 100
ROW_FLAG = 1 << 31


@helper
def _look_up(table, query_terms, entries, tops):
    """Fill entries[segment, i] (-1: absent) and tops[segment, i], the top weight of query term i there."""
    for s in range(table.shape[0]):
        count = table[s, TERM_COUNT]
        all_tops = carray(at_f32(table[s, TOPS]), count)
        low = 0
        for i in range(len(query_terms)):
            term = query_terms[i]
            found = False
            if table[s, WIDE]:
                wide = carray(at_u32(table[s, TERMS]), count)
                low = find(wide, low, count, term)
                found = low < count and wide[low] == term
            else:
                narrow = carray(at_u16(table[s, TERMS]), count)
                low = find(narrow, low, count, term)
                found = low < count and narrow[low] == term
            entries[s, i] = low if found else -1
            tops[s, i] = all_tops[low] if found else 0.0


@helper
def _scale_query(query_weights, tops, multipliers, short):
    """Integer multipliers for each segment and term; returns (unit, over, under): a page's true score is
    between (sum - over) * unit and (sum + under) * unit.

    Short queries add floor(q * m / 256), q <= 255. With x = weight * top / 255 / unit (what a level is worth)
    and m = max(256, floor(256 x)): the truth is in (q - 1, q] levels, so the addend exceeds it by at most x,
    or by 255 where m was raised, and falls short by less than 2 (two floors). All maxima together are at
    most 65535 - 256 n + 255 n. Long queries add q * m with m = max(1, floor(x)) to 32-bit sums, likewise.
    One more unit (long queries: 512) covers the rounding of scores to float32 and of this arithmetic.
    """
    n = len(query_weights)
    total = 0.0
    for i in range(n):
        top = 0.0
        for s in range(tops.shape[0]):
            top = max(top, tops[s, i])
        total += top * query_weights[i]
    if total == 0.0:
        return 1.0, 0, 0
    room = 65535.0 - 256.0 * n if short else 2.0**31 - 256.0 * n
    fine, least = (256.0, 256) if short else (1.0, 1)
    unit = total / room
    over = 0.0
    for i in range(n):
        worst = 0.0
        for s in range(tops.shape[0]):
            x = tops[s, i] * query_weights[i] / 255.0 / unit
            m = int(x * fine)
            multipliers[s, i] = max(m, least)
            if tops[s, i] > 0.0:
                worst = max(worst, x if m >= least else 255.0)
        over += worst
    slip, margin = (2, 1) if short else (255, 512)
    return unit, int(over) + 1 + margin, slip * n + margin


@helper
def _add_rows16(segment, entries, places, multipliers, sums):
    """Set the 16-bit sums to what the dense rows add. 4,096 pages at a time: those sums (8 KiB) stay in L1
    cache while all rows are added."""
    stride, rows = segment[STRIDE], segment[DENSE]
    first_sum = sums.ctypes.data
    for first in range(0, stride, 4096):
        last = min(stride, first + 4096)
        fresh = True
        for i in range(len(entries)):
            if entries[i] < 0 or not places[entries[i]] & ROW_FLAG:
                continue
            row = rows + np.int64(places[entries[i]] & (ROW_FLAG - 1)) * stride
            if row + stride > rows + segment[ROW_BYTES]:
                continue
            for page in range(first, last, LANES):
                if fresh:
                    set_levels(first_sum + 2 * page, row + page, multipliers[i])
                else:
                    add_levels(first_sum + 2 * page, row + page, multipliers[i])
            fresh = False
        if fresh:
            sums[first:last] = 0


@helper
def _add_rows32(segment, entries, places, multipliers, sums):
    stride = segment[STRIDE]
    sums[:stride] = 0
    for i in range(len(entries)):
        if entries[i] >= 0 and places[entries[i]] & ROW_FLAG:
            first = np.int64(places[entries[i]] & (ROW_FLAG - 1)) * stride
            if first + stride <= segment[ROW_BYTES]:
                row = carray(at_u8(segment[DENSE] + first), stride)
                for page in range(stride):
                    sums[page] += np.uint32(row[page]) * multipliers[i]


@helper
def _add_up(segment, entries, multipliers, sums):
    """The sums of one segment: dense rows first, for they also clear what was there, then the lists. Says
    whether the segment has any of the terms."""
    matched = False
    for i in range(len(entries)):
        matched |= entries[i] >= 0
    if not matched:
        return False
    places = carray(at_u32(segment[PLACES]), segment[TERM_COUNT])
    counts = carray(at_u32(segment[COUNTS]), segment[TERM_COUNT])
    shift = np.uint32(8) if sums.itemsize == 2 else np.uint32(0)
    if sums.itemsize == 2:
        _add_rows16(segment, entries, places, multipliers, sums)
    else:
        _add_rows32(segment, entries, places, multipliers, sums)
    for i in range(len(entries)):
        if entries[i] < 0 or places[entries[i]] & ROW_FLAG:
            continue
        start = np.int64(places[entries[i]])
        count = min(np.int64(counts[entries[i]]), segment[LISTED] - start)
        if count > 0:
            offsets = carray(at_u16(segment[OFFSETS] + 2 * start), count)
            levels = carray(at_u8(segment[LEVELS] + start), count)
            m = multipliers[i]
            for j in range(count):
                sums[offsets[j]] += (np.uint32(levels[j]) * m) >> shift
    return True


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


@helper
def _apply_mask(segment, sums):
    pages = segment[PAGES]
    mask = carray(at_u8(segment[MASK]), pages)
    whole = pages - pages % LANES if sums.itemsize == 2 else 0
    for page in range(0, whole, LANES):
        keep_masked(sums.ctypes.data + 2 * page, segment[MASK] + page)
    for page in range(whole, pages):
        sums[page] *= mask[page]


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
            if value < least:
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
            if not _add_up(segment, entries[q, s], multipliers[q, s], sums):
                continue
            if segment[MASK]:
                _apply_mask(segment, sums)
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
        _look_up(table, terms[low:high], entries[q], tops)
        units[q], over, unders[q] = _scale_query(weights[low:high], tops, multipliers[q], sums.itemsize == 2)
        if exact:
            widths[q] = over + unders[q]
    found, numbers, counts = _nominate(table, entries, multipliers, sums, k, widths)
    return found, numbers, counts, units, unders
