"""The inner loops of search by meaning, in numpy. ``native.scan_windows`` has the same ones, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.search.query_plan import Mask
from vsplade.store.meaning_windows import StoredWindows
from vsplade.store.segment import Segment
from vsplade.types import SparseVector

SMALL_VOCABULARY = 1 << 18


def nearest_windows(
    windows: StoredWindows, clusters: NDArray[np.int64], vector: NDArray[np.float32], mask: Mask, most: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The pages of the ``most`` nearest windows of these clusters, in any order, and their cosines."""
    pages, cosines = _scan(windows, clusters, vector)
    if mask is not None:
        allowed = mask[pages]
        pages, cosines = pages[allowed], cosines[allowed]
    if len(cosines) > most:
        best = np.argpartition(-cosines, most)[:most]
        pages, cosines = pages[best], cosines[best]
    return pages.astype(np.int64), cosines


def _scan(
    windows: StoredWindows, clusters: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """The pages of all windows of these clusters, and their cosines with the query."""
    if not len(clusters):
        return windows.pages[:0], windows.lengths[:0]
    clusters = np.sort(clusters)
    first, last = windows.starts[clusters].astype(np.int64), windows.starts[clusters + 1].astype(np.int64)
    new = np.concatenate([[True], first[1:] != last[:-1]])  # neighbours are read in one go
    ranges = zip(first[new].tolist(), np.append(last[:-1][new[1:]], last[-1]).tolist(), strict=True)
    rows = [slice(start, end) for start, end in ranges if start < end]
    if not rows:
        return windows.pages[:0], windows.lengths[:0]
    sums = [windows.codes[row].astype(np.float32) @ vector for row in rows]
    lengths = np.concatenate([windows.lengths[row] for row in rows])
    return np.concatenate([windows.pages[row] for row in rows]), np.concatenate(sums) / lengths


def best_cosines(
    windows: StoredWindows, pages: NDArray[np.int64], vector: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Of the best window of each of these pages; 0 for pages without any."""
    starts = windows.page_starts.astype(np.int64)
    spans = np.stack([starts[pages], starts[pages + 1]], 1)
    rows = windows.by_page[_ranges(spans)]
    cosines = windows.codes[rows].astype(np.float32) @ vector / windows.lengths[rows]
    return _over(np.maximum, cosines, spans)


def word_scores(
    segment: Segment, pages: NDArray[np.int64], query: SparseVector, how_often: bool
) -> NDArray[np.float32]:
    """By words; or, unless ``how_often`` counts, the weights of those words that a page has at all."""
    spans = np.stack([segment.starts[pages], segment.starts[pages + 1]], 1).astype(np.int64)
    rows = _ranges(spans)
    shared = _query_weights(query, segment.terms[rows])
    return _over(np.add, shared * segment.weights[rows] if how_often else shared, spans)


def _query_weights(query: SparseVector, terms: NDArray[Any]) -> NDArray[np.float64]:
    """The query's weight of any terms. In a small vocabulary a table is faster than a search for each."""
    weights, last = query.weights.astype(np.float64), int(query.terms[-1])
    if last < SMALL_VOCABULARY:
        table = np.zeros(last + 2)
        table[query.terms] = weights
        beyond = min(last + 1, int(np.iinfo(terms.dtype).max))
        found: NDArray[np.float64] = table[np.minimum(terms, terms.dtype.type(beyond))]
        return found
    terms = terms.astype(np.uint32)
    places = np.minimum(np.searchsorted(query.terms, terms), len(query.terms) - 1)
    return np.where(query.terms[places] == terms, weights[places], 0)


def _ranges(spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """All rows of (n, 2) spans, one span behind the other."""
    counts = spans[:, 1] - spans[:, 0]
    before = np.cumsum(counts) - counts
    rows: NDArray[np.int64] = np.arange(int(counts.sum())) + np.repeat(spans[:, 0] - before, counts)
    return rows


def _over(how: np.ufunc, values: NDArray[Any], spans: NDArray[np.int64]) -> NDArray[np.float32]:
    """The sum or the maximum over each span of ``_ranges``; 0 for an empty one."""
    counts = spans[:, 1] - spans[:, 0]
    out = np.zeros(len(counts), np.float32)
    filled = counts > 0
    if filled.any():
        out[filled] = how.reduceat(values, (np.cumsum(counts) - counts)[filled])
    return out
