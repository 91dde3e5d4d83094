"""Why a page matched: the terms it shares with the query and what each added to the score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vsplade.types import FOUND, QueryWord, SparseVector, TermMatch, WordMatch


def explain(
    query: SparseVector, page: SparseVector, token: Callable[[int], str], words: Sequence[QueryWord] = ()
) -> list[TermMatch]:
    """Shared terms, largest product first (ties: smaller term first); the products add up to the score."""
    pieces = _pieces_only(words, page.weight_bits()) if words else set()
    _, in_query, in_page = np.intersect1d(query.terms, page.terms, assume_unique=True, return_indices=True)
    matches = [
        TermMatch(
            token(int(query.terms[i])),
            int(query.terms[i]),
            float(query.weights[i]),
            float(page.weights[j]),
            int(query.terms[i]) in pieces,
        )
        for i, j in zip(in_query, in_page, strict=True)
    ]
    return sorted(matches, key=lambda match: (-match.product, match.term))


def match_words(words: Sequence[QueryWord], page: SparseVector) -> list[WordMatch]:
    """Whether a page holds each word of a query: as a whole, in part or not."""
    bits = page.weight_bits()
    return [WordMatch(word.typed, word.on(bits)) for word in words]


def _pieces_only(words: Sequence[QueryWord], page: Mapping[int, int]) -> set[int]:
    """The terms of words that do not stand on the page as a whole, less those of words that do."""
    whole: set[int] = set()
    part: set[int] = set()
    for word in words:
        (whole if word.on(page) == FOUND else part).update(word.terms)
    return part - whole
