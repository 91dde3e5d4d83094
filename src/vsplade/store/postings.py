"""Turn pages' vectors into the searchable structure: for each term, which pages and how heavy (8 bits).

A posting is a 16-bit page offset and an 8-bit level: 3 bytes. A term of very many pages gets a dense row
instead (one level for every page, 0 for absent), which a CPU adds up several times faster than a list; that
costs bytes where the term is in fewer than a third of the pages, so rows are granted within a budget.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from vsplade.store.array_file import ALIGNMENT, Array, Container

MAX_PAGES = 1 << 16
"""Pages in one segment: what a 16-bit offset can name, and 128 KiB of 16-bit sums, which stay in L2 cache."""
MAX_VOCABULARY = 1 << 27
LEVELS = 255
WEIGHTS = (1e-18, 1e16)
"""Weights of pages and queries lie between these: then no product and no score leaves float32's range."""
DENSE = 1 << 31
"""Set in ``places`` when the rest of the number is a row of ``dense`` and not a position in ``offsets``."""

_DENSE_FROM = 1 / 16
"""Share of the pages from which adding a whole row is faster than following a list (measured: 5 to 7%)."""
_DENSE_MIN_PAGES = 4096
_DENSE_SPARE_BYTES = 0.35
"""Bytes a posting that dense rows may cost beyond the lists they replace: keeps the whole below 3.5."""


@dataclass(frozen=True, slots=True)
class Inverted:
    """The searchable structure of one segment. Level q of a term stands for the weight ``q * top / 255``,
    rounded up: a page's true weight is at most that, and more than one level less never."""

    terms: Array
    """Distinct terms, increasing (uint16, or uint32 for a vocabulary beyond 65,536)."""
    counts: NDArray[np.uint32]
    places: NDArray[np.uint32]
    tops: NDArray[np.float32]
    offsets: NDArray[np.uint16]
    levels: NDArray[np.uint8]
    dense: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays("").values())

    @property
    def postings(self) -> int:
        return int(self.counts.sum(dtype=np.int64))

    def arrays(self, prefix: str) -> dict[str, Array]:
        return {prefix + field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def stored(cls, container: Container, prefix: str) -> Inverted:
        return cls(*(container[prefix + field.name] for field in fields(cls)))


def row_stride(pages: int) -> int:
    """Bytes of a dense row: the pages, rounded up so that rows begin on cache lines."""
    return -(-pages // ALIGNMENT) * ALIGNMENT


def term_type(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


def invert(
    starts: NDArray[np.uint64], terms: Array, weights: NDArray[np.float32], vocabulary: int
) -> Inverted:
    """Invert the vectors of pages 0..n-1; page i has ``terms[starts[i]:starts[i + 1]]``, increasing."""
    pages = len(starts) - 1
    order = np.argsort(terms, kind="stable")  # 16-bit keys: numpy uses a radix sort
    offsets = np.repeat(np.arange(pages, dtype=np.uint16), np.diff(starts).astype(np.int64))[order]
    sorted_weights = weights[order]
    del order
    frequencies = np.bincount(terms, minlength=1)
    present = np.flatnonzero(frequencies)
    counts = frequencies[present]
    bounds = np.concatenate(([0], np.cumsum(counts)))
    tops = np.maximum.reduceat(sorted_weights, bounds[:-1]) if len(present) else sorted_weights
    levels = _levels(sorted_weights, tops, counts)
    rows = _choose_rows(counts, pages)
    dense = _fill_rows(rows, bounds, offsets, levels, pages)
    is_row = np.zeros(len(present), dtype=bool)
    is_row[rows] = True
    if len(rows):
        listed = np.repeat(~is_row, counts)
        offsets, levels = offsets[listed], levels[listed]
    places = np.cumsum(np.where(is_row, 0, counts)) - np.where(is_row, 0, counts)
    places[rows] = DENSE + np.arange(len(rows))
    return Inverted(
        present.astype(term_type(vocabulary)),
        counts.astype(np.uint32),
        places.astype(np.uint32),
        tops,
        offsets,
        levels,
        dense,
    )


def _levels(
    weights: NDArray[np.float32], tops: NDArray[np.float32], counts: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """``ceil(weight / (top / 255))``, 1 to 255. Rounded up: never level 0, which means absent."""
    steps = np.repeat((LEVELS / tops.astype(np.float64)), counts)
    steps *= weights
    np.ceil(steps, out=steps)
    return np.clip(steps, 1, LEVELS, out=steps).astype(np.uint8)


def _choose_rows(counts: NDArray[np.int64], pages: int) -> NDArray[np.int64]:
    """Positions of the terms that get a dense row: the commonest first, as far as the budget goes."""
    extra = row_stride(pages) - 3 * counts
    if pages < _DENSE_MIN_PAGES:
        return np.zeros(0, dtype=np.int64)
    wanted = np.flatnonzero(counts >= pages * _DENSE_FROM)
    wanted = wanted[np.argsort(-counts[wanted], kind="stable")]
    affordable = np.cumsum(extra[wanted]) <= _DENSE_SPARE_BYTES * counts.sum()
    return np.sort(wanted[affordable])


def _fill_rows(
    rows: NDArray[np.int64],
    bounds: NDArray[np.int64],
    offsets: NDArray[np.uint16],
    levels: NDArray[np.uint8],
    pages: int,
) -> NDArray[np.uint8]:
    stride = row_stride(pages)
    dense = np.zeros((len(rows), stride), dtype=np.uint8)
    for row, position in zip(dense, rows, strict=True):
        start, end = bounds[position], bounds[position + 1]
        row[offsets[start:end]] = levels[start:end]
    return dense.reshape(-1)
