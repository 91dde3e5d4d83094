"""The engine for large indexes: hands the segments' memory to the compiled loops of answer.py."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from threading import local

import numpy as np
from numpy.typing import NDArray

from vsplade.search.native import segment_table as columns
from vsplade.search.native.accumulate import SHORT_QUERY
from vsplade.search.native.answer import answer
from vsplade.search.native.rescore import word_scores
from vsplade.search.native.segment_table import SegmentTable
from vsplade.search.native.simd import LANES
from vsplade.search.query_plan import Masks, PackedIds, Ranking, Searchable, damaged_result
from vsplade.store.array_file import Array
from vsplade.store.postings import MAX_PAGES, row_stride
from vsplade.types import QueryVector, SparseVector

_LINE = 64
_NO_CHECKS = np.zeros(0, np.int32)


def checked_scores(
    table: NDArray[np.int64], query: SparseVector, numbers: NDArray[np.int64], how_often: bool = True
) -> NDArray[np.float32]:
    """By words, of pages of the segments of this table; a hashed term counts where the check agrees."""
    checks = query.checks if isinstance(query, QueryVector) else None
    asked = _NO_CHECKS if checks is None else checks
    scores: NDArray[np.float32] = word_scores(table, query.terms, query.weights, asked, numbers, how_often)
    return scores


class CompiledEngine:
    """Safe on several threads: each has its own sums, everything else is read only."""

    def __init__(self, parts: Sequence[Searchable]) -> None:
        self._table = SegmentTable([(part.segment, part.base) for part in parts])
        for number, part in enumerate(parts):
            self._describe(number, part)
        self._pages = sum(part.segment.pages for part in parts)
        self._scratch = local()

    def _describe(self, number: int, part: Searchable) -> None:
        inverted, segment = part.inverted, part.segment
        name_starts, names = segment.texts("id")
        counts = {
            columns.TERM_COUNT: min(len(inverted.terms), len(inverted.counts), len(inverted.tops)),
            columns.STRIDE: row_stride(segment.pages),
            columns.LISTED: min(len(inverted.offsets), len(inverted.levels)),
            columns.ROW_BYTES: len(inverted.dense),
            columns.NAME_BYTES: len(names),
        }
        arrays = {
            columns.TERMS: inverted.terms,
            columns.COUNTS: inverted.counts,
            columns.PLACES: inverted.places,
            columns.TOPS: inverted.tops,
            columns.OFFSETS: inverted.offsets,
            columns.LEVELS: inverted.levels,
            columns.DENSE: inverted.dense,
            columns.NAME_STARTS: name_starts,
            columns.NAMES: np.frombuffer(names, dtype=np.uint8),
        }
        self._table.fill(number, counts, arrays)

    def search(
        self, queries: Sequence[SparseVector], k: int, masks: Masks, first_stage: int = 0
    ) -> list[Ranking]:
        rows = self._table.masked(masks)
        k, first_stage = min(k, max(1, self._pages)), min(first_stage, self._pages)
        starts = np.array([0, *accumulate(map(len, queries))], dtype=np.int64)
        terms = np.concatenate([query.terms for query in queries])
        weights = np.concatenate([query.weights for query in queries])
        numbers = np.empty((len(queries), k), dtype=np.int64)
        scores = np.zeros((len(queries), k), dtype=np.float32)
        counts = np.empty(len(queries), dtype=np.int64)
        sums = self._sums(max(map(len, queries)) <= SHORT_QUERY)
        places, names = answer(rows, starts, terms, weights, k, first_stage, sums, numbers, scores, counts)
        if not np.isfinite(scores).all():
            raise damaged_result()
        rankings, first = [], 0
        for query, count in enumerate(counts.tolist()):
            named = PackedIds(places[first : first + count + 1], names)
            rankings.append(Ranking(numbers[query, :count], scores[query, :count], named))
            first += count
        return rankings

    def word_scores(self, query: SparseVector, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        return checked_scores(self._table.rows, query, numbers)

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
