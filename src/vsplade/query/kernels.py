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
- One call handles one query over all segments: arrays are handed over as addresses in a table, for unpacking
  hundreds of numpy arrays costs more than searching them. ``compiled.py`` fills the table and keeps the
  arrays alive. Places read from a file are checked against the arrays' lengths before they are followed.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from vsplade.query.lanes import (
    LANES,
    add_levels,
    any_from,
    fetch,
    keep_masked,
    lowest_bit,
    set_levels,
    top_of,
    which_from,
)

# Columns of the table: one row for each segment.
PAGES, BASE, TERM_COUNT, WIDE, STRIDE = 0, 1, 2, 3, 4
TERMS, COUNTS, PLACES, TOPS, OFFSETS, LEVELS, DENSE = 5, 6, 7, 8, 9, 10, 11
LISTED, ROW_BYTES = 12, 13
STARTS, PAGE_TERMS, PAGE_WEIGHTS, POSTINGS = 14, 15, 16, 17
MASK = 18
COLUMNS = 19

SHORT_QUERY = 100
AHEAD = 8
"""Candidates whose vectors are being loaded at a time."""
ROW_FLAG = 1 << 31


_helper = njit(nogil=True, cache=True, no_cpython_wrapper=True)
_inlined = njit(nogil=True, cache=True, no_cpython_wrapper=True, forceinline=True)


def _pointer_to(dtype):
    """A function that makes a typed pointer of an address."""

    @intrinsic
    def pointer(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(dtype)(types.int64), codegen

    return pointer


_u8, _u16, _u32 = _pointer_to(types.uint8), _pointer_to(types.uint16), _pointer_to(types.uint32)
_u64, _f32 = _pointer_to(types.uint64), _pointer_to(types.float32)


@_inlined
def _find(terms, low, high, term):
    """Place of ``term`` in the increasing terms[low:high], or where it would stand."""
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < term:
            low = middle + 1
        else:
            high = middle
    return low


@_helper
def _look_up(table, query_terms, entries, tops):
    """Fill entries[segment, i] (-1: absent) and tops[segment, i], the top weight of query term i there."""
    for s in range(table.shape[0]):
        count = table[s, TERM_COUNT]
        all_tops = carray(_f32(table[s, TOPS]), count)
        low = 0
        for i in range(len(query_terms)):
            term = query_terms[i]
            found = False
            if table[s, WIDE]:
                wide = carray(_u32(table[s, TERMS]), count)
                low = _find(wide, low, count, term)
                found = low < count and wide[low] == term
            else:
                narrow = carray(_u16(table[s, TERMS]), count)
                low = _find(narrow, low, count, term)
                found = low < count and narrow[low] == term
            entries[s, i] = low if found else -1
            tops[s, i] = all_tops[low] if found else 0.0


@_helper
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


@_helper
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


@_helper
def _add_rows32(segment, entries, places, multipliers, sums):
    stride = segment[STRIDE]
    sums[:stride] = 0
    for i in range(len(entries)):
        if entries[i] >= 0 and places[entries[i]] & ROW_FLAG:
            first = np.int64(places[entries[i]] & (ROW_FLAG - 1)) * stride
            if first + stride <= segment[ROW_BYTES]:
                row = carray(_u8(segment[DENSE] + first), stride)
                for page in range(stride):
                    sums[page] += np.uint32(row[page]) * multipliers[i]


@_helper
def _add_up(segment, entries, multipliers, sums):
    """The sums of one segment: dense rows first, for they also clear what was there, then the lists. Says
    whether the segment has any of the terms."""
    matched = False
    for i in range(len(entries)):
        matched |= entries[i] >= 0
    if not matched:
        return False
    places = carray(_u32(segment[PLACES]), segment[TERM_COUNT])
    counts = carray(_u32(segment[COUNTS]), segment[TERM_COUNT])
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
            offsets = carray(_u16(segment[OFFSETS] + 2 * start), count)
            levels = carray(_u8(segment[LEVELS] + start), count)
            m = multipliers[i]
            for j in range(count):
                sums[offsets[j]] += (np.uint32(levels[j]) * m) >> shift
    return True


@_helper
def _push(heap, size, value):
    """Put ``value`` into the min-heap of the k largest; returns its size."""
    if size < len(heap):
        place = size
        while place > 0 and heap[(place - 1) >> 1] > value:
            heap[place] = heap[(place - 1) >> 1]
            place = (place - 1) >> 1
        heap[place] = value
        return size + 1
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value
    return size


@_helper
def _keep_from(sums, numbers, count, least):
    """Drop the candidates below ``least``; returns how many are left."""
    kept = 0
    for i in range(count):
        if sums[i] >= least:
            sums[kept] = sums[i]
            numbers[kept] = numbers[i]
            kept += 1
    return kept


@_helper
def _apply_mask(segment, sums):
    pages = segment[PAGES]
    mask = carray(_u8(segment[MASK]), pages)
    whole = pages - pages % LANES if sums.itemsize == 2 else 0
    for page in range(0, whole, LANES):
        keep_masked(sums.ctypes.data + 2 * page, segment[MASK] + page)
    for page in range(whole, pages):
        sums[page] *= mask[page]


@_inlined
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


@_helper
def _grown(values):
    larger = np.empty(2 * len(values), dtype=np.int64)
    for i in range(len(values)):
        larger[i] = values[i]
    return larger


@_helper
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
            filled = _push(heap, filled, top)
    return heap[0] if filled == len(heap) else np.int64(0)


@_helper
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
                filled = _push(heap, filled, value)
                if filled == len(heap):
                    least = max(least, heap[0] - width)
        first += LANES
    return first, filled, least, count


@_helper
def _nominate(table, entries, multipliers, sums, k, width):
    """(sums, numbers) of every page whose sum is within ``width`` of the k-th largest sum, in page order."""
    heap = np.empty(k, dtype=np.int64)
    filled, least, count = 0, 1, 0
    found_sums, found_numbers = np.empty(4096, dtype=np.int64), np.empty(4096, dtype=np.int64)
    for s in range(table.shape[0]):
        segment = table[s]
        if not _add_up(segment, entries[s], multipliers[s], sums):
            continue
        if segment[MASK]:
            _apply_mask(segment, sums)
        pages, first = segment[PAGES], 0
        if filled == 0:
            least = max(1, _first_bound(sums, pages, heap) - width)
        while first < pages:
            first, filled, least, count = _collect(
                sums,
                first,
                pages,
                segment[BASE],
                width,
                heap,
                filled,
                least,
                found_sums,
                found_numbers,
                count,
            )
            if first < pages:
                count = _keep_from(found_sums, found_numbers, count, least)
                if 2 * count > len(found_sums):
                    found_sums, found_numbers = _grown(found_sums), _grown(found_numbers)
    count = _keep_from(found_sums, found_numbers, count, least)
    return found_sums[:count], found_numbers[:count]


@njit(nogil=True, cache=True)
def nominate(table, query_terms, query_weights, k, exact, sums):
    """(sums, numbers, unit, under): the pages that may be among the k best, or (not ``exact``) those with the
    k largest sums and all that tie with the last; and what a sum says about a true score.

    ``sums`` (uint16 for at most SHORT_QUERY terms, else uint32) is scratch memory for 65,536 pages.
    """
    shape = (table.shape[0], len(query_terms))
    entries = np.empty(shape, dtype=np.int64)
    tops = np.empty(shape, dtype=np.float64)
    multipliers = np.empty(shape, dtype=np.uint32)
    _look_up(table, query_terms, entries, tops)
    unit, over, under = _scale_query(query_weights, tops, multipliers, sums.itemsize == 2)
    found, numbers = _nominate(table, entries, multipliers, sums, k, over + under if exact else 0)
    return found, numbers, unit, under


@_helper
def _score(segment, page, query_terms, query_weights):
    """The exact score: float64 products and sums by increasing term."""
    starts = carray(_u64(segment[STARTS]), segment[PAGES] + 1)
    low = max(0, min(np.int64(starts[page]), segment[POSTINGS]))
    high = max(0, min(np.int64(starts[page + 1]), segment[POSTINGS]))
    weights = carray(_f32(segment[PAGE_WEIGHTS]), segment[POSTINGS])
    score = 0.0
    if segment[WIDE]:
        wide = carray(_u32(segment[PAGE_TERMS]), segment[POSTINGS])
        for i in range(len(query_terms)):
            low = _find(wide, low, high, query_terms[i])
            if low < high and wide[low] == query_terms[i]:
                score += np.float64(query_weights[i]) * np.float64(weights[low])
    else:
        narrow = carray(_u16(segment[PAGE_TERMS]), segment[POSTINGS])
        for i in range(len(query_terms)):
            low = _find(narrow, low, high, query_terms[i])
            if low < high and narrow[low] == query_terms[i]:
                score += np.float64(query_weights[i]) * np.float64(weights[low])
    return np.float32(score)


@_inlined
def _segment_of(table, number):
    low, high = 0, table.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if table[middle, BASE] <= number:
            low = middle
        else:
            high = middle
    return low


@_helper
def _fetch_page(segment, page):
    """Begin to load a page's vector: candidates lie anywhere, and several loads at once hide each other."""
    starts = carray(_u64(segment[STARTS]), segment[PAGES] + 1)
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
            filled = _push(best, filled, whole)
    return scores
