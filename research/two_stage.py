"""Two-stage search, the paper's: a pruned index proposes pages, full vectors rescore them.

Not exact: a page whose kept terms miss the query is never proposed. ``recall`` says how often. It hardly pays
(docs/benchmarks.md), so the package searches exactly; this is for the paper's tables.

Page weights alone choose badly where they are nearly flat and the query weights say what matters: common
words then take the places. So a term's page weight counts times what its encoder says it is worth. The places
are shared out by the square root of the pages' numbers of terms: dense pages need more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.modernvbert.encoder import ModernVBertEncoder
from vsplade.encode.reader.bigrams import PAIRS
from vsplade.encode.reader.reader_queries import ReaderQueries
from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError
from vsplade.search.adaptive_engine import AdaptiveEngine, WorkBudget
from vsplade.search.index import Index
from vsplade.search.native.work_queue import WorkQueue
from vsplade.search.query_plan import NOTHING, Ranking, Searchable
from vsplade.store.array_file import Array
from vsplade.store.postings import Inverted, invert
from vsplade.types import Encoder, SparseVector

AT_ONCE = 25
"""Queries of one call of the engine."""
DAMPING = 0.1
"""0 keeps words that no query asks for; 1 keeps the rarest pieces and misreadings, which hardly any query
asks for either, and finds less on scans than 0 does (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class TwoStage:
    terms: int = 50
    """Terms of a page that the first stage keeps, on average."""
    pages: int = 0
    """Pages that the first stage proposes; 0: ten times k, at least 100."""
    plain: bool = False
    """The heaviest terms of every page, as many of each, as in the paper."""

    def __post_init__(self) -> None:
        if self.terms < 1 or self.pages < 0:
            raise InputError(
                f"two-stage search with {self.terms} terms and {self.pages} pages is not possible."
            )

    def proposed(self, k: int) -> int:
        return max(self.pages or max(10 * k, 100), k)


class TwoStageIndex:
    """An index as it is now, searched in two stages; ``values`` are what terms are worth (``term_values``).

    The pruned structures are made here, in memory.
    """

    def __init__(
        self, index: Index, stages: TwoStage | None = None, values: NDArray[np.float32] | None = None
    ) -> None:
        self._index, self._stages = index, stages or TwoStage()
        parts = [
            Searchable(
                live.segment,
                first_stage(
                    live.segment.starts, live.segment.terms, live.segment.weights, live.segment.vocabulary,
                    self._stages.terms, values, self._stages.plain,
                ),
                live.base,
            )
            for live in index.commit.segments
        ]  # fmt: skip
        self._masks = [live.live for live in index.commit.segments]
        self._engine = AdaptiveEngine(parts, index._choice, WorkBudget())

    def rank(
        self, vectors: Sequence[SparseVector], k: int = 10, threads: int = 1, proposed: int = 0
    ) -> list[Ranking]:
        """As ``Index.rank``: bare page numbers and scores. ``proposed``: pages of the first stage; 0: as the
        stages have it.
        """
        found = [NOTHING] * len(vectors)
        if not vectors:
            return found
        engine, most = self._engine.prepare(vectors[0], len(vectors)), proposed or self._stages.proposed(k)

        def work(share: range) -> None:
            asked = vectors[share.start : share.stop]
            found[share.start : share.stop] = engine.search(asked, k, self._masks, most)

        WorkQueue(len(vectors), threads, AT_ONCE).work_off(work)
        return found

    def recall(self, vectors: Sequence[SparseVector], k: int = 10) -> float:
        """Mean share of the exact top k that two-stage search finds, by words alone."""
        words = [SparseVector(vector.terms, vector.weights) for vector in vectors]
        return recall(self._index.rank(words, k), self.rank(words, k))


def recall(exact: Sequence[Ranking], two_stage: Sequence[Ranking]) -> float:
    """Mean share of the exact results that two-stage search also finds; queries without results left out."""
    shares = []
    for right, found in zip(exact, two_stage, strict=True):
        wanted = set(right.numbers.tolist())
        if wanted:
            shares.append(len(wanted & set(found.numbers.tolist())) / len(wanted))
    return sum(shares) / len(shares) if shares else 1.0


def term_values(encoder: Encoder) -> NDArray[np.float32] | None:
    """For each term: a page keeps those with the largest weight times this. None where the encoder has no
    table of query weights.

    A little more for terms that weigh more in queries; factors that page weights hold are undone.
    """
    if isinstance(encoder, PairedEncoder):  # plain search asks for no text
        first = term_values(encoder.first)
        kept = np.ones(len(encoder.first.vocabulary)) if first is None else first
        return np.concatenate([kept, np.zeros(len(encoder.text.vocabulary))]).astype(np.float32)
    if isinstance(encoder, ReaderQueries):
        pairs = encoder._config["pairs"]
        factors = np.concatenate([encoder._certainty, np.full(PAIRS, pairs["share"], np.float32)])
        asked = np.concatenate([encoder._importance, np.full(PAIRS, pairs["weight"], np.float32)])
        return _damped(asked) / factors
    return _damped(encoder.query_weights) if isinstance(encoder, ModernVBertEncoder) else None


def _damped(query_weights: NDArray[np.float32]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = query_weights ** np.float32(DAMPING)
    return values


def first_stage(
    starts: NDArray[np.uint64],
    terms: Array,
    weights: NDArray[np.float32],
    vocabulary: int,
    average: int,
    values: NDArray[np.float32] | None,
    plain: bool = False,
) -> Inverted:
    """Invert only the terms of each page that count most (ties go to the smaller term). ``plain``: by page
    weight alone, ``average`` of every page.
    """
    lengths = np.diff(starts).astype(np.int64)
    keep = np.minimum(average, lengths) if plain else places(lengths, average)
    counted = weights if plain or values is None else weights * values[terms]
    kept = largest(lengths, counted, keep)
    kept_starts = np.concatenate(([0], np.cumsum(keep))).astype(np.uint64)
    return invert(kept_starts, terms[kept], weights[kept], vocabulary)


def places(lengths: NDArray[np.int64], average: int) -> NDArray[np.int64]:
    """How many terms each page keeps: at least one, at most all."""
    roots = np.sqrt(lengths)
    shares = np.rint(average * roots / max(float(roots.mean()), 1e-9)).astype(np.int64)
    return np.minimum(np.maximum(shares, 1), lengths)


def largest(
    lengths: NDArray[np.int64], values: NDArray[np.float32], keep: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which postings are among the ``keep`` largest of their page; of equal ones at the limit, the first.

    One plain sort of (page, value) gives each page's limit: floats from 0 on sort as their bits do.
    """
    pages = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    ends = np.cumsum(lengths)
    keys = np.sort(pages << np.uint64(32) | values.view(np.uint32))
    long_enough = lengths > keep
    limits = np.zeros(len(lengths), dtype=np.uint64)
    limits[long_enough] = keys[(ends - keep)[long_enough]] & np.uint64(0xFFFFFFFF)
    limit = np.repeat(limits.astype(np.uint32).view(np.float32), lengths)
    above, level = values > limit, values == limit
    counted = np.concatenate(([0], np.cumsum(level)))
    room = keep - np.add.reduceat(np.append(above, False), ends - lengths, dtype=np.int64) * (lengths > 0)
    place_among_equal = counted[1:] - np.repeat(counted[ends - lengths], lengths)
    kept: NDArray[np.bool_] = above | (level & (place_among_equal <= np.repeat(room, lengths)))
    return kept
