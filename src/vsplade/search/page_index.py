"""What every index does with a query, wherever its pages are kept: weigh it, explain it, name its words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vsplade.encode import as_built, load_index_encoder
from vsplade.encode.query_length import check_query_length
from vsplade.errors import VspladeError
from vsplade.search.by_document import NameTerms, name_terms, no_terms
from vsplade.search.conditions import Conditions, conditions, encode, notes, query_words
from vsplade.search.contents import Contents
from vsplade.search.explain import explain, explain_document, explain_meaning
from vsplade.search.filters import Filter
from vsplade.search.hits import FoundPages, Hit, Hits, SearchContext
from vsplade.search.query_plan import WORDS_ALONE, Mix, Ranking, checked_query
from vsplade.search.syntax import has_operators, parse
from vsplade.store.damage import Damage
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.segment import StoredPage
from vsplade.types import (
    Encoder,
    EncodingVocabulary,
    MeaningEncoder,
    Metadata,
    QueryWord,
    SparseVector,
    TermMatch,
    WordMatch,
    shown,
)

FilterLike = Filter | Mapping[str, object] | str | Iterable[str] | None
Query = str | SparseVector

NO_CONDITIONS = Conditions()


class BatchRequest(NamedTuple):
    """What one call of ``search_batch`` asks for."""

    queries: Sequence[Query]
    conditions: Sequence[Conditions]
    """One for each query."""
    encode: Callable[[Query], SparseVector]
    k: int
    filter: Filter
    threads: int


class PageIndex(ABC):
    """Pages, and what is found among them. ``Index`` keeps them in a folder of its own."""

    where: Path | str
    """The folder or the address, as errors name it."""

    def __init__(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        self._nameless = False

    @property
    def places(self) -> Sequence[Path | str]:
        """Several where several indexes are read as one."""
        return (self.where,)

    # -- what it is -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def pages(self) -> int:
        """How many can be found."""

    @property
    def damage(self) -> Damage | None:
        """What no search finds, because a part of the index is damaged; None for a whole index."""
        return None

    @property
    @abstractmethod
    def generation(self) -> int:
        """Number of the commit that is being read."""

    @property
    @abstractmethod
    def commit(self) -> object:
        """The commit that is being read; another object after every ``refresh`` that found a new one."""

    @property
    @abstractmethod
    def identity(self) -> EncoderIdentity:
        """Name, fingerprint and vocabulary size of the encoder that made this index."""

    @abstractmethod
    def refresh(self) -> bool:
        """Move to the newest commit; says whether there was one."""

    @abstractmethod
    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Number of live pages that have each term; 0 for terms beyond the vocabulary."""

    @abstractmethod
    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        """What a job kept with ``PageWriter.set_state``, as of this commit."""

    @abstractmethod
    def statistics(self) -> dict[str, int | float]:
        """Sizes, for people and reports."""

    def __len__(self) -> int:
        return self.pages

    def close(self) -> None:
        """Give back what is held open; of a folder there is nothing."""
        return None

    @property
    def encoder(self) -> Encoder:
        """The encoder given to ``open``, or the one that the index names (loaded once)."""
        if self._encoder is None:
            encoder = load_index_encoder(self.identity.name, self.where)
            encoder = as_built(encoder, self.identity.fingerprint)
            check_encoder(self.where, self.identity, EncoderIdentity.of(encoder))
            self._encoder = encoder
        return self._encoder

    # -- pages ----------------------------------------------------------------------------------------

    @abstractmethod
    def ids(self, filter: FilterLike = None) -> Iterator[str]:
        """Ids of the live pages that pass ``filter``, in page order."""

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def metadata(self, id: str) -> Metadata: ...

    @abstractmethod
    def metadata_keys(self) -> list[str]:
        """What pages can be filtered by, in alphabetical order."""

    @abstractmethod
    def vector(self, id: str) -> SparseVector: ...

    @abstractmethod
    def thumbnail(self, id: str) -> bytes | None: ...

    @abstractmethod
    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        """Every live page's id, vector and metadata, in page order."""

    @abstractmethod
    def stored_pages(self) -> Iterator[StoredPage]:
        """All that is kept of every live page, in page order."""

    @abstractmethod
    def known(self, ids: Sequence[str]) -> dict[str, Metadata]:
        """The metadata of those of these pages that are there."""

    @abstractmethod
    def contents(self, keys: Iterable[str]) -> Contents:
        """The documents, and the values of these metadata keys. An engine looks at some pages only."""

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        """Every live page's id and vector, in page order."""
        return ((id, vector) for id, vector, _ in self.pages_with_metadata())

    # -- search ---------------------------------------------------------------------------------------

    def search_batch(
        self,
        queries: Sequence[Query],
        k: int = 10,
        filter: FilterLike = None,
        threads: int = 1,
        min_score: float = 0.0,
        where: str | None = None,
        words_only: bool = False,
    ) -> list[Hits]:
        """``search`` for each query, on several threads (the compiled engine runs without the GIL).

        Each result reads as a list of hits, which are made when first looked at.
        """
        encode = self._encode_words if words_only else self.encode_query
        wanted = [self._conditions(query if where is None else where) for query in queries]
        request = BatchRequest(queries, wanted, encode, k, Filter.of(filter), threads)
        answers = []
        for query, (pages, vector, ranking) in zip(queries, self._find(request), strict=True):
            kept = ranking.at_least(min_score) if min_score else ranking
            answers.append(Hits(self._answered(pages, query, vector, kept), kept))
        return answers

    @abstractmethod
    def _find(self, request: BatchRequest) -> list[tuple[FoundPages, SparseVector, Ranking]]:
        """For each query: where its pages are, its vector, and which pages are best."""

    @abstractmethod
    def look_up(self, query: Query, filter: FilterLike = None) -> list[WordMatch]:
        """Each word of a query, and whether any page that passes ``filter`` holds it: as a whole (``found``),
        only pieces of it (``in part``), or nothing (``not found``).
        """

    @abstractmethod
    def warm_up(self) -> None:
        """Make ready what the first queries need."""

    def search(
        self,
        query: Query,
        k: int = 10,
        filter: FilterLike = None,
        min_score: float = 0.0,
        where: str | None = None,
        words_only: bool = False,
    ) -> list[Hit]:
        """The ``k`` best pages for words (or a ready vector), exactly.

        ``"a phrase"`` and ``+word`` must stand on a page, ``-word`` must not, ``word*`` is a beginning; a
        vector takes these conditions from ``where``. A score by words is the float32 of the float64 sum, by
        increasing term, of query weight times page weight; a hashed term counts where its check agrees. What
        meaning makes of it is said in ``by_meaning``. Equal
        scores are ordered as the pages were last added. Only pages that share a term and have at least
        ``min_score`` are results.
        """
        return list(
            self.search_batch([query], k, filter, min_score=min_score, where=where, words_only=words_only)[0]
        )

    def search_vector(self, vector: SparseVector, k: int = 10, filter: FilterLike = None) -> list[Hit]:
        return self.search(vector, k, filter)

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
            # By its name: to ask whether the encoder follows a protocol takes as long as a search.
            if (meaning := getattr(self.encoder, "encode_meaning", None)) is not None:
                vector = replace(vector, meaning=meaning(query))
        return checked_query(vector, self.identity.terms)

    def _encode_words(self, query: Query) -> SparseVector:
        vector = self.encode_query(query)
        return replace(vector, meaning=None)

    def _conditions(self, query: Query) -> Conditions:
        if isinstance(query, str) and has_operators(query):
            return conditions(parse(query), self.encoder)
        return NO_CONDITIONS

    def query_words(self, query: Query) -> list[QueryWord]:
        """What a query asks for: words, phrases and beginnings; nothing of a vector, or where the encoder
        knows only pieces of words.
        """
        return query_words(parse(query), self.encoder) if isinstance(query, str) else []

    def notes(self, query: str) -> list[str]:
        """What in a query was not understood as it may have been meant, one sentence or two each."""
        return notes(parse(query), self.encoder)

    def explain(
        self, query: Query, id: str, words_only: bool = False, filter: FilterLike = None
    ) -> list[TermMatch]:
        """What each shared term would add to the page's score, whether or not it is among the best; at the
        end what its meaning and its document would add, unless ``words_only``. How these count depends on the
        best pages that pass ``filter``.
        """
        vector = self._encode_words(query) if words_only else self.encode_query(query)
        page, words = self.vector(id), self.query_words(query)
        mix = self._mix(vector, Filter.of(filter), self._conditions(query))
        matches = explain(mix.query(vector), page, self._token, words)
        matches += explain_meaning(vector, page, words, mix.cosine_weight, self._meant_by)
        return [*matches, *explain_document(matches, self.metadata(id), mix.support)]

    @cached_property
    def name_terms(self) -> NameTerms:
        """Of the names of documents; none where the encoder is not installed, or cannot tell."""
        try:
            vocabulary = self.encoder.vocabulary
        except VspladeError:
            return no_terms
        return name_terms(vocabulary.encode) if isinstance(vocabulary, EncodingVocabulary) else no_terms

    def _mix(self, query: SparseVector, filter: Filter, conditions: Conditions) -> Mix:
        """How words and meaning count in the scores of this query, among these pages."""
        return WORDS_ALONE

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

    def _answered(
        self, pages: FoundPages, query: Query, vector: SparseVector, ranking: Ranking
    ) -> SearchContext:
        words = cache(partial(self.query_words, query))  # every hit that is looked at asks for them
        mix = ranking.mix
        how = (mix.cosine_weight, self._meant_by, mix.support)
        return SearchContext(pages, mix.query(vector), self._token, words, *how)

    def _meant_by(self, asked: Sequence[str], page: SparseVector) -> list[list[str]]:
        """Nothing where the encoder that knows is not installed."""
        if self._nameless:
            return []
        try:
            return self.encoder.meant_by(asked, page) if isinstance(self.encoder, MeaningEncoder) else []
        except VspladeError:
            return []
