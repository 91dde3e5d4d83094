"""What the compiled loops share: the table that describes segments to them, and small tools.

A row of the table describes a segment: counts, and the addresses of its arrays.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from vsplade.search.query_plan import Masks
from vsplade.store.array_file import Array
from vsplade.store.segment import Segment

PAGES, BASE, TERM_COUNT, WIDE, STRIDE = 0, 1, 2, 3, 4
TERMS, COUNTS, PLACES, TOPS, OFFSETS, LEVELS, DENSE = 5, 6, 7, 8, 9, 10, 11
LISTED, ROW_BYTES = 12, 13
STARTS, PAGE_TERMS, PAGE_WEIGHTS, POSTINGS = 14, 15, 16, 17
MASK = 18
NAME_STARTS, NAMES, NAME_BYTES = 19, 20, 21
CODES, LENGTHS, WINDOW_PAGES, CLUSTER_STARTS, BY_PAGE, PAGE_STARTS = 22, 23, 24, 25, 26, 27
WINDOWS, CLUSTERS, DIMENSIONS = 28, 29, 30
COLUMNS = 31


class SegmentTable:
    """The table, and the arrays whose bare addresses it holds: kept here so that their memory stays."""

    def __init__(self, segments: Sequence[tuple[Segment, int]]) -> None:
        """Segments, each with the number of its first page; their vectors are described at once."""
        self.rows = np.zeros((len(segments), COLUMNS), dtype=np.int64)
        self._alive: list[Array] = []
        for number, (segment, base) in enumerate(segments):
            terms, weights = segment.terms, segment.weights
            arrays = {STARTS: segment.starts, PAGE_TERMS: terms, PAGE_WEIGHTS: weights}
            postings, wide = min(len(terms), len(weights)), terms.dtype.itemsize == 4
            self.fill(number, {PAGES: segment.pages, BASE: base, WIDE: wide, POSTINGS: postings}, arrays)

    def fill(self, number: int, counts: Mapping[int, int], arrays: Mapping[int, Array]) -> None:
        """Columns of one segment: numbers, and the addresses of arrays."""
        for column, count in counts.items():
            self.rows[number, column] = count
        for column, array in arrays.items():
            self.rows[number, column] = array.ctypes.data
            self._alive.append(array)

    def masked(self, masks: Masks) -> NDArray[np.int64]:
        """The rows with the pages that may be found (None: all of them)."""
        if all(mask is None for mask in masks):
            return self.rows
        rows = self.rows.copy()
        rows[:, MASK] = [0 if mask is None else mask.ctypes.data for mask in masks]
        return rows


helper = njit(nogil=True, cache=True, no_cpython_wrapper=True)
inlined = njit(nogil=True, cache=True, no_cpython_wrapper=True, forceinline=True)


def _pointer_to(dtype):
    """A function that makes a typed pointer of an address."""

    @intrinsic
    def pointer(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(dtype)(types.int64), codegen

    return pointer


at_u8, at_u16, at_u32 = _pointer_to(types.uint8), _pointer_to(types.uint16), _pointer_to(types.uint32)
at_i8 = _pointer_to(types.int8)
at_u64, at_f32 = _pointer_to(types.uint64), _pointer_to(types.float32)


@inlined
def find(terms, low, high, term):
    """Place of ``term`` in the increasing terms[low:high], or where it would stand."""
    while low < high:
        middle = (low + high) >> 1
        if terms[middle] < term:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def push(heap, size, value):
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


@inlined
def _worse(values, numbers, place, value, number):
    return values[place] < value or (values[place] == value and numbers[place] > number)


@helper
def largest_first(keys, most):
    """Bring the ``most`` largest to the front, in any order."""
    low, high = 0, len(keys) - 1
    while low < high and most < len(keys):
        pivot, left, right = keys[(low + high) >> 1], low, high
        while left <= right:
            while keys[left] > pivot:
                left += 1
            while keys[right] < pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                left, right = left + 1, right - 1
        if most <= right:
            high = right
        elif most > left:
            low = left
        else:
            return


@helper
def _sink(values, numbers, size, value, number):
    """Put a pair into the heap of ``size`` pairs, whose first is to be replaced and will be the worst."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(values, numbers, child + 1, values[child], numbers[child]):
            child += 1
        if not _worse(values, numbers, child, value, number):
            break
        values[place], numbers[place] = values[child], numbers[child]
        place = child
    values[place], numbers[place] = value, number


@helper
def _rise(values, numbers, place):
    """Let the pair at ``place`` take its place in the heap of those before it."""
    value, number = values[place], numbers[place]
    while place > 0:
        parent = (place - 1) >> 1
        if not _worse(values, numbers, parent, value, number):
            values[place], numbers[place] = values[parent], numbers[parent]
            place = parent
        else:
            break
    values[place], numbers[place] = value, number


@helper
def sort_best_first(values, numbers):
    """Sort both: largest value first, equal values by increasing number. A heap of the worst, emptied from
    behind: no memory, and no case in which it is slow."""
    for place in range(1, len(values)):
        _rise(values, numbers, place)
    for last in range(len(values) - 1, 0, -1):
        value, number = values[last], numbers[last]
        values[last], numbers[last] = values[0], numbers[0]
        _sink(values, numbers, last, value, number)
