"""Search by meaning in large indexes: hands the segments' memory to the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vsplade.search.native import segment_table
from vsplade.search.native.engine import checked_scores
from vsplade.search.native.scan_windows import nearest_windows, page_cosines
from vsplade.search.query_plan import Masks, MeaningPart
from vsplade.store.array_file import Array
from vsplade.types import SparseVector


class CompiledMeaning:
    """As ``PlainMeaning``, over all segments in one call. Safe on several threads: nothing is written to."""

    def __init__(self, parts: Sequence[MeaningPart]) -> None:
        self._alive: list[Array] = []  # the table holds bare addresses: these keep the memory where it is
        self._table = np.zeros((len(parts), segment_table.COLUMNS), dtype=np.int64)
        for row, part in zip(self._table, parts, strict=True):
            self._describe(row, part)

    def _describe(self, row: NDArray[np.int64], part: MeaningPart) -> None:
        segment, windows = part.segment, part.windows
        row[segment_table.PAGES], row[segment_table.BASE] = segment.pages, part.base
        row[segment_table.WIDE] = segment.terms.dtype.itemsize == 4
        row[segment_table.POSTINGS] = min(len(segment.terms), len(segment.weights))
        arrays: list[tuple[int, Array]] = [
            (segment_table.STARTS, segment.starts),
            (segment_table.PAGE_TERMS, segment.terms),
            (segment_table.PAGE_WEIGHTS, segment.weights),
        ]
        if windows is not None:
            row[segment_table.WINDOWS], row[segment_table.DIMENSIONS] = windows.codes.shape
            row[segment_table.CLUSTERS] = len(windows.starts) - 1
            arrays += [
                (segment_table.CODES, windows.codes),
                (segment_table.LENGTHS, windows.lengths),
                (segment_table.WINDOW_PAGES, windows.pages),
                (segment_table.CLUSTER_STARTS, windows.starts),
                (segment_table.BY_PAGE, windows.by_page),
                (segment_table.PAGE_STARTS, windows.page_starts),
            ]
        for column, array in arrays:
            row[column] = array.ctypes.data
            self._alive.append(array)

    def nearest(
        self, vector: NDArray[np.float32], clusters: NDArray[np.int64], masks: Masks, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rows = segment_table.masked(self._table, masks)
        numbers, cosines = nearest_windows(rows, clusters, vector, most)
        return numbers, cosines

    def cosines(self, vector: NDArray[np.float32], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = page_cosines(self._table, numbers, vector)
        return found

    def word_scores(
        self, query: SparseVector, numbers: NDArray[np.int64], how_often: bool = True
    ) -> NDArray[np.float32]:
        return checked_scores(self._table, query, numbers, how_often)
