"""The made-up corpus turned term by term, for engines that take it that way, and the exact answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from research.bench.corpus import CorpusSpec, Piece, Tell, generate
from vsplade.types import SparseVector

TIES = 50
"""Pages kept beyond the k-th best."""


@dataclass(frozen=True, slots=True)
class Postings:
    """All postings, by term; pages increase within a term."""

    starts: NDArray[np.int64]
    pages: NDArray[np.uint32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, spec: CorpusSpec, tell: Tell = lambda pages: None, most: int = 0) -> Postings:
        """Makes the corpus twice (once to count), so that only the result is held in memory. ``most`` > 0:
        only so many of the heaviest terms of each page.
        """
        counts = np.zeros(spec.vocabulary + 1, dtype=np.int64)
        for piece in _pruned(spec, most):
            counts[1:] += np.bincount(piece.terms, minlength=spec.vocabulary)
        starts = np.cumsum(counts)
        pages = np.empty(int(starts[-1]), dtype=np.uint32)
        weights = np.empty(int(starts[-1]), dtype=np.float32)
        ends = starts[:-1].copy()
        for piece in _pruned(spec, most, tell):
            _scatter(piece.first_page, piece.offsets, piece.terms, piece.weights, ends, pages, weights)
        return cls(starts, pages, weights)


def _pruned(spec: CorpusSpec, most: int, tell: Tell = lambda pages: None) -> Iterator[Piece]:
    for piece in generate(spec, tell):
        yield heaviest(piece, most) if most else piece


def heaviest(piece: Piece, most: int) -> Piece:
    """At most so many terms of each page; of equal weights the smaller term."""
    kept = np.zeros(len(piece.terms), dtype=np.bool_)
    _mark_heaviest(piece.offsets, piece.weights, most, kept)
    offsets = np.concatenate(([0], np.cumsum(kept)))[piece.offsets].astype(np.int64)
    return Piece(piece.first_page, offsets, piece.terms[kept], piece.weights[kept])


@dataclass(frozen=True, slots=True)
class Oracle:
    """The exact best pages of every query, best first, computed in float64; -1 where there are no more."""

    pages: NDArray[np.int64]
    scores: NDArray[np.float64]
    flops: float
    """Postings of the query's terms, per page and query: what an exhaustive search has to look at."""
    postings: int

    def recall(self, found: Sequence[Sequence[int]], k: int) -> float:
        """The share of the exact top ``k`` that was found, averaged over queries.

        Pages that tie with the k-th are as right as it is: which of them comes back is up to the engine.
        """
        shares = []
        for truth, scores, pages in zip(self.pages, self.scores, found, strict=True):
            wanted = min(k, int(np.count_nonzero(truth >= 0)))
            if wanted:
                right = set(truth[(truth >= 0) & (scores >= scores[wanted - 1])].tolist())
                shares.append(min(wanted, len(right & set(pages[:k]))) / wanted)
        return float(np.mean(shares)) if shares else 1.0

    def only(self, rows: slice) -> Oracle:
        """The answers to some of the queries."""
        return Oracle(self.pages[rows], self.scores[rows], self.flops, self.postings)

    def save(self, path: Path) -> None:
        np.savez(path, pages=self.pages, scores=self.scores, flops=self.flops, postings=self.postings)

    @classmethod
    def load(cls, path: Path) -> Oracle:
        with np.load(path, allow_pickle=False) as stored:
            return cls(stored["pages"], stored["scores"], float(stored["flops"]), int(stored["postings"]))


def exact_top(
    spec: CorpusSpec, queries: Sequence[SparseVector], k: int, tell: Tell = lambda pages: None
) -> Oracle:
    """Score every page for every query, piece by piece. Ties go to the earlier page.

    More than ``k`` are kept, so that those that tie with the k-th are known.
    """
    k += TIES
    slots, owners, query_weights = _by_term(spec, queries)
    best_pages = np.full((len(queries), k), -1, dtype=np.int64)
    best_scores = np.full((len(queries), k), 0.0)
    touched = postings = 0
    for piece in generate(spec, tell):
        scores = np.zeros((len(queries), len(piece)), dtype=np.float64)
        touched += _score(piece.offsets, piece.terms, piece.weights, slots, owners, query_weights, scores)
        postings += len(piece.terms)
        _keep_best(piece, scores, best_pages, best_scores)
    return Oracle(best_pages, best_scores, touched / (spec.pages * max(1, len(queries))), postings)


def _by_term(
    spec: CorpusSpec, queries: Sequence[SparseVector]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """For each term, the queries that ask for it and how much: three flat arrays."""
    terms = np.concatenate([query.terms for query in queries]).astype(np.int64)
    owners = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    weights = np.concatenate([query.weights for query in queries]).astype(np.float64)
    order = np.argsort(terms, kind="stable")
    slots = np.zeros(spec.vocabulary + 1, dtype=np.int64)
    np.cumsum(np.bincount(terms, minlength=spec.vocabulary), out=slots[1:])
    return slots, owners[order], weights[order]


def _keep_best(
    piece: Piece,
    scores: NDArray[np.float64],
    best_pages: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> None:
    k = best_pages.shape[1]
    for query, row in enumerate(scores):
        candidates = np.flatnonzero(row > best_scores[query, -1])
        if len(candidates) > 4 * k:  # all that tie with the k-th stay in
            candidates = candidates[row[candidates] >= np.partition(row[candidates], -k)[-k]]
        pages = np.concatenate([best_pages[query], candidates + piece.first_page])
        values = np.concatenate([best_scores[query], row[candidates]])
        order = np.lexsort((pages, -values))[:k]
        best_pages[query], best_scores[query] = pages[order], values[order]


@njit(cache=True)
def _mark_heaviest(offsets, weights, most, kept):  # type: ignore[no-untyped-def]
    for row in range(len(offsets) - 1):
        low, high = offsets[row], offsets[row + 1]
        order = np.argsort(-weights[low:high], kind="mergesort")
        for place in order[:most]:
            kept[low + place] = True


@njit(cache=True)
def _scatter(first_page, offsets, terms, weights, ends, out_pages, out_weights):  # type: ignore[no-untyped-def]
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            place = ends[terms[i]]
            ends[terms[i]] = place + 1
            out_pages[place] = first_page + row
            out_weights[place] = weights[i]


@njit(cache=True)
def _score(offsets, terms, weights, slots, owners, query_weights, scores):  # type: ignore[no-untyped-def]
    touched = 0
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            term = terms[i]
            for slot in range(slots[term], slots[term + 1]):
                scores[owners[slot], row] += query_weights[slot] * weights[i]
                touched += 1
    return touched
