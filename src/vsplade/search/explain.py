"""Why a page matched: shared terms, what it is about, its document, and what each added to the score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vsplade.search.by_document import Support, document_of
from vsplade.search.hashed_search import shared_terms
from vsplade.types import (
    BY_DOCUMENT,
    BY_MEANING,
    FOUND,
    Direction,
    Metadata,
    QueryWord,
    SparseVector,
    TermMatch,
    Windows,
    WordMatch,
)

MeantBy = Callable[[Sequence[str], SparseVector], list[list[str]]]
"""Tells for each of some words which words of a page come nearest to it; nothing where nobody knows."""


def explain(
    query: SparseVector, page: SparseVector, token: Callable[[int], str], words: Sequence[QueryWord] = ()
) -> list[TermMatch]:
    """Shared terms, largest product first (ties: smaller term first); the products add up to the score."""
    bits = page.weight_bits() if words else {}
    pieces = _pieces_only(words, bits)
    missing = {word.typed.lower() for word in words if word.on(bits) != FOUND}
    matches = []
    for i, j in zip(*shared_terms(query, page), strict=True):
        term, name = int(query.terms[i]), token(int(query.terms[i]))
        in_part = term in pieces or (" " in name and bool(missing & set(name.split())))
        matches.append(TermMatch(name, term, float(query.weights[i]), float(page.weights[j]), in_part))
    return sorted(matches, key=lambda match: (-match.product, match.term))


def explain_meaning(
    query: SparseVector,
    page: SparseVector,
    words: Sequence[QueryWord],
    weight: float,
    meant_by: MeantBy,
) -> list[TermMatch]:
    """What the page's nearness to the query's meaning added, as one match; none where it added nothing."""
    if not (weight and isinstance(query.meaning, Direction) and isinstance(page.meaning, Windows)):
        return []
    codes = page.meaning.codes.astype(np.float32)
    lengths = np.maximum(np.linalg.norm(codes, axis=1), 1)  # of a damaged index, 0 perhaps
    cosine = float((codes @ query.meaning.vector / lengths).max())
    if cosine <= 0:
        return []
    bits = page.weight_bits()
    missing = [word.typed for word in words if word.on(bits) != FOUND and len(word.typed) > 2]
    found = meant_by(missing, page) if missing else []
    nearest = tuple((word, tuple(by)) for word, by in zip(missing, found, strict=False) if by)
    return [TermMatch("meaning", BY_MEANING, weight, cosine, meant_by=nearest)]


def explain_document(
    matches: Sequence[TermMatch], metadata: Metadata, support: Support | None
) -> list[TermMatch]:
    """What other pages of the document added to what these matches come to; none where they added nothing."""
    if support is None:
        return []
    lift = support.lift(document_of(metadata), sum(match.product for match in matches))
    return [TermMatch("its document", BY_DOCUMENT, 1.0, lift)] if lift > 0 else []


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
