"""Search by meaning in numpy: for small indexes and single queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.hash_bits import agree
from vsplade.search.query_plan import Masks, MeaningPart
from vsplade.store.meaning_windows import StoredWindows
from vsplade.types import QueryVector, SparseVector

SMALL_VOCABULARY = 1 << 18


class NumpyMeaning:
    def __init__(self, parts: Sequence[MeaningPart]) -> None:
        self._parts = parts
        self._bases = np.array([part.base for part in parts], np.int64)

    def nearest(
        self, vector: NDArray[np.float32], clusters: NDArray[np.int64], masks: Masks, most: int, depth: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Numbers of the pages that own the nearest windows of these clusters, and the cosine of the best
        window of each, best first. At most so many windows, and ``depth`` pages.
        """
        numbers: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
        cosines: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
        for part, mask in zip(self._parts, masks, strict=True):
            if part.windows is None:
                continue
            inside = clusters[clusters < len(part.windows.starts) - 1]
            pages, cosine = _scan(part.windows, inside, vector)
            if mask is not None:
                allowed = mask[pages]
                pages, cosine = pages[allowed], cosine[allowed]
            if len(cosine) > most:
                best = np.argpartition(-cosine, most)[:most]
                pages, cosine = pages[best], cosine[best]
            numbers.append(pages.astype(np.int64) + part.base)
            cosines.append(cosine)
        joined, values = np.concatenate(numbers), np.concatenate(cosines)
        order = np.lexsort((joined, -values))[:most]
        first = order[np.sort(np.unique(joined[order], return_index=True)[1])[:depth]]
        return joined[first], values[first]

    def cosines(self, vector: NDArray[np.float32], numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of the best window of each of these pages; 0 for pages without any."""
        out = np.zeros(len(numbers), np.float32)
        for part, places, pages in self._located(numbers):
            if part.windows is None:
                continue
            starts = part.windows.page_starts.astype(np.int64)
            spans = np.stack([starts[pages], starts[pages + 1]], 1)
            rows = part.windows.by_page[_ranges(spans)]
            codes, lengths = part.windows.codes[rows], part.windows.lengths[rows]
            out[places] = _over(np.maximum, codes.astype(np.float32) @ vector / lengths, spans)
        return out

    def word_scores(
        self, query: SparseVector, numbers: NDArray[np.int64], how_often: bool = True
    ) -> NDArray[np.float32]:
        """By words; or, unless ``how_often`` counts, the weights of those words that a page has at all."""
        out = np.zeros(len(numbers), np.float32)
        if not len(query):
            return out
        asked = _Asked(query)
        for part, places, pages in self._located(numbers):
            starts = part.segment.starts
            spans = np.stack([starts[pages], starts[pages + 1]], 1).astype(np.int64)
            rows = _ranges(spans)
            shared = asked.weights(part.segment.terms[rows], part.segment.weights[rows])
            out[places] = _over(np.add, shared * part.segment.weights[rows] if how_often else shared, spans)
        return out

    def _located(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[MeaningPart, NDArray[np.int64], NDArray[np.int64]]]:
        """By segment: which of the numbers lie in it, and their pages there."""
        which = np.searchsorted(self._bases, numbers, side="right") - 1
        for n in np.unique(which).tolist():
            places = np.flatnonzero(which == n)
            yield self._parts[n], places, numbers[places] - self._bases[n]


class _Asked:
    """The query's weight of any terms. In a small vocabulary a table is faster than a search for each."""

    def __init__(self, query: SparseVector) -> None:
        self._terms, self._weights = query.terms, query.weights.astype(np.float64)
        self._checks = query.checks if isinstance(query, QueryVector) else None
        last = int(query.terms[-1])
        self._table = np.zeros(last + 2) if last < SMALL_VOCABULARY else None
        if self._table is not None:
            self._table[query.terms] = self._weights

    def weights(self, terms: NDArray[Any], on_page: NDArray[np.float32]) -> NDArray[np.float64]:
        """Of a page's terms, which have these weights there; 0 where a hash is that of other words."""
        found = self._unchecked(terms)
        if self._checks is not None:
            hashed = np.flatnonzero(found)
            places = np.searchsorted(self._terms, terms[hashed].astype(np.uint32))
            found[hashed] *= agree(on_page[hashed], self._checks[places])
        return found

    def _unchecked(self, terms: NDArray[Any]) -> NDArray[np.float64]:
        if self._table is not None:
            beyond = min(len(self._table) - 1, int(np.iinfo(terms.dtype).max))
            found: NDArray[np.float64] = self._table[np.minimum(terms, terms.dtype.type(beyond))]
            return found
        terms = terms.astype(np.uint32)
        places = np.minimum(np.searchsorted(self._terms, terms), len(self._terms) - 1)
        return np.where(self._terms[places] == terms, self._weights[places], 0)


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


def _scan(
    windows: StoredWindows, clusters: NDArray[np.int64], vector: NDArray[np.float32]
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """The pages of all windows of these clusters, and their cosines with the query."""
    if not len(clusters):
        return windows.pages[:0], windows.lengths[:0]
    first, last = windows.starts[clusters].astype(np.int64), windows.starts[clusters + 1].astype(np.int64)
    new = np.concatenate([[True], first[1:] != last[:-1]])  # neighbours are read in one go
    ranges = zip(first[new].tolist(), np.append(last[:-1][new[1:]], last[-1]).tolist(), strict=True)
    rows = [slice(start, end) for start, end in ranges if start < end]
    if not rows:
        return windows.pages[:0], windows.lengths[:0]
    sums = [windows.codes[row].astype(np.float32) @ vector for row in rows]
    lengths = np.concatenate([windows.lengths[row] for row in rows])
    return np.concatenate([windows.pages[row] for row in rows]), np.concatenate(sums) / lengths
