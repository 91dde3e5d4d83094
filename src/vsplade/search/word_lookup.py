"""Which pages hold a word: from the lists of its terms, and the checks in the pages' own weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vsplade.store.postings import DENSE, row_stride
from vsplade.store.segment import Segment
from vsplade.types import FOUND, IN_PART, NOT_FOUND, Evidence, QueryWord

Part = tuple[Segment, NDArray[np.bool_] | None]
"""A segment, and its pages that may be found (None: all of them)."""


def pages_with(segment: Segment, term: int) -> NDArray[np.int64]:
    """The pages of a segment that have a term, in order."""
    inverted = segment.full
    entry = int(np.searchsorted(inverted.terms, term))
    if entry == len(inverted.terms) or int(inverted.terms[entry]) != term:
        return np.zeros(0, np.int64)
    place, count = int(inverted.places[entry]), int(inverted.counts[entry])
    if place & DENSE:
        start = (place - DENSE) * row_stride(segment.pages)
        return np.flatnonzero(inverted.dense[start : start + segment.pages])
    return inverted.offsets[place : place + count].astype(np.int64)


def holders(segment: Segment, whole: Sequence[Evidence]) -> NDArray[np.int64]:
    """The pages of a segment that have all of this evidence."""
    lists = sorted((pages_with(segment, mark.term) for mark in whole), key=len)
    if not lists:
        return np.zeros(0, np.int64)
    pages = lists[0]
    for other in lists[1:]:
        pages = pages[np.isin(pages, other, assume_unique=True)]
    for mark in whole:
        if mark.mask and len(pages):
            pages = pages[_bits(segment, pages, mark.term) & np.uint32(mark.mask) == mark.check]
    return pages


def _bits(segment: Segment, pages: NDArray[np.int64], term: int) -> NDArray[np.uint32]:
    """The bits of the term's weight on each of these pages, which all have it."""
    weights = np.empty(len(pages), np.float32)
    for place, page in enumerate(pages.tolist()):
        start, end = int(segment.starts[page]), int(segment.starts[page + 1])
        weights[place] = segment.weights[start + int(np.searchsorted(segment.terms[start:end], term))]
    return weights.view(np.uint32)


def holding(segment: Segment, word: QueryWord) -> NDArray[np.bool_]:
    """Which pages of a segment hold a word as a whole."""
    mask = np.zeros(segment.pages, dtype=bool)
    for whole in word.wholes:
        mask[holders(segment, whole)] = True
    return mask


def status(parts: Iterable[Part], word: QueryWord) -> str:
    """Whether any page holds the word: as a whole, in part, or not."""
    in_part = False
    for segment, allowed in parts:
        mask = holding(segment, word)
        if (mask if allowed is None else mask & allowed).any():
            return FOUND
        for term in word.parts:
            pages = pages_with(segment, term)
            in_part = in_part or bool(len(pages) if allowed is None else allowed[pages].any())
    return IN_PART if in_part else NOT_FOUND
