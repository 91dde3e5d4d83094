"""The index as its users see it: open, search, look pages up. Reads one commit; ``refresh`` moves on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vsplade.encode.query_length import check_query_length
from vsplade.errors import InputError, VspladeError
from vsplade.search.commit_view import Query
from vsplade.search.conditions import Conditions, conditions, encode, notes, query_words
from vsplade.search.explain import explain, explain_meaning
from vsplade.search.filters import Filter
from vsplade.search.hits import Answered, Hit, Hits
from vsplade.search.index_contents import FilterLike, IndexContents
from vsplade.search.query_plan import Ranking, checked_query
from vsplade.search.syntax import has_operators, parse
from vsplade.search.two_stage import TwoStage, recall
from vsplade.search.word_lookup import status
from vsplade.store.snapshot import Snapshot
from vsplade.types import (
    Encoder,
    MeaningEncoder,
    Metadata,
    QueryWord,
    SparseVector,
    TermMatch,
    WordMatch,
    shown,
)

if TYPE_CHECKING:
    from PIL import Image

_NO_CONDITIONS = Conditions()


class Index(IndexContents):
    """Many readers may have an index open while one writer changes it; each sees the commit it opened.

    Safe to use from several threads. ``engine``: "auto" (numpy first, compiled code when it pays), "numpy" or
    "numba".
    """

    def __init__(self, folder: str | Path, encoder: Encoder | None = None, *, engine: str = "auto") -> None:
        super().__init__(folder, encoder, engine=engine)
        self._nameless = False

    @classmethod
    def open(cls, folder: str | Path, encoder: Encoder | None = None, *, engine: str = "auto") -> Index:
        """Open the newest commit. Without ``encoder`` the one that the index names is loaded when needed."""
        return cls(folder, encoder, engine=engine)

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
        from vsplade.ingest.single import add_pages  # it loads the renderer, which no search needs

        if id is None:
            if not isinstance(source, str | os.PathLike):
                raise InputError("A picture or bytes need an id: index.add(picture, id=...).")
            id = Path(source).stem
        added = add_pages(self.folder, self.encoder, source, id, metadata)
        self.refresh()
        return added

    # -- search ---------------------------------------------------------------------------------------

    def search(
        self,
        query: Query,
        k: int = 10,
        filter: FilterLike = None,
        two_stage: TwoStage | None = None,
        min_score: float = 0.0,
        where: str | None = None,
        words_only: bool = False,
    ) -> list[Hit]:
        """The ``k`` best pages for words (or a ready vector). Exact, unless ``two_stage`` is given.

        ``"a phrase"`` and ``+word`` must stand on a page, ``-word`` must not, ``word*`` is a beginning; a
        vector takes these conditions from ``where``. A score is the float32 of the float64 sum, by
        increasing term, of query weight times page weight; equal scores are ordered as the pages were last
        added. Only pages that share a term and have at least ``min_score`` are results.
        """
        return list(
            self.search_batch(
                [query], k, filter, two_stage, min_score=min_score, where=where, words_only=words_only
            )[0]
        )

    def search_vector(
        self, vector: SparseVector, k: int = 10, filter: FilterLike = None, two_stage: TwoStage | None = None
    ) -> list[Hit]:
        return self.search(vector, k, filter, two_stage)

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

    def _meant_by(self, word: str, page: SparseVector) -> list[str]:
        """Nothing where the encoder that knows is not installed."""
        if self._nameless:
            return []
        try:
            return self.encoder.meant_by(word, page) if isinstance(self.encoder, MeaningEncoder) else []
        except VspladeError:
            return []

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
        return ranking.ids(self._view.snapshot)

    def two_stage_recall(
        self, queries: Sequence[Query], k: int = 10, two_stage: TwoStage | None = None
    ) -> float:
        """Mean share of the exact top k that two-stage search finds."""
        vectors = [self.encode_query(query) for query in queries]
        return recall(self.rank(vectors, k), self.rank(vectors, k, two_stage=two_stage or TwoStage()))

    def warm_up(self) -> None:
        """Compile the fast engine now (a server's start), instead of after the first few queries."""
        self._view.engine(0).warm_up()

    def encode_query(self, query: Query) -> SparseVector:
        """A query's weights, checked; words are looked up with the index's encoder."""
        if isinstance(query, str):
            check_query_length(query)
        if not isinstance(query, str):
            vector = query
        elif has_operators(query):
            vector = encode(parse(query), self.encoder, self)
        else:
            vector = self.encoder.encode_query(query, self)
            if isinstance(self.encoder, MeaningEncoder):
                vector = replace(vector, meaning=self.encoder.encode_meaning(query))
        return checked_query(vector, self.identity.terms)

    def _encode_words(self, query: Query) -> SparseVector:
        return replace(self.encode_query(query), meaning=None)

    def _conditions(self, query: Query) -> Conditions:
        if isinstance(query, str) and has_operators(query):
            return conditions(parse(query), self.encoder)
        return _NO_CONDITIONS

    def query_words(self, query: Query) -> list[QueryWord]:
        """What a query asks for: words, phrases and beginnings; nothing of a vector, or where the encoder
        knows only pieces of words.
        """
        return query_words(parse(query), self.encoder) if isinstance(query, str) else []

    def notes(self, query: str) -> list[str]:
        """What in a query was not understood as it may have been meant, one sentence or two each."""
        return notes(parse(query), self.encoder)

    def look_up(self, query: Query, filter: FilterLike = None) -> list[WordMatch]:
        """Each word of a query, and whether any page that passes ``filter`` holds it: as a whole (``found``),
        only pieces of it (``in part``), or nothing (``not found``).
        """
        view, masks = self._view, self._view.masks(Filter.of(filter))
        parts = list(zip((live.segment for live in view.snapshot.segments), masks, strict=True))
        return [WordMatch(word.typed, status(parts, word)) for word in self.query_words(query)]

    def explain(self, query: Query, id: str, words_only: bool = False) -> list[TermMatch]:
        """What each shared term would add to the page's score, whether or not it is among the best; at the
        end what the page's meaning would add, unless ``words_only``.
        """
        view = self._view
        vector = self._encode_words(query) if words_only else self.encode_query(query)
        page, words = self.vector(id), self.query_words(query)
        matches = explain(vector, page, self._token, words)
        if vector.meaning is None:
            return matches
        weight = view.answer([vector], self.encode_query, 1, Filter(), None, 1)[0][1].meaning
        return [*matches, *explain_meaning(vector, page, words, weight, self._meant_by)]

    def _token(self, term: int) -> str:
        """The term's name, or its number where the encoder that names it is not installed."""
        if self._nameless:
            return f"#{term}"
        try:
            return shown(self.encoder.vocabulary, term)
        except VspladeError:
            # It is looked for once, and not for every term of every hit.
            self._nameless = self._encoder is None
            return f"#{term}"
