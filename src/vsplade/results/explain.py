"""Why a page matched: the terms it shares with the query and what each added to the score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

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


class LazyMatches(Sequence[TermMatch]):
    """The matches of one hit, worked out when first looked at: most hits are never explained."""

    __slots__ = ("_compute", "_matches")

    def __init__(self, compute: Callable[[], list[TermMatch]]) -> None:
        self._compute: Callable[[], list[TermMatch]] | None = compute
        self._matches: list[TermMatch] = []

    def _ready(self) -> list[TermMatch]:
        if self._compute is not None:
            self._matches = self._compute()
            self._compute = None  # also lets go of the index
        return self._matches

    def __len__(self) -> int:
        return len(self._ready())

    @overload
    def __getitem__(self, index: int) -> TermMatch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TermMatch]: ...
    def __getitem__(self, index: int | slice) -> TermMatch | Sequence[TermMatch]:
        return self._ready()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._ready() == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self._ready()))

    def __repr__(self) -> str:
        return repr(self._ready())
