"""The plainest exact search there is: add up every posting of every query term, in memory, in float64.

Slow and obviously right: what evaluation finds through the index is compared with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.types import SparseVector


class ExactSearch:
    """Postings of a set of page vectors; also the statistics that query weights may ask for."""

    def __init__(self, vectors: PageVectors) -> None:
        self._ids = vectors.ids
        order = np.argsort(vectors.terms, kind="stable")
        rows = np.repeat(np.arange(len(vectors), dtype=np.int64), np.diff(vectors.offsets))
        self._rows = rows[order]
        self._weights = vectors.weights[order].astype(np.float64)
        self._terms, starts = np.unique(vectors.terms[order], return_index=True)
        self._starts = np.append(starts, len(order))

    @property
    def pages(self) -> int:
        return len(self._ids)

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        return np.array([len(self._rows[self._span(int(term))]) for term in terms], dtype=np.int64)

    def search(self, query: SparseVector, k: int) -> list[tuple[str, float]]:
        """The ``k`` best pages that share a term with the query; ties go to the earlier page."""
        scores = np.zeros(len(self._ids), dtype=np.float64)
        for term, weight in zip(query.terms, query.weights, strict=True):
            span = self._span(int(term))
            scores[self._rows[span]] += float(weight) * self._weights[span]
        found = np.flatnonzero(scores > 0)
        best = found[np.lexsort((found, -scores[found]))][:k]
        return [(self._ids[row], float(scores[row])) for row in best]

    def _span(self, term: int) -> slice:
        at = int(np.searchsorted(self._terms, term))
        if at == len(self._terms) or int(self._terms[at]) != term:
            return slice(0, 0)
        return slice(int(self._starts[at]), int(self._starts[at + 1]))
