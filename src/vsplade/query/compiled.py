"""The engine for large indexes: hands the segments' memory to the compiled loops of kernels.py."""

from __future__ import annotations

from collections.abc import Sequence
from threading import local

import numpy as np
from numpy.typing import NDArray

from vsplade.index.container import Array
from vsplade.index.invert import MAX_PAGES, row_stride
from vsplade.query import kernels, rescoring, table
from vsplade.query.lanes import LANES
from vsplade.query.plan import Masks, Ranking, Searchable, rank
from vsplade.types import SparseVector

_NO_BOUND = 1 << 40
"""Sums of pruned pages say nothing about true scores: all that the first stage proposes are scored."""
_LINE = 64


class CompiledEngine:
    """Safe on several threads: each has its own sums, everything else is read only."""

    def __init__(self, parts: Sequence[Searchable]) -> None:
        self._alive: list[Array] = []  # the table holds bare addresses: these keep the memory where it is
        self._table = np.zeros((len(parts), table.COLUMNS), dtype=np.int64)
        for row, part in zip(self._table, parts, strict=True):
            self._describe(row, part)
        self._scratch = local()

    def _describe(self, row: NDArray[np.int64], part: Searchable) -> None:
        inverted, segment = part.inverted, part.segment
        row[table.PAGES] = segment.pages
        row[table.BASE] = part.base
        row[table.TERM_COUNT] = min(len(inverted.terms), len(inverted.counts), len(inverted.tops))
        row[table.WIDE] = inverted.terms.dtype.itemsize == 4
        row[table.STRIDE] = row_stride(segment.pages)
        row[table.LISTED] = min(len(inverted.offsets), len(inverted.levels))
        row[table.ROW_BYTES] = len(inverted.dense)
        row[table.POSTINGS] = min(len(segment.terms), len(segment.weights))
        for column, array in (
            (table.TERMS, inverted.terms),
            (table.COUNTS, inverted.counts),
            (table.PLACES, inverted.places),
            (table.TOPS, inverted.tops),
            (table.OFFSETS, inverted.offsets),
            (table.LEVELS, inverted.levels),
            (table.DENSE, inverted.dense),
            (table.STARTS, segment.starts),
            (table.PAGE_TERMS, segment.terms),
            (table.PAGE_WEIGHTS, segment.weights),
        ):
            row[column] = array.ctypes.data
            self._alive.append(array)

    def search(self, query: SparseVector, k: int, masks: Masks, first_stage: int = 0) -> Ranking:
        rows = self._table
        if any(mask is not None for mask in masks):
            rows = rows.copy()
            rows[:, table.MASK] = [0 if mask is None else mask.ctypes.data for mask in masks]
        short = len(query) <= kernels.SHORT_QUERY
        sums, numbers, unit, under = kernels.nominate(
            rows, query.terms, query.weights, first_stage or k, not first_stage, self._sums(short)
        )
        # Nominated in page order, and a stable sort: of equal sums the first pages are kept.
        order = np.argsort(-sums, kind="stable")
        if first_stage:
            order, under = order[:first_stage], _NO_BOUND
        sums, numbers = sums[order], numbers[order]
        scores = rescoring.rescore(rows, query.terms, query.weights, sums, numbers, k, unit, under)
        return rank(numbers[: len(scores)], scores, k)

    def _sums(self, short: bool) -> Array:
        """This thread's sums, made once: fresh memory would be faulted in page by page for every query."""
        name = "short" if short else "long"
        if not hasattr(self._scratch, name):
            kind = np.dtype(np.uint16 if short else np.uint32)
            memory = np.zeros((MAX_PAGES + LANES) * kind.itemsize + _LINE, dtype=np.uint8)
            first = -memory.ctypes.data % _LINE  # 64 sums then never straddle a cache line
            setattr(self._scratch, name, memory[first : first - _LINE].view(kind))
        sums: Array = getattr(self._scratch, name)
        return sums
