"""The sums of search: for every page of a segment, what the terms of a query add up to in whole numbers.
Compiled by numba without the GIL.

Why the loops look the way they do
- Memory traffic is the limit, so a posting is 3 bytes and is read once, in order: term at a time over one
  segment (at most 65,536 pages), whose 16-bit sums (128 KiB) stay in L2 cache. Skipping (MaxScore, block-max)
  reads less but waits more; measured on learned-sparse vectors, the plain scan won.
- Common terms are dense rows of one byte a page: widen, multiply, add, many pages an instruction, no scatter.
- A level q of a term adds floor(q * m / 256) to a page's 16-bit sum, with a 16-bit multiplier m for each term
  and segment. In the 16-bit lanes of a CPU that is one instruction (the high half of a product), and it is
  far finer than an 8-bit multiplier would be.
- m >= 256, so that a page that matches has a sum above zero, whatever its weights.
- Sums cannot overflow: ``scale_query`` makes all maxima together stay below 65,536. Queries of more than
  ``SHORT_QUERY`` terms use 32-bit sums.
- Places read from a file are checked against the arrays' lengths before they are followed.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray

from vsplade.search.native.segment_table import (
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
)
from vsplade.search.native.simd import LANES, add_levels, keep_masked, set_levels

SHORT_QUERY = 100
ROW_FLAG = 1 << 31


@helper
def look_up(table, query_terms, entries, tops):
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
def scale_query(query_weights, tops, multipliers, short):
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
def add_up(segment, entries, multipliers, sums):
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
def apply_mask(segment, sums):
    pages = segment[PAGES]
    mask = carray(at_u8(segment[MASK]), pages)
    whole = pages - pages % LANES if sums.itemsize == 2 else 0
    for page in range(0, whole, LANES):
        keep_masked(sums.ctypes.data + 2 * page, segment[MASK] + page)
    for page in range(whole, pages):
        sums[page] *= mask[page]
