"""Search by meaning in large indexes: hands the segments' memory to the compiled loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vsplade.search.native import segment_table as columns
from vsplade.search.native.engine import checked_scores
from vsplade.search.native.scan_windows import nearest_pages, page_cosines
from vsplade.search.native.segment_table import SegmentTable
from vsplade.search.query_plan import Masks, MeaningPart
from vsplade.store.array_file import Array
from vsplade.store.meaning_windows import StoredWindows
from vsplade.types import SparseVector


class CompiledMeaning:
    """As ``NumpyMeaning``, over all segments in one call. Safe on several threads: nothing is written to."""

    def __init__(self, parts: Sequence[MeaningPart]) -> None:
        self._table = SegmentTable([(part.segment, part.base) for part in parts])
        for number, part in enumerate(parts):
            if part.windows is not None:
                self._describe(number, part.windows)

    def _describe(self, number: int, windows: StoredWindows) -> None:
        count, dimensions = windows.codes.shape
        clusters = len(windows.starts) - 1
        arrays: dict[int, Array] = {
            columns.CODES: windows.codes,
            columns.LENGTHS: windows.lengths,
            columns.WINDOW_PAGES: windows.pages,
            columns.CLUSTER_STARTS: windows.starts,
            columns.BY_PAGE: windows.by_page,
            columns.PAGE_STARTS: windows.page_starts,
        }
        counts = {columns.WINDOWS: count, columns.DIMENSIONS: dimensions, columns.CLUSTERS: clusters}
        self._table.fill(number, counts, arrays)

    def nearest(
        self, vector: NDArray[np.float32], clusters: NDArray[np.int64], masks: Masks, most: int, depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        numbers, cosines = nearest_pages(self._table.masked(masks), clusters, vector, most, depth)
        return numbers, cosines

    def cosines(self, vector: NDArray[np.float32], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = page_cosines(self._table.rows, numbers, vector)
        return found

    def word_scores(
        self, query: SparseVector, numbers: NDArray[np.int64], how_often: bool = True
    ) -> NDArray[np.float32]:
        return checked_scores(self._table.rows, query, numbers, how_often)
