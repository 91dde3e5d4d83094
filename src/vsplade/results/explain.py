"""Why a page matched: the terms it shares with the query and what each added to the score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vsplade.types import SparseVector, TermMatch


def explain(query: SparseVector, page: SparseVector, token: Callable[[int], str]) -> list[TermMatch]:
    """Shared terms, largest product first (ties: smaller term first); the products add up to the score."""
    _, in_query, in_page = np.intersect1d(query.terms, page.terms, assume_unique=True, return_indices=True)
    matches = [
        TermMatch(
            token(int(query.terms[i])), int(query.terms[i]), float(query.weights[i]), float(page.weights[j])
        )
        for i, j in zip(in_query, in_page, strict=True)
    ]
    return sorted(matches, key=lambda match: (-match.product, match.term))
