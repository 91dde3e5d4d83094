"""One commit, ready to be searched: its engines and filter masks, and queries through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vsplade.search.adaptive_engine import AdaptiveEngine, WorkBudget
from vsplade.search.by_document import BEST, Documents, NameTerms, no_terms
from vsplade.search.by_meaning import DEPTH, MeaningEngine
from vsplade.search.conditions import Conditions
from vsplade.search.filters import Filter
from vsplade.search.hashed_search import search_hashed
from vsplade.search.native.work_queue import WorkQueue
from vsplade.search.numpy_engine import NumpyEngine
from vsplade.search.page_index import Query
from vsplade.search.query_plan import NOTHING, Masks, MeaningPart, Ranking, Searchable, checked_top
from vsplade.store.snapshot import Snapshot
from vsplade.types import SparseVector

AnyQuery = TypeVar("AnyQuery", SparseVector, Query)

_QUERIES_AT_ONCE, _RESULTS_AT_ONCE = 25, 3000
"""What one call of the engine is asked for, at most. Queries of one call share what they read of a segment:
more at once are faster still on one thread, but leave several threads waiting for each other at the end."""
MASKS = 16
"""Filters whose pages are kept."""


class CommitView:
    """A snapshot with the engines and filter masks made for it."""

    def __init__(self, snapshot: Snapshot, choice: str, budget: WorkBudget) -> None:
        self.snapshot = snapshot
        self._choice = choice
        self._budget = budget
        self._kept_masks: dict[Filter, Masks] = {}
        self.read_whole = False
        """Every byte of it was verified, after damage had shown."""

    @cached_property
    def meaning(self) -> MeaningEngine:
        return MeaningEngine(
            [MeaningPart(live.segment, live.segment.windows, live.base) for live in self.snapshot.segments]
        )

    @cached_property
    def engine(self) -> AdaptiveEngine:
        parts = [Searchable(live.segment, live.segment.full, live.base) for live in self.snapshot.segments]
        return AdaptiveEngine(parts, self._choice, self._budget)

    @cached_property
    def documents(self) -> Documents:
        return Documents.in_segments(live.segment for live in self.snapshot.segments)

    def masks(self, filter: Filter) -> Masks:
        """Kept for the filters that come again. Not by ``lru_cache``: that would hold this view and be held
        by it, so the commit's memory would stay until Python's collector comes by."""
        found = self._kept_masks.get(filter)
        if found is None:
            if len(self._kept_masks) >= MASKS:
                self._kept_masks.clear()
            found = self._kept_masks[filter] = self._masks(filter)
        return found

    def _masks(self, filter: Filter) -> Masks:
        masks: list[NDArray[np.bool_] | None] = []
        for live in self.snapshot.segments:
            allowed = filter.mask(live.segment) if filter else None
            if allowed is not None and live.live is not None:
                allowed = allowed & live.live
            masks.append(live.live if allowed is None else allowed)
        return masks

    def _allowed(self, conditions: Conditions) -> list[NDArray[np.bool_]]:
        return [conditions.mask(live.segment) for live in self.snapshot.segments]

    def answer(
        self,
        queries: Sequence[AnyQuery],
        encode: Callable[[AnyQuery], SparseVector],
        k: int,
        filter: Filter,
        threads: int,
        conditions: Conditions | None = None,
        name_terms: Callable[[], NameTerms] = lambda: no_terms,
    ) -> list[tuple[SparseVector, Ranking]]:
        """Each query's vector and ranking; a query is encoded while other threads search. The names of
        documents are read only where some have several pages."""
        k = checked_top(k)
        if not queries:
            return []
        masks = self.masks(filter)
        if conditions:
            masks = [
                allowed if mask is None else mask & allowed
                for mask, allowed in zip(masks, self._allowed(conditions), strict=True)
            ]
        first = encode(queries[0])
        chosen = self.engine.prepare(first, len(queries))
        shares = WorkQueue(len(queries), threads, most=max(1, min(_QUERIES_AT_ONCE, _RESULTS_AT_ONCE // k)))
        answers: list[tuple[SparseVector, Ranking]] = [(first, NOTHING)] * len(queries)
        compiled = not isinstance(chosen, NumpyEngine)
        by_meaning = first.meaning is not None and bool(self.meaning)
        depth = max(k, DEPTH) if by_meaning else k
        documents = (self.documents, name_terms()) if by_meaning and self.documents else ()
        more = max(BEST - depth, 0) if documents else 0

        def work(share: range) -> None:
            vectors = [first if place == 0 else encode(queries[place]) for place in share]
            rankings = search_hashed(chosen, vectors, depth, masks, more)
            if by_meaning:
                rankings = [
                    self.meaning.join(vector, ranking, masks, k, compiled, *documents)
                    for vector, ranking in zip(vectors, rankings, strict=True)
                ]
            answers[share.start : share.stop] = zip(vectors, rankings, strict=True)

        shares.work_off(work)
        return answers
