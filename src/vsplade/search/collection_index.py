"""An index on an outside engine, as its users see it: what ``Index`` is for a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.backends.address import parse_address
from vsplade.backends.collection import FoundRow, Prefilter, Row, batched, key_of
from vsplade.backends.collection_writer import STATE, read_manifest, stored_page
from vsplade.backends.connect import connect
from vsplade.encode import as_built
from vsplade.errors import InputError
from vsplade.search.by_document import BEST
from vsplade.search.by_meaning import DEPTH
from vsplade.search.collection_search import AllowedPages, by_words, with_meaning
from vsplade.search.conditions import Conditions
from vsplade.search.contents import Contents, contents_of_pages
from vsplade.search.filters import Filter
from vsplade.search.hits import FoundPages
from vsplade.search.page_index import BatchRequest, FilterLike, PageIndex, Query
from vsplade.search.query_plan import WORDS_ALONE, Mix, Ranking, checked_top
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.segment import StoredPage
from vsplade.types import FOUND, IN_PART, NOT_FOUND, Encoder, Metadata, QueryWord, SparseVector, WordMatch

LISTED_PAGES = 100_000
READ_AT_ONCE = 200
"""Pages whose vectors are read in one request."""


class CollectionPages:
    """The pages of one answer, by their place in it; vectors are read when first asked for, all at once."""

    def __init__(self, index: CollectionIndex, pages: Sequence[FoundRow]) -> None:
        self._index, self._pages = index, pages
        self._rows: dict[str, Row] | None = None

    def ids(self, numbers: NDArray[np.int64]) -> list[str]:
        return [self._pages[number].id for number in numbers.tolist()]

    def metadata(self, number: int) -> Metadata:
        return self._pages[number].metadata

    def vector(self, number: int) -> SparseVector:
        if self._rows is None:
            self._rows = self._index.rows([page.key for page in self._pages])
        page = self._pages[number]
        if page.key not in self._rows:
            raise InputError(f"{self._index.where}: the page {page.id!r} was removed meanwhile.")
        return self._rows[page.key].vector


class CollectionIndex(PageIndex):
    """Reads what is there at the moment: an engine shows pages as they are written. ``generation`` is that
    of the last ``refresh``.
    """

    def __init__(self, address: str, encoder: Encoder | None = None) -> None:
        super().__init__(encoder)
        self._collection = connect(parse_address(address))
        self.where = self._collection.where
        try:
            self._use(read_manifest(self._collection))
        except BaseException:
            self._collection.close()
            raise

    def _use(self, manifest: dict[str, Any]) -> None:
        if self._encoder is not None:
            stored = EncoderIdentity.from_json(manifest)
            self._encoder = as_built(self._encoder, stored.fingerprint)
            check_encoder(self.where, stored, EncoderIdentity.of(self._encoder))
        self._manifest = manifest
        self._count = lru_cache(maxsize=1 << 16)(self._collection.count)

    def close(self) -> None:
        self._collection.close()

    # -- what it is -----------------------------------------------------------------------------------

    @property
    def serves_processes(self) -> bool:
        """Whether several processes may have it open at once."""
        return self._collection.serves_processes

    @property
    def pages(self) -> int:
        return self._count(Prefilter())

    @property
    def generation(self) -> int:
        return int(self._manifest["generation"])

    @property
    def commit(self) -> object:
        return self._manifest

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity.from_json(self._manifest)

    def refresh(self) -> bool:
        newest = read_manifest(self._collection)
        changed = newest != self._manifest
        if changed:
            self._use(newest)
        return changed

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        counts = [self._count(Prefilter(holding=(((term,),),))) for term in np.asarray(terms).tolist()]
        return np.array(counts, dtype=np.int64)

    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        stored = self._collection.records(STATE + prefix)
        return {name.removeprefix(STATE): value for name, value in stored.items()}

    def statistics(self) -> dict[str, int | float]:
        return {"pages": self.pages}

    # -- pages ----------------------------------------------------------------------------------------

    def rows(self, keys: Sequence[str], thumbnails: bool = False) -> dict[str, Row]:
        return self._collection.fetch(keys, thumbnails)

    def _row(self, id: str, thumbnails: bool = False) -> Row:
        key = key_of(id)
        rows = self.rows([key], thumbnails)
        if key not in rows:
            raise InputError(f"{self.where}: there is no page {id!r} in this index.")
        return rows[key]

    def _in_order(self, filter: Filter) -> list[FoundRow]:
        pages = self._collection.briefs(Prefilter(filter.conditions))
        return sorted((page for page in pages if filter.allows(page.metadata)), key=lambda page: page.place)

    def ids(self, filter: FilterLike = None) -> Iterator[str]:
        return (page.id for page in self._in_order(Filter.of(filter)))

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self._collection.count(Prefilter(among=(key_of(id),))) > 0

    def metadata(self, id: str) -> Metadata:
        for page in self._collection.briefs(Prefilter(among=(key_of(id),))):
            return page.metadata
        raise InputError(f"{self.where}: there is no page {id!r} in this index.")

    def contents(self, keys: Iterable[str]) -> Contents:
        """An engine has no list of documents: ``LISTED_PAGES`` pages are looked through for one."""
        some = islice(self._collection.briefs(Prefilter()), LISTED_PAGES)
        pages = sorted(some, key=lambda page: page.place)
        return contents_of_pages([(page.id, page.metadata) for page in pages], keys)

    def metadata_keys(self) -> list[str]:
        """Those that any page ever had."""
        return sorted(self._manifest["keys"])

    def vector(self, id: str) -> SparseVector:
        return self._row(id).vector

    def thumbnail(self, id: str) -> bytes | None:
        return self._row(id, thumbnails=True).thumbnail or None

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        return ((page.id, page.vector, page.metadata) for page in self._stored(thumbnails=False))

    def stored_pages(self) -> Iterator[StoredPage]:
        return (stored_page(row) for row in self._stored(thumbnails=True))

    def _stored(self, thumbnails: bool) -> Iterator[Row]:
        for batch in batched(self._in_order(Filter()), READ_AT_ONCE):
            rows = self.rows([page.key for page in batch], thumbnails)
            yield from (rows[page.key] for page in batch if page.key in rows)

    def known(self, ids: Sequence[str]) -> dict[str, Metadata]:
        found: dict[str, Metadata] = {}
        for batch in batched(map(key_of, ids), READ_AT_ONCE):
            pages = self._collection.briefs(Prefilter(among=tuple(batch)))
            found |= {page.id: page.metadata for page in pages}
        return found

    # -- search ---------------------------------------------------------------------------------------

    def _find(self, request: BatchRequest) -> list[tuple[FoundPages, SparseVector, Ranking]]:
        """Queries without conditions in one request to the engine."""
        k, wanted = self._checked_top(request.k), request.conditions
        vectors = [request.encode(query) for query in request.queries]
        plain = [place for place, conditions in enumerate(wanted) if not conditions]
        by_meaning = any(vector.meaning is not None for vector in vectors)
        depth = max(k, DEPTH) if by_meaning else k
        more = max(BEST - depth, 0) if by_meaning else 0
        everywhere = AllowedPages(request.filter)
        together = by_words(self._collection, [vectors[place] for place in plain], depth, everywhere, more)
        words = dict(zip(plain, together, strict=True))
        answers: list[tuple[FoundPages, SparseVector, Ranking]] = []
        for place, vector in enumerate(vectors):
            allowed = AllowedPages(request.filter, wanted[place])
            found = words.get(place)
            if found is None:
                (found,) = by_words(self._collection, [vector], depth, allowed, more)
            pages, mix = with_meaning(self._collection, vector, found, k, allowed, self.name_terms)
            scores = np.array([page.score for page in pages], np.float32)
            ranking = Ranking(np.arange(len(pages)), scores, mix=mix)
            answers.append((CollectionPages(self, pages), vector, ranking))
        return answers

    def _checked_top(self, k: int) -> int:
        if k > self._collection.most_results:
            raise InputError(
                f"{self.where}: this engine gives at most {self._collection.most_results:,} results, "
                f"not {k:,}."
            )
        return checked_top(k)

    def _mix(self, query: SparseVector, filter: Filter, conditions: Conditions) -> Mix:
        if query.meaning is None:
            return WORDS_ALONE
        allowed = AllowedPages(filter, conditions)
        (words,) = by_words(self._collection, [query], DEPTH, allowed, BEST - DEPTH)
        return with_meaning(self._collection, query, words, 1, allowed, self.name_terms)[1]

    def look_up(self, query: Query, filter: FilterLike = None) -> list[WordMatch]:
        chosen = Filter.of(filter)
        return [WordMatch(word.typed, self._status(word, chosen)) for word in self.query_words(query)]

    def _status(self, word: QueryWord, filter: Filter) -> str:
        if word.wholes and self._any_page(AllowedPages(filter, Conditions(must=(word,)))):
            return FOUND
        parts = tuple((term,) for term in word.parts)
        prefilter = Prefilter(filter.conditions, (parts,) if parts else ())
        if not parts:
            return NOT_FOUND
        if not filter:
            return IN_PART if self._count(prefilter) else NOT_FOUND
        found = any(filter.allows(page.metadata) for page in self._collection.briefs(prefilter))
        return IN_PART if found else NOT_FOUND

    def _any_page(self, allowed: AllowedPages) -> bool:
        pages = self._collection.briefs(allowed.prefilter)
        return any(allowed.check(self._collection, batch) for batch in batched(pages, READ_AT_ONCE))

    def warm_up(self) -> None:
        self.encode_query("warm up")
