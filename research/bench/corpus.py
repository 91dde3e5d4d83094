"""A made-up corpus with the shape of a real one, in pieces, the same for everyone who gives the same seed.

What the speed of a sparse index depends on, and how it is modelled:

- Document frequencies follow Zipf's law, but no term is in more than ``cap`` of the pages: the regularised
  models that make such vectors push stop words down.
- Pages belong to topics: half of a page's terms come from the words of its one or two topics, so terms occur
  together and lists are not independent of each other.
- The number of terms a page is log-normal around ``mean_terms``.
- Weights lie in (0, 2], are skewed, and are higher for the words of the topic.
- Queries have 8 to 15 terms: some from one topic, some from anywhere, weighted as a table of term weights
  would weight them (rare terms higher).

Nothing is kept on disk: a piece is a function of (spec, piece number), so ten million pages can be made again
by every process that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.types import SparseVector

BACKGROUND_BITS, TOPIC_BITS, WEIGHT_BITS = 21, 12, 12
"""Sizes of the sampling tables: a random number of so many bits picks an entry."""


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """Everything that a corpus depends on."""

    pages: int
    seed: int = 1
    vocabulary: int = 50_368
    mean_terms: float = 300.0
    length_sigma: float = 0.4
    cap: float = 0.35
    topics: int = 400
    topic_terms: int = 1500
    piece_pages: int = 50_000

    def __post_init__(self) -> None:
        if self.pages < 1 or self.piece_pages < 1 or self.topics < 1:
            raise InputError(f"A corpus needs at least one page, topic and page a piece: {asdict(self)}.")
        if not 0 < self.cap < 1:
            raise InputError(f"The cap on document frequencies must be between 0 and 1, not {self.cap}.")
        if not 4 * self.mean_terms < self.vocabulary <= 65_536:
            raise InputError("The vocabulary must have at most 65,536 terms, and more than 4 times a page's.")
        if not 1 <= self.topic_terms <= self.vocabulary:
            raise InputError("A topic cannot have more terms than the vocabulary.")

    @property
    def pieces(self) -> int:
        return -(-self.pages // self.piece_pages)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive pages as one block of rows; terms increase within a row."""

    first_page: int
    offsets: NDArray[np.int64]
    terms: NDArray[np.uint32]
    weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def vector(self, row: int) -> SparseVector:
        span = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        return SparseVector(self.terms[span], self.weights[span])

    def vectors(self) -> Iterator[tuple[int, SparseVector]]:
        """Page numbers and vectors."""
        return ((self.first_page + row, self.vector(row)) for row in range(len(self)))


def page_facts(page: int) -> dict[str, Any]:
    """Metadata of a made-up page: documents have 20 pages."""
    return {"doc_id": f"d{page // 20}", "page_num": page % 20 + 1}


@dataclass(frozen=True, slots=True)
class _Tables:
    background: NDArray[np.uint16]
    topics: NDArray[np.uint16]
    topic_picks: NDArray[np.uint16]
    weights: NDArray[np.float32]


Tell = Callable[[int], None]
"""Is told how many pages have been made and used so far."""


def generate(
    spec: CorpusSpec, tell: Tell = lambda pages: None, numbers: Iterable[int] | None = None
) -> Iterator[Piece]:
    """All pieces, or those with these numbers, in order."""
    tables = _tables(spec)
    for number in range(spec.pieces) if numbers is None else numbers:
        piece = _piece(spec, tables, number)
        yield piece
        tell(piece.first_page + len(piece))


def make_queries(spec: CorpusSpec, count: int, seed: int = 7) -> list[SparseVector]:
    """Queries of 8 to 15 distinct terms: about a third from one topic, the rest from anywhere."""
    tables = _tables(spec)
    rng = np.random.default_rng([spec.seed, seed, 2])
    rarity = _term_weights(spec)
    queries = []
    for _ in range(count):
        length = int(rng.integers(8, 16))
        topic = int(tables.topic_picks[rng.integers(len(tables.topic_picks))])
        chosen: set[int] = set()
        while len(chosen) < length:
            if rng.random() < 0.35:
                chosen.add(int(tables.topics[topic, rng.integers(1 << TOPIC_BITS)]))
            else:
                chosen.add(int(tables.background[rng.integers(1 << BACKGROUND_BITS)]))
        terms = np.array(sorted(chosen), dtype=np.uint32)
        weights = rarity[terms] * np.exp(rng.normal(0, 0.25, length))
        queries.append(SparseVector(terms, np.clip(weights, 0.05, 2).astype(np.float32)))
    return queries


def _term_weights(spec: CorpusSpec) -> NDArray[np.float64]:
    """A query weight for each term: from 0.3 for the commonest to about 1.6 for the rarest."""
    ranks = _ranks(spec)
    return np.asarray(0.3 + 1.3 * np.log1p(ranks) / np.log(spec.vocabulary), dtype=np.float64)


def _ranks(spec: CorpusSpec) -> NDArray[np.int64]:
    """How common each term is (0: commonest). Shuffled: a term's number must not tell how common it is."""
    return np.random.default_rng([spec.seed, 0]).permutation(spec.vocabulary)


def _tables(spec: CorpusSpec) -> _Tables:
    rng = np.random.default_rng([spec.seed, 1])
    term_of_rank = np.argsort(_ranks(spec)).astype(np.uint16)
    background = _fill(_capped_zipf(spec), 1 << BACKGROUND_BITS)
    # A topic's words are neither the commonest of all (those are in every topic) nor only the rarest.
    middle = np.arange(min(200, spec.vocabulary // 100), spec.vocabulary)
    pull = 1 / np.sqrt(middle + 1.0)
    own = _fill(1 / (np.arange(spec.topic_terms) + 10.0), 1 << TOPIC_BITS)
    topics = np.empty((spec.topics, 1 << TOPIC_BITS), dtype=np.uint16)
    for topic in range(spec.topics):
        words = rng.choice(
            middle, size=min(spec.topic_terms, len(middle)), replace=False, p=pull / pull.sum()
        )
        topics[topic] = term_of_rank[words[np.minimum(own, len(words) - 1)]]
    sizes = 1 / (np.arange(spec.topics) + 20.0)
    picks = _fill(sizes, 1 << 14).astype(np.uint16)
    quantiles = (np.arange(1 << WEIGHT_BITS) + 0.5) / (1 << WEIGHT_BITS)
    weights = np.clip(np.exp(_normal_quantile(quantiles) * 0.6 - 0.9), 0.01, 2).astype(np.float32)
    return _Tables(term_of_rank[background], topics, picks, weights)


def _capped_zipf(spec: CorpusSpec) -> NDArray[np.float64]:
    """Probabilities by rank, flat at the top so that no term is in more than ``cap`` of the pages.

    A page draws from this about 0.56 * ``mean_terms`` times: half of its terms, and some of the places of
    topic words that came up twice.
    """
    most = 1 - (1 - spec.cap) ** (1 / (0.56 * spec.mean_terms))
    ideal = 1 / (np.arange(spec.vocabulary) + 1.0)
    low, high = 0.0, 1.0
    for _ in range(60):  # the scale at which min(scale * ideal, most) sums to 1
        scale = (low + high) / 2
        low, high = (scale, high) if np.minimum(scale * ideal, most).sum() < 1 else (low, scale)
    probabilities = np.minimum(high * ideal, most)
    return np.asarray(probabilities / probabilities.sum(), dtype=np.float64)


def _fill(probabilities: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """A table in which entry i occurs in proportion to its probability."""
    edges = np.cumsum(probabilities / probabilities.sum())
    return np.searchsorted(edges, (np.arange(size) + 0.5) / size).clip(max=len(probabilities) - 1)


def _normal_quantile(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of the normal distribution, by table: this must not need scipy."""
    from math import erf, sqrt

    grid = np.linspace(-5, 5, 20_001)
    values = np.array([0.5 * (1 + erf(x / sqrt(2))) for x in grid])
    return np.interp(p, values, grid)


def _piece(spec: CorpusSpec, tables: _Tables, number: int) -> Piece:
    first = number * spec.piece_pages
    pages = min(spec.piece_pages, spec.pages - first)
    rng = np.random.default_rng([spec.seed, 3, number])
    # The mean of a log-normal is exp(mu + sigma^2 / 2): this mu makes it mean_terms.
    mu = np.log(spec.mean_terms) - spec.length_sigma**2 / 2
    lengths = np.exp(rng.normal(mu, spec.length_sigma, pages)).astype(np.int64)
    lengths = np.clip(lengths, max(1, int(spec.mean_terms / 20)), int(4 * spec.mean_terms))
    offsets = np.zeros(pages + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    terms = np.empty(int(offsets[-1]), dtype=np.uint32)
    weights = np.empty(int(offsets[-1]), dtype=np.float32)
    seed = np.uint64(rng.integers(1 << 62))
    _draw_pages(
        seed,
        offsets,
        tables.background,
        tables.topics,
        tables.topic_picks,
        tables.weights,
        np.zeros(spec.vocabulary, dtype=np.int64),
        terms,
        weights,
    )
    return Piece(first, offsets, terms, weights)


@njit(cache=True)
def _mix(state):  # type: ignore[no-untyped-def]
    """splitmix64: small, fast, and the same on every machine."""
    z = uint64(state) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@njit(cache=True)
def _draw_pages(seed, offsets, background, topics, topic_picks, weight_table, stamp, terms, weights):  # type: ignore[no-untyped-def]
    counter = uint64(seed)
    boosted = np.zeros(len(stamp), dtype=np.float32)
    for page in range(len(offsets) - 1):
        counter += uint64(1)
        bits = _mix(counter)
        first_topic = topic_picks[bits & uint64(len(topic_picks) - 1)]
        other_topic = topic_picks[(bits >> uint64(20)) & uint64(len(topic_picks) - 1)]
        start, end = offsets[page], offsets[page + 1]
        at = start
        misses = 0
        while at < end:
            counter += uint64(1)
            bits = _mix(counter)
            # 1 bit: topic or background; 2 bits: which topic; the rest picks the term and the weight.
            topical = bits & uint64(1) == uint64(0) and misses < 4096
            if topical:
                topic = other_topic if bits & uint64(6) == uint64(0) else first_topic
                term = topics[topic, (bits >> uint64(3)) & uint64((1 << TOPIC_BITS) - 1)]
            else:
                term = background[(bits >> uint64(3)) & uint64((1 << BACKGROUND_BITS) - 1)]
            if stamp[term] == page + 1:
                misses += 1
                continue
            stamp[term] = page + 1
            weight = weight_table[(bits >> uint64(40)) & uint64((1 << WEIGHT_BITS) - 1)]
            boosted[term] = min(np.float32(2.0), weight * np.float32(1.6)) if topical else weight
            terms[at] = term
            at += 1
        terms[start:end].sort()
        for i in range(start, end):
            weights[i] = boosted[terms[i]]
