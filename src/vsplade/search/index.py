"""The index as its users see it: open, search, look pages up. Reads one commit; ``refresh`` moves on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.search.adaptive_engine import AdaptiveEngine, WorkBudget, checked_engine
from vsplade.search.by_meaning import DEPTH, MeaningEngine, Part
from vsplade.search.conditions import Conditions
from vsplade.search.filters import Filter
from vsplade.search.hits import Answered, Hits
from vsplade.search.native.work_queue import Shares
from vsplade.search.numpy_engine import PlainEngine
from vsplade.search.page_index import FilterLike, PageIndex, Query
from vsplade.search.query_plan import NOTHING, Masks, Ranking, Searchable, checked_top
from vsplade.search.two_stage import TwoStage, recall
from vsplade.search.word_lookup import status
from vsplade.store import verify
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.snapshot import Snapshot
from vsplade.types import Encoder, Metadata, SparseVector, WordMatch

if TYPE_CHECKING:
    from PIL import Image

AnyQuery = TypeVar("AnyQuery", SparseVector, Query)

_QUERIES_AT_ONCE, _RESULTS_AT_ONCE = 25, 3000
"""What one call of the engine is asked for, at most. Queries of one call share what they read of a segment:
more at once are faster still on one thread, but leave several threads waiting for each other at the end."""


class Index(PageIndex):
    """Many readers may have an index open while one writer changes it; each sees the commit it opened.

    Safe to use from several threads. ``engine``: "auto" (numpy first, compiled code when it pays), "numpy" or
    "numba".
    """

    def __init__(self, folder: str | Path, encoder: Encoder | None = None, *, engine: str = "auto") -> None:
        super().__init__(encoder)
        self.folder = self.where = Path(folder)
        self._choice = checked_engine(engine)
        self._budget = WorkBudget()
        self._use(Snapshot.load(self.folder))

    @classmethod
    def open(cls, folder: str | Path, encoder: Encoder | None = None, *, engine: str = "auto") -> Index:
        """Open the newest commit. Without ``encoder`` the one that the index names is loaded when needed."""
        return cls(folder, encoder, engine=engine)

    def _use(self, snapshot: Snapshot) -> None:
        if self._encoder is not None:
            check_encoder(
                self.folder, EncoderIdentity.named_by(snapshot.manifest), EncoderIdentity.of(self._encoder)
            )
        self._view = _View(snapshot, self._choice, self._budget)

    def refresh(self) -> bool:
        """Move to the newest commit; says whether there was one."""
        snapshot = Snapshot.load(self.folder, self._view.snapshot)
        changed = snapshot.manifest != self._view.snapshot.manifest
        if changed:
            self._use(snapshot)
        return changed

    # -- what the index is ----------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        return self._view.snapshot.pages

    @property
    def generation(self) -> int:
        """Number of the commit that is being read."""
        return self._view.snapshot.manifest.generation

    @property
    def commit(self) -> Snapshot:
        """The commit that is being read; another object after every ``refresh`` that found a new one."""
        return self._view.snapshot

    @property
    def identity(self) -> EncoderIdentity:
        """Name, fingerprint, vocabulary size and query weights of the encoder that made this index."""
        manifest, table = self._view.snapshot.manifest, self._view.snapshot.term_values
        return EncoderIdentity(manifest.encoder, manifest.fingerprint, manifest.vocabulary, table)

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Number of live pages that have each term; 0 for terms beyond the vocabulary."""
        frequencies = self._view.snapshot.frequencies
        known = np.asarray(terms, dtype=np.int64)
        inside = known < len(frequencies)
        return np.where(inside, frequencies[np.where(inside, known, 0)], 0)

    def statistics(self) -> dict[str, int | float]:
        """Sizes, for people and reports: pages, postings, bytes on disk and bytes a posting to search."""
        return verify.statistics(self._view.snapshot)

    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        """What a job kept with ``IndexWriter.set_state``, as of this commit."""
        stored = self._view.snapshot.state.read()
        return {key: value for key, value in stored.items() if key.startswith(prefix)}

    def check(self) -> list[str]:
        """Read every byte and verify it; the problems found, none for a sound index."""
        return verify.check(self.folder)

    # -- pages ----------------------------------------------------------------------------------------

    def ids(self, filter: FilterLike = None) -> Iterator[str]:
        """Ids of the live pages that pass ``filter``, in page order."""
        view = self._view
        for live, mask in zip(view.snapshot.segments, view.masks(Filter.of(filter)), strict=True):
            pages = range(live.segment.pages) if mask is None else np.flatnonzero(mask).tolist()
            for page in pages:
                yield live.segment.id(page)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(self._view.snapshot.find([id]))

    def _number(self, id: str) -> int:
        found = self._view.snapshot.find([id])
        if id not in found:
            raise InputError(f"{self.folder}: there is no page {id!r} in this index.")
        return found[id]

    def metadata(self, id: str) -> Metadata:
        return self._view.snapshot.metadata(self._number(id))

    def metadata_keys(self) -> list[str]:
        """What pages can be filtered by, in alphabetical order."""
        segments = (live.segment for live in self._view.snapshot.segments)
        return sorted({key for segment in segments for key in segment.column_keys})

    def vector(self, id: str) -> SparseVector:
        return self._view.snapshot.vector(self._number(id))

    def thumbnail(self, id: str) -> bytes | None:
        segment, page = self._view.snapshot.locate(self._number(id))
        return segment.thumbnail(page) or None

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        """Every live page's id and vector, in page order."""
        return (
            (segment.id(page), segment.vector(page)) for segment, page in self._view.snapshot.live_pages()
        )

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        """Every live page's id, vector and metadata, in page order."""
        for segment, page in self._view.snapshot.live_pages():
            yield segment.id(page), segment.vector(page), segment.metadata(page)

    def add(
        self,
        source: Image.Image | bytes | str | os.PathLike[str],
        id: str | None = None,
        metadata: Metadata | None = None,
    ) -> list[str]:
        """Add a picture, the bytes of a PDF or picture, or a file, in one commit; returns its pages' ids.

        A page of the same id is replaced. A path needs no ``id``: its stem is one. For many files
        ``index_paths`` is quicker, skips what has not changed, and follows changes.
        """
        from vsplade.ingest.single import add_pages

        if id is None:
            if not isinstance(source, str | os.PathLike):
                raise InputError("A picture or bytes need an id: index.add(picture, id=...).")
            id = Path(source).stem
        added = add_pages(self.folder, self.encoder, source, id, metadata)
        self.refresh()
        return added

    # -- search ---------------------------------------------------------------------------------------

    def search_batch(
        self,
        queries: Sequence[Query],
        k: int = 10,
        filter: FilterLike = None,
        two_stage: TwoStage | None = None,
        threads: int = 1,
        min_score: float = 0.0,
        where: str | None = None,
        words_only: bool = False,
    ) -> list[Hits]:
        """``search`` for each query, on several threads (the compiled engine runs without the GIL).

        Each result reads as a list of hits, which are made when first looked at.
        """
        view, chosen = self._view, Filter.of(filter)
        encode = self._encode_words if words_only else self.encode_query
        wanted = [self._conditions(query if where is None else where) for query in queries]
        plain = [query for query, conditions in zip(queries, wanted, strict=True) if not conditions]
        together = iter(view.answer(plain, encode, k, chosen, two_stage, threads))
        answers = [
            view.answer([query], encode, k, chosen, two_stage, threads, conditions)[0]
            if conditions
            else next(together)
            for query, conditions in zip(queries, wanted, strict=True)
        ]
        if min_score > 0:
            answers = [(vector, ranking.at_least(min_score)) for vector, ranking in answers]
        return [
            Hits(self._answered(view.snapshot, query, vector, ranking), ranking)
            for query, (vector, ranking) in zip(queries, answers, strict=True)
        ]

    def _answered(self, snapshot: Snapshot, query: Query, vector: SparseVector, ranking: Ranking) -> Answered:
        words = partial(self.query_words, query)
        return Answered(snapshot, vector, self._token, words, ranking.meaning, self._meant_by)

    def rank(
        self,
        vectors: Sequence[SparseVector],
        k: int = 10,
        filter: FilterLike = None,
        two_stage: TwoStage | None = None,
        threads: int = 1,
    ) -> list[Ranking]:
        """Bare page numbers and scores, for those who need no more; ``page_ids`` names the pages."""
        answers = self._view.answer(vectors, self.encode_query, k, Filter.of(filter), two_stage, threads)
        return [ranking for _, ranking in answers]

    def page_ids(self, ranking: Ranking) -> list[str]:
        """Ids of a ranking made since the last ``refresh``."""
        return self._view.snapshot.ids(ranking)

    def two_stage_recall(
        self, queries: Sequence[Query], k: int = 10, two_stage: TwoStage | None = None
    ) -> float:
        """Mean share of the exact top k that two-stage search finds."""
        vectors = [self.encode_query(query) for query in queries]
        return recall(self.rank(vectors, k), self.rank(vectors, k, two_stage=two_stage or TwoStage()))

    def warm_up(self) -> None:
        """Compile the fast engine now (a server's start), instead of after the first few queries."""
        self._view.engine(0).warm_up()

    def look_up(self, query: Query, filter: FilterLike = None) -> list[WordMatch]:
        """Each word of a query, and whether any page that passes ``filter`` holds it: as a whole (``found``),
        only pieces of it (``in part``), or nothing (``not found``).
        """
        view, masks = self._view, self._view.masks(Filter.of(filter))
        parts = list(zip((live.segment for live in view.snapshot.segments), masks, strict=True))
        return [WordMatch(word.typed, status(parts, word)) for word in self.query_words(query)]


class _View:
    """A snapshot with the engines and filter masks made for it."""

    def __init__(self, snapshot: Snapshot, choice: str, budget: WorkBudget) -> None:
        self.snapshot = snapshot
        self._choice = choice
        self._budget = budget
        self.masks = lru_cache(maxsize=16)(self._masks)
        self.engine = lru_cache(maxsize=4)(self._engine)

    @cached_property
    def meaning(self) -> MeaningEngine:
        return MeaningEngine(
            [Part(live.segment, live.segment.windows, live.base) for live in self.snapshot.segments]
        )

    def _engine(self, first_stage_terms: int) -> AdaptiveEngine:
        parts = [
            Searchable(
                live.segment,
                live.segment.first_stage(first_stage_terms, self.snapshot.term_values)
                if first_stage_terms
                else live.segment.full,
                live.base,
            )
            for live in self.snapshot.segments
        ]
        return AdaptiveEngine(parts, self._choice, self._budget)

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
        two_stage: TwoStage | None,
        threads: int,
        conditions: Conditions | None = None,
    ) -> list[tuple[SparseVector, Ranking]]:
        """Each query's vector and ranking; a query is encoded while other threads search."""
        k = checked_top(k)
        if not queries:
            return []
        masks = self.masks(filter)
        if conditions:
            masks = [
                allowed if mask is None else mask & allowed
                for mask, allowed in zip(masks, self._allowed(conditions), strict=True)
            ]
        proposed = two_stage.proposed(k) if two_stage else 0
        first = encode(queries[0])
        engine = self.engine(two_stage.terms if two_stage else 0).prepare(first, len(queries))
        shares = Shares(len(queries), threads, most=max(1, min(_QUERIES_AT_ONCE, _RESULTS_AT_ONCE // k)))
        answers: list[tuple[SparseVector, Ranking]] = [(first, NOTHING)] * len(queries)
        compiled = not isinstance(engine, PlainEngine)
        by_meaning = first.meaning is not None and two_stage is None and bool(self.meaning)

        def work(share: range) -> None:
            vectors = [first if place == 0 else encode(queries[place]) for place in share]
            rankings = engine.search(vectors, max(k, DEPTH) if by_meaning else k, masks, proposed)
            if by_meaning:
                rankings = [
                    self.meaning.join(vector, ranking, masks, k, compiled)
                    for vector, ranking in zip(vectors, rankings, strict=True)
                ]
            answers[share.start : share.stop] = zip(vectors, rankings, strict=True)

        shares.work_off(work)
        return answers
