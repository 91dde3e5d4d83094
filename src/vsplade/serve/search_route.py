"""Searches: the JSON of their answers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any

from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import VspladeError
from vsplade.search.filters import Filter
from vsplade.search.fused_search import READER_AND_TEXT, FusedHit, fused_search, text_layer, whole
from vsplade.search.hits import Hit
from vsplade.search.page_index import PageIndex
from vsplade.search.page_view import place_of
from vsplade.search.summary import matches_json, what_is_missing, why_nothing, words_json
from vsplade.search.syntax import has_operators, parse
from vsplade.serve.library import Library
from vsplade.serve.request_errors import RequestError, bad_request, from_vsplade
from vsplade.serve.search_request import NO_FILTER, SearchRequest, parse_query_string
from vsplade.serve.settings import ServeLimits
from vsplade.types import TermMatch, WordMatch

INLINE_PAGES = 500_000
"""Up to here a plain search takes well under a millisecond: handing it to a thread would cost more."""
SNIPPETS = 20
"""Hits of one search that may ask for a snippet: each may have to be read from its pixels."""
WRITTEN_PAGES = 50_000
"""Pages whose JSON is kept; about 15 MB."""
KNOWN_WORDS = 50_000
"""Words of which is kept whether any page holds them; about 10 MB."""

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Answers:
    """Finds and writes answers."""

    def __init__(self, library: Library, limits: ServeLimits) -> None:
        self._library = library
        self._limits = limits
        self._written: tuple[object, dict[str, str]] = (None, {})
        """The JSON of pages as it was last written, for one commit: popular pages are found often."""
        self._words: tuple[object, dict[str, tuple[WordMatch, ...]]] = (None, {})
        """Typed words, and whether any page of that commit holds them."""

    def quick(self, path: str, query: bytes) -> tuple[int, bytes] | None:
        """A plain search on an index of usual size, answered on the spot."""
        if path != "/v1/search" or not 0 < self._library.inline_pages <= INLINE_PAGES:
            return None
        try:
            asked = parse_query_string(query, self._limits)
            return (200, self.answer(asked)) if asked.quick else None
        except RequestError as error:
            return error.status, error.body()
        except VspladeError as error:
            known = from_vsplade(error)
            return known.status, known.body()

    def answer(self, asked: SearchRequest) -> bytes:
        started = time.perf_counter()
        hits = self.find(asked)
        took = (time.perf_counter() - started) * 1000
        return self._document(asked, hits, took).encode()

    def answer_many(self, asked: Sequence[SearchRequest]) -> bytes:
        """Plain searches of one kind go through the index together."""
        first = asked[0]
        started = time.perf_counter()
        if first.fuse or first.snippets:
            found: list[Sequence[Hit]] = [self.find(one) for one in asked]
        else:
            texts = [one.query for one in asked]
            found = [*self._search(self._library.index, texts, first)]
        took = (time.perf_counter() - started) * 1000
        results = [self._document(one, hits, took) for one, hits in zip(asked, found, strict=True)]
        return f'{{"results":[{",".join(results)}]}}'.encode()

    def find(self, asked: SearchRequest) -> Sequence[Hit]:
        index = self._library.index
        if not asked.fuse:
            return self._search(index, [asked.query], asked)[0]
        if not self._library.fusable:
            raise bad_request(
                "This index holds no text layers to fuse with. It would have to be built with the encoder "
                f"{index.identity.name}+text."
            )
        sources = [whole(index, asked.words_only), text_layer(index)]
        filters: Any = asked.filters
        hits = fused_search(sources, asked.query, asked.k, READER_AND_TEXT, "rsf", filters)
        return [hit for hit in hits if hit.score >= asked.min_score]

    @staticmethod
    def _search(index: PageIndex, texts: Sequence[str], asked: SearchRequest) -> Sequence[Sequence[Hit]]:
        return index.search_batch(
            texts, asked.k, asked.filters, min_score=asked.min_score, words_only=asked.words_only
        )

    def _document(self, asked: SearchRequest, hits: Sequence[Hit], took: float) -> str:
        written = self._pages_written()
        parts = []
        for place, hit in enumerate(hits):
            page = written.get(hit.id) or self._write_page(hit, written)
            more = self._more(hit, asked, place) if asked.explain or asked.snippets or asked.fuse else ""
            parts.append(f'{{"score":{hit.score!r},{page}{more}}}')
        generation = self._library.index.generation
        head = f'"query":{encode(asked.query)},"took_ms":{took:.3f},"generation":{generation}'
        return f'{{{head},{self._summary(asked, hits)},"hits":[{",".join(parts)}]}}'

    def _summary(self, asked: SearchRequest, hits: Sequence[Hit]) -> str:
        """Which of the query's words any page holds, what was not understood, and what to make of it."""
        index = self._library.index
        words = self.look_up(asked)
        notes = index.notes(asked.query) if has_operators(asked.query) else []
        if hits:
            message = what_is_missing(index, asked.query, words, asked.words_only)
        else:
            message = why_nothing(index, asked.query, asked.filters, asked.min_score)
        damaged = self._library.damage
        facts = {"words": words_json(words), "notes": notes, "message": message or None, "damaged": damaged}
        return encode(facts)[1:-1]

    def look_up(self, asked: SearchRequest) -> Sequence[WordMatch]:
        """Whether any page holds each word. A plain word's answer is kept: it is typed letter by letter."""
        index = self._library.index
        if asked.filters or has_operators(asked.query):
            return index.look_up(asked.query, asked.filters)
        commit, known = self._words
        if commit is not index.commit or len(known) > KNOWN_WORDS:
            known = {}
            self._words = (index.commit, known)
        found: list[WordMatch] = []
        for typed in asked.query.split():
            if typed not in known:
                known[typed] = tuple(index.look_up(typed))
            found += known[typed]
        return found

    def _pages_written(self) -> dict[str, str]:
        commit = self._library.index.commit
        if self._written[0] is not commit or len(self._written[1]) > WRITTEN_PAGES:
            self._written = (commit, {})
        return self._written[1]

    def _write_page(self, hit: Hit, written: dict[str, str]) -> str:
        """Everything of a hit that is the same in every search, without the braces."""
        metadata = hit.metadata
        path = metadata.get("path")
        facts = {
            "id": hit.id,
            "doc_id": hit.doc_id,
            "page_num": hit.page_num,
            "name": os.path.basename(path) if isinstance(path, str) else hit.doc_id,
            "metadata": self._library.shown(metadata),
        }
        written[hit.id] = text = encode(facts)[1:-1]
        return text

    def _more(self, hit: Hit, asked: SearchRequest, place: int) -> str:
        """What depends on the search."""
        facts: dict[str, Any] = {}
        if isinstance(hit, FusedHit):
            facts["parts"] = list(hit.parts)
        if asked.explain:
            facts["matches"] = matches_json(hit.explain())
            facts["words"] = words_json(hit.words)
        if asked.snippets and place < SNIPPETS:
            facts["snippet"] = self._snippet(hit)
        return "," + encode(facts)[1:-1] if facts else ""

    def _snippet(self, hit: Hit) -> dict[str, Any] | None:
        """None where the file cannot be read any more; the hit stays one."""
        try:
            view = self._library.views.view(*place_of(hit.id, hit.metadata), hit.explain())
        except VspladeError:
            return None
        snippet = view.snippet()
        return {"text": snippet.text, "marks": [list(mark) for mark in snippet.marks]}

    def matches(
        self,
        query: str,
        page_id: str,
        fuse: bool = False,
        words_only: bool = False,
        filters: Filter = NO_FILTER,
    ) -> list[TermMatch]:
        """Why a page matches a query, whether or not it is among its best."""
        library = self._library
        library.metadata(page_id)  # an error for a page that is not there
        index = library.index
        found = index.explain(query, page_id, words_only, filters)
        if fuse and isinstance(index.encoder, PairedEncoder):
            text = index.encoder.encode_text_query(parse(query).text, index)
            found += index.explain(text, page_id)
        return found
