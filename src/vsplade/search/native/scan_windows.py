"""The hot loops of search by meaning, compiled: the nearest windows of some clusters, cosines of pages.

A window is a few hundred bytes, and those of a cluster lie one behind the other. A first pass multiplies
bytes with bytes, 64 in one instruction where the processor can, so it waits for memory only. What it keeps is
multiplied in floats. One call goes through all segments: with calls for each of them, Python took longer than
the loop.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import carray, njit

from vsplade.search.native.rescore import segment_of
from vsplade.search.native.segment_table import (
    BASE,
    BY_PAGE,
    CLUSTER_STARTS,
    CLUSTERS,
    CODES,
    DIMENSIONS,
    LENGTHS,
    MASK,
    PAGE_STARTS,
    PAGES,
    WINDOW_PAGES,
    WINDOWS,
    at_f32,
    at_i8,
    at_u8,
    at_u16,
    at_u32,
    helper,
    inlined,
    largest_first,
)
from vsplade.search.native.simd import fetch, fetch_once, products_of_64, products_of_256

_NUMBERS = 0xFFFFFFFF
AHEAD = 32
"""Windows that are asked for before they are read: the processor guesses this badly where clusters end."""
SPARE = 4
"""One window in so many is kept beyond those wanted, because the query is rounded to bytes."""


@njit(nogil=True, cache=True, fastmath=True, no_cpython_wrapper=True, forceinline=True)
def _cosine(codes, lengths, row, vector):
    sum_ = np.float32(0)
    window = codes[row]
    for place in range(len(vector)):
        sum_ += np.float32(window[place]) * vector[place]
    return sum_ / lengths[row]


@inlined
def _key(cosine, number, one):
    """Sorts as the cosine does, then by decreasing number (below 2**32). ``one`` is room for one float."""
    one[0] = cosine
    bits = np.int64(one.view(np.int32)[0])
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) << 32 | (_NUMBERS - number)


@inlined
def _cosine_of(key, one):
    bits = key >> 32
    one.view(np.int32)[0] = bits if bits >= 0 else bits ^ 0x7FFFFFFF
    return one[0]


@helper
def _in_bytes(vector):
    """As whole numbers up to 127: only its direction counts."""
    most = np.float32(1e-30)
    for value in vector:
        most = max(most, abs(value))
    codes = np.empty(len(vector), dtype=np.int8)
    for place in range(len(vector)):
        codes[place] = np.int8(np.rint(vector[place] * (np.float32(127) / most)))
    return codes


@inlined
def _products(row, query, count):
    """Sum of the products of the bytes at these addresses, each of ``row`` with 128 more."""
    sum_, place = np.int64(0), 0
    while place + 256 <= count:
        sum_ += products_of_256(row + place, query + place)
        place += 256
    while place + 64 <= count:
        sum_ += products_of_64(row + place, query + place)
        place += 64
    if place < count:
        rows, asked = carray(at_i8(row), count), carray(at_i8(query), count)
        for rest in range(place, count):
            sum_ += (np.int64(rows[rest]) + 128) * np.int64(asked[rest])
    return sum_


@inlined
def _next_run(table, clusters, s, c, dimensions):
    """The next run of windows behind cluster number ``c`` of segment ``s``: where it is, first row and last.
    At the end ``s`` is the number of segments."""
    c += 1
    while s < len(table):
        segment = table[s]
        if segment[WINDOWS] != 0 and segment[DIMENSIONS] == dimensions:
            starts = carray(at_u32(segment[CLUSTER_STARTS]), segment[CLUSTERS] + 1)
            while c < len(clusters) and clusters[c] < segment[CLUSTERS]:
                first, last = np.int64(starts[clusters[c]]), np.int64(starts[clusters[c] + 1])
                if first < last:
                    return s, c, first, last
                c += 1
        s, c = s + 1, 0
    return s, 0, np.int64(0), np.int64(0)


@helper
def _near_windows(table, clusters, asked, most, before):
    """Keys of the nearest windows by the products of bytes, at most so many. ``before`` are the windows of
    the segments before each. ``asked`` must be an argument: what is used by its address alone would be freed.

    What may be among them is gathered, and cut down to the best whenever there is twice as much: that costs a
    third of a heap, where every new one has to find its place.
    """
    dimensions, query, beyond = len(asked), asked.ctypes.data, np.int64(0)
    for code in asked:
        beyond += 128 * np.int64(code)
    keys = np.empty(2 * most, dtype=np.int64)
    one = np.empty(1, dtype=np.float32)
    size, least = 0, np.float32(-np.inf)
    s, c, first, last = _next_run(table, clusters, 0, -1, dimensions)
    while s < len(table):
        next_s, next_c, next_first, next_last = _next_run(table, clusters, s, c, dimensions)
        segment = table[s]
        codes = segment[CODES]
        # Behind this run's last row the rows of the next run are asked for.
        next_codes = table[min(next_s, len(table) - 1), CODES] + (next_first - last) * dimensions
        lengths = carray(at_f32(segment[LENGTHS]), segment[WINDOWS])
        pages = carray(at_u16(segment[WINDOW_PAGES]), segment[WINDOWS])
        mask = carray(at_u8(segment[MASK]), segment[PAGES])
        for row in range(first, last):
            ahead = row + AHEAD
            address = (codes if ahead < last else next_codes) + ahead * dimensions
            for line in range(0, dimensions, 64):
                fetch_once(address + line)
            near = np.float32(_products(codes + row * dimensions, query, dimensions) - beyond) / lengths[row]
            if not near >= least or (segment[MASK] != 0 and not mask[pages[row]]):
                continue
            keys[size] = _key(near, before[s] + row, one)
            size += 1
            if size == len(keys):
                largest_first(keys, most)
                size, least = most, _cosine_of(keys[:most].min(), one)
        s, c, first, last = next_s, next_c, next_first, next_last
    largest_first(keys[:size], most)
    return keys[: min(size, most)]


@njit(nogil=True, cache=True)
def nearest_pages(table, clusters, vector, most, depth):
    """Numbers of the pages that own the nearest windows of these clusters, and the cosine of the best window
    of each, best first. At most so many windows, and ``depth`` pages.
    """
    before = np.zeros(len(table) + 1, dtype=np.int64)
    for s in range(len(table)):
        before[s + 1] = before[s] + table[s, WINDOWS]
    near = _near_windows(table, clusters, _in_bytes(vector), most + most // SPARE, before)
    rows = np.sort(_NUMBERS - (near & _NUMBERS))  # in the order of the segments
    one = np.empty(1, dtype=np.float32)
    for ahead in (True, False):
        s = 0
        for place in range(len(rows)):
            while rows[place] >= before[s + 1]:
                s += 1
            segment, row = table[s], rows[place] - before[s]
            if ahead:
                fetch(segment[WINDOW_PAGES] + 2 * row)
                for line in range(0, segment[DIMENSIONS], 64):
                    fetch(segment[CODES] + row * segment[DIMENSIONS] + line)
                continue
            codes = carray(at_i8(segment[CODES]), (segment[WINDOWS], segment[DIMENSIONS]))
            lengths = carray(at_f32(segment[LENGTHS]), segment[WINDOWS])
            pages = carray(at_u16(segment[WINDOW_PAGES]), segment[WINDOWS])
            cosine = _cosine(codes, lengths, row, vector)
            near[place] = _key(cosine, segment[BASE] + np.int64(pages[row]), one)
    best = np.sort(near)[::-1][:most]
    numbers = np.empty(min(depth, len(best)), dtype=np.int64)
    cosines = np.empty(len(numbers), dtype=np.float32)
    known: set[np.int64] = set()
    for key in best:
        number = np.int64(_NUMBERS - (key & _NUMBERS))
        if len(known) == len(numbers):
            break
        if number not in known:
            numbers[len(known)], cosines[len(known)] = number, _cosine_of(key, one)
            known.add(number)
    return numbers[: len(known)], cosines[: len(known)]


@njit(nogil=True, cache=True)
def page_cosines(table, numbers, vector):
    """Of the best window of each of these pages; 0 for pages without any. They lie anywhere in memory, so all
    are asked for before the first is read."""
    out = np.zeros(len(numbers), dtype=np.float32)
    for number in numbers:
        segment = table[segment_of(table, number)]
        if segment[WINDOWS]:
            fetch(segment[PAGE_STARTS] + 4 * (number - segment[BASE]))
    for ahead in (True, False):
        for i in range(len(numbers)):
            segment = table[segment_of(table, numbers[i])]
            if segment[WINDOWS] == 0 or segment[DIMENSIONS] != len(vector):
                continue
            places = carray(at_u32(segment[PAGE_STARTS]), segment[PAGES] + 1)
            by_page = carray(at_u32(segment[BY_PAGE]), segment[WINDOWS])
            codes = carray(at_i8(segment[CODES]), (segment[WINDOWS], segment[DIMENSIONS]))
            lengths = carray(at_f32(segment[LENGTHS]), segment[WINDOWS])
            page = numbers[i] - segment[BASE]
            for place in range(places[page], places[page + 1]):
                row = np.int64(by_page[place])
                if ahead:
                    for line in range(0, segment[DIMENSIONS], 64):
                        fetch(segment[CODES] + row * segment[DIMENSIONS] + line)
                    continue
                cosine = _cosine(codes, lengths, row, vector)
                if place == places[page] or cosine > out[i]:
                    out[i] = cosine
    return out
