"""The hot loops of search by meaning, compiled: the nearest windows of some clusters, cosines of pages.

A window is a few hundred bytes, and those of a cluster lie one behind the other. Each byte is read once,
turned into a float in a register and multiplied; numpy would write the floats to memory first. One call goes
through all segments: with calls for each of them, Python took longer than the loop.
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
    inlined,
    largest_first,
)
from vsplade.search.native.simd import fetch

_NUMBERS = 0xFFFFFFFF


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


@njit(nogil=True, cache=True)
def nearest_windows(table, clusters, vector, most):
    """Numbers of pages and cosines of the nearest windows of these clusters, at most so many, best first.

    What may be among them is gathered, and cut down to the best whenever there is twice as much: that costs a
    third of a heap, where every new one has to find its place.
    """
    keys = np.empty(2 * most, dtype=np.int64)
    one = np.empty(1, dtype=np.float32)
    size, least = 0, np.float32(-np.inf)
    for s in range(len(table)):
        segment = table[s]
        if segment[WINDOWS] == 0 or segment[DIMENSIONS] != len(vector):
            continue
        codes = carray(at_i8(segment[CODES]), (segment[WINDOWS], segment[DIMENSIONS]))
        lengths = carray(at_f32(segment[LENGTHS]), segment[WINDOWS])
        pages = carray(at_u16(segment[WINDOW_PAGES]), segment[WINDOWS])
        starts = carray(at_u32(segment[CLUSTER_STARTS]), segment[CLUSTERS] + 1)
        mask = carray(at_u8(segment[MASK]), segment[PAGES])
        for cluster in clusters:
            if cluster >= segment[CLUSTERS]:
                continue
            for row in range(starts[cluster], starts[cluster + 1]):
                cosine = _cosine(codes, lengths, row, vector)
                if not cosine >= least or (segment[MASK] != 0 and not mask[pages[row]]):
                    continue
                keys[size] = _key(cosine, segment[BASE] + np.int64(pages[row]), one)
                size += 1
                if size == len(keys):
                    largest_first(keys, most)
                    size, least = most, _cosine_of(keys[:most].min(), one)
    largest_first(keys[:size], most)
    best = np.sort(keys[: min(size, most)])[::-1]
    cosines = np.empty(len(best), dtype=np.float32)
    for place in range(len(best)):
        cosines[place] = _cosine_of(best[place], one)
    return _NUMBERS - (best & _NUMBERS), cosines


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
