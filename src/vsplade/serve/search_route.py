"""Searches: what a request asks for, and the JSON of its answer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError, VspladeError
from vsplade.search.filters import Filter
from vsplade.search.fused_search import READER_AND_TEXT, FusedHit, fused_search, text_layer, whole
from vsplade.search.hits import Hit
from vsplade.search.page_view import place_of
from vsplade.search.syntax import has_operators, parse
from vsplade.serve.library import Library
from vsplade.serve.request_errors import RequestError, bad_request, from_vsplade
from vsplade.serve.settings import ServeLimits
from vsplade.types import TermMatch

INLINE_PAGES = 500_000
"""Up to here a plain search takes well under a millisecond: handing it to a thread would cost more."""
SNIPPETS = 20
"""Hits of one search that may ask for a snippet: each may have to be read from its pixels."""
LONGEST_FILTER = 1000
NO_FILTER = Filter()
WRITTEN_PAGES = 50_000
"""Pages whose JSON is kept; about 15 MB."""

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Asked:
    """One search."""

    query: str
    k: int = 10
    filters: Filter = NO_FILTER
    fuse: bool = False
    explain: bool = False
    snippets: bool = False

    @property
    def quick(self) -> bool:
        """No files to open, no new mask to make: nothing that could hold others up."""
        return not (self.filters or self.fuse or self.snippets or has_operators(self.query))


_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_NAMES = ("q", "k", "filter", "fuse", "explain", "snippets")


def parse_query_string(text: bytes, limits: ServeLimits) -> Asked:
    """Of ``GET /v1/search``. A parameter that is not known or not understood is an error."""
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise bad_request("The query string cannot be read: it must be UTF-8, with % escapes.") from error
    given: dict[str, Any] = {}
    filters: list[str] = []
    for name, value in pairs:
        if name == "filter":
            filters.append(value)
        elif name in given:
            raise bad_request(f"The parameter {name!r} is given twice.")
        elif name not in _NAMES:
            raise bad_request(f"There is no parameter {name!r}; use {', '.join(_NAMES)}.")
        else:
            given[name] = value
    if "q" not in given:
        raise bad_request("Give the words to search for: ?q=...")
    for name in ("fuse", "explain", "snippets"):
        if name in given:
            if given[name] not in _FLAGS:
                raise bad_request(f"{name} is true or false, not {given[name]!r}.")
            given[name] = _FLAGS[given[name]]
    if "k" in given:
        given["k"] = _whole(given["k"])
    return make_asked({**given, "filter": filters}, limits)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f"k is a whole number, not {text!r}.")
    return int(text)


def parse_body(body: Mapping[str, Any], limits: ServeLimits) -> list[Asked]:
    """Of ``POST /v1/search``: one ``query``, or many ``queries``."""
    known = ("query", "queries", "k", "filter", "fuse", "explain", "snippets")
    for name in body:
        if name not in known:
            raise bad_request(f"There is no field {name!r}; use {', '.join(known)}.")
    if ("query" in body) == ("queries" in body):
        raise bad_request("Give either `query`, one text, or `queries`, a list of texts.")
    rest = {name: value for name, value in body.items() if name not in ("query", "queries")}
    for name in ("fuse", "explain", "snippets"):
        if not isinstance(rest.get(name, False), bool):
            raise bad_request(f"`{name}` is true or false.")
    if "queries" not in body:
        return [make_asked({**rest, "q": body["query"]}, limits)]
    queries = body["queries"]
    if not isinstance(queries, list) or not 1 <= len(queries) <= limits.batch:
        raise bad_request(f"`queries` is a list of 1 to {limits.batch} texts.")
    return [make_asked({**rest, "q": query}, limits) for query in queries]


def make_asked(given: Mapping[str, Any], limits: ServeLimits) -> Asked:
    query, k = given["q"], given.get("k", 10)
    if not isinstance(query, str) or not query or len(query) > limits.query_chars:
        raise bad_request(f"A query is a text of 1 to {limits.query_chars} characters.")
    if not query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in query):
        raise bad_request("The query is not valid Unicode.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= limits.k:
        raise bad_request(f"k is a whole number from 1 to {limits.k}.")
    try:
        filters = Filter.of(_checked_filter(given.get("filter") or None))
    except InputError as error:
        raise bad_request(str(error)) from error
    flags = {name: given.get(name, False) for name in ("fuse", "explain", "snippets")}
    return Asked(query, k, filters, **flags)


def _checked_filter(given: Any) -> Any:
    """A mapping, a text or texts, short enough."""
    if given is None or isinstance(given, str):
        size = len(given or "")
    elif isinstance(given, Mapping):
        size = len(str(given))
    elif isinstance(given, list) and all(isinstance(one, str) for one in given):
        size = sum(map(len, given))
    else:
        raise bad_request("`filter` is an object, a text, or a list of texts.")
    if size > LONGEST_FILTER:
        raise bad_request(f"The filter is too long; {LONGEST_FILTER} characters are allowed.")
    return given


class Answers:
    """Finds and writes answers."""

    def __init__(self, library: Library, limits: ServeLimits) -> None:
        self._library = library
        self._limits = limits
        self._written: tuple[object, dict[str, str]] = (None, {})
        """The JSON of pages as it was last written, for one commit: popular pages are found often."""

    def quick(self, path: str, query: bytes) -> tuple[int, bytes] | None:
        """A plain search on an index of usual size, answered on the spot."""
        if path != "/v1/search" or self._library.index.pages > INLINE_PAGES:
            return None
        try:
            asked = parse_query_string(query, self._limits)
            return (200, self.answer(asked)) if asked.quick else None
        except RequestError as error:
            return error.status, error.body()
        except VspladeError as error:
            known = from_vsplade(error)
            return known.status, known.body()

    def answer(self, asked: Asked) -> bytes:
        started = time.perf_counter()
        hits = self.find(asked)
        took = (time.perf_counter() - started) * 1000
        return self._document(asked, hits, took).encode()

    def answer_many(self, asked: Sequence[Asked]) -> bytes:
        """Plain searches of one kind go through the index together."""
        first = asked[0]
        started = time.perf_counter()
        if first.fuse or first.snippets:
            found: list[Sequence[Hit]] = [self.find(one) for one in asked]
        else:
            texts = [one.query for one in asked]
            found = list(self._library.index.search_batch(texts, first.k, first.filters))
        took = (time.perf_counter() - started) * 1000
        results = [self._document(one, hits, took) for one, hits in zip(asked, found, strict=True)]
        return f'{{"results":[{",".join(results)}]}}'.encode()

    def find(self, asked: Asked) -> Sequence[Hit]:
        index = self._library.index
        if not asked.fuse:
            return index.search_batch([asked.query], asked.k, asked.filters)[0]
        if not self._library.fusable:
            raise bad_request(
                "This index holds no text layers to fuse with. It would have to be built with the encoder "
                f"{index.identity.name}+text."
            )
        sources = [whole(index), text_layer(index)]
        filters: Any = asked.filters
        return fused_search(sources, asked.query, asked.k, READER_AND_TEXT, "rsf", filters)

    def _document(self, asked: Asked, hits: Sequence[Hit], took: float) -> str:
        written = self._pages_written()
        parts = []
        for place, hit in enumerate(hits):
            page = written.get(hit.id) or self._write_page(hit, written)
            more = self._more(hit, asked, place) if asked.explain or asked.snippets or asked.fuse else ""
            parts.append(f'{{"score":{hit.score!r},{page}{more}}}')
        generation = self._library.index.generation
        head = f'"query":{encode(asked.query)},"took_ms":{took:.3f},"generation":{generation}'
        return f'{{{head},"hits":[{",".join(parts)}]}}'

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

    def _more(self, hit: Hit, asked: Asked, place: int) -> str:
        """What depends on the search."""
        facts: dict[str, Any] = {}
        if isinstance(hit, FusedHit):
            facts["parts"] = list(hit.parts)
        if asked.explain:
            facts["matches"] = matches_json(hit.explain())
        if asked.snippets and place < SNIPPETS:
            facts["snippet"] = self._snippet(hit)
        return "," + encode(facts)[1:-1] if facts else ""

    def _snippet(self, hit: Hit) -> dict[str, Any] | None:
        """None where the file cannot be read any more; the hit stays one."""
        try:
            seen = self._library.sight.see(*place_of(hit.id, hit.metadata), hit.explain())
        except VspladeError:
            return None
        snippet = seen.snippet()
        return {"text": snippet.text, "marks": [list(mark) for mark in snippet.marks]}

    def matches(self, query: str, page_id: str, fuse: bool = False) -> list[TermMatch]:
        """Why a page matches a query, whether or not it is among its best."""
        library = self._library
        library.metadata(page_id)  # an error for a page that is not there
        index = library.index
        found = index.explain(query, page_id)
        if fuse and isinstance(index.encoder, PairedEncoder):
            text = index.encoder.encode_text_query(parse(query).text, index)
            found += index.explain(text, page_id)
        return found


def matches_json(matches: Sequence[TermMatch]) -> list[dict[str, Any]]:
    return [
        {
            "token": match.token,
            "term": match.term,
            "query_weight": match.query_weight,
            "page_weight": match.page_weight,
            "product": match.product,
            **({"meant_by": {word: list(by) for word, by in match.meant_by}} if match.meant_by else {}),
        }
        for match in matches
    ]
