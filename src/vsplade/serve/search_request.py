"""What a search request asks for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from vsplade.errors import InputError
from vsplade.search.filters import Filter
from vsplade.search.syntax import has_operators
from vsplade.serve.request_errors import bad_request
from vsplade.serve.settings import ServeLimits

LONGEST_FILTER = 1000
NO_FILTER = Filter()
SWITCHES = ("fuse", "explain", "snippets", "words_only")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search."""

    query: str
    k: int = 10
    filters: Filter = NO_FILTER
    fuse: bool = False
    explain: bool = False
    snippets: bool = False
    words_only: bool = False
    """Not by what pages are about."""
    min_score: float = 0.0

    @property
    def quick(self) -> bool:
        """No files to open, no new mask to make: nothing that could hold others up."""
        return not (self.filters or self.fuse or self.snippets or has_operators(self.query))


_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_NAMES = ("q", "k", "filter", "min_score", *SWITCHES)


def parse_query_string(text: bytes, limits: ServeLimits) -> SearchRequest:
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
    for name in SWITCHES:
        if name in given:
            if given[name] not in _FLAGS:
                raise bad_request(f"{name} is true or false, not {given[name]!r}.")
            given[name] = _FLAGS[given[name]]
    if "k" in given:
        given["k"] = _whole(given["k"])
    if "min_score" in given:
        given["min_score"] = _number(given["min_score"])
    return checked_request({**given, "filter": filters}, limits)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_request(f"k is a whole number, not {text!r}.")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise bad_request(f"min_score is a number, not {text!r}.") from None


def parse_body(body: Mapping[str, Any], limits: ServeLimits) -> list[SearchRequest]:
    """Of ``POST /v1/search``: one ``query``, or many ``queries``."""
    known = ("query", "queries", "k", "filter", "min_score", *SWITCHES)
    for name in body:
        if name not in known:
            raise bad_request(f"There is no field {name!r}; use {', '.join(known)}.")
    if ("query" in body) == ("queries" in body):
        raise bad_request("Give either `query`, one text, or `queries`, a list of texts.")
    rest = {name: value for name, value in body.items() if name not in ("query", "queries")}
    for name in SWITCHES:
        if not isinstance(rest.get(name, False), bool):
            raise bad_request(f"`{name}` is true or false.")
    if "queries" not in body:
        return [checked_request({**rest, "q": body["query"]}, limits)]
    queries = body["queries"]
    if not isinstance(queries, list) or not 1 <= len(queries) <= limits.batch:
        raise bad_request(f"`queries` is a list of 1 to {limits.batch} texts.")
    return [checked_request({**rest, "q": query}, limits) for query in queries]


def checked_request(given: Mapping[str, Any], limits: ServeLimits) -> SearchRequest:
    query, k = given["q"], given.get("k", 10)
    if not isinstance(query, str) or not query or len(query) > limits.query_chars:
        raise bad_request(f"A query is a text of 1 to {limits.query_chars} characters.")
    if not query.isascii() and any("\ud800" <= letter <= "\udfff" for letter in query):
        raise bad_request("The query is not valid Unicode.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= limits.k:
        raise bad_request(f"k is a whole number from 1 to {limits.k}.")
    filters = checked_filter(given.get("filter"))
    least = given.get("min_score", 0.0)
    if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= sys.float_info.max:
        raise bad_request("min_score is a number from 0 up.")
    flags = {name: given.get(name, False) for name in SWITCHES}
    return SearchRequest(query, k, filters, min_score=float(least), **flags)


def checked_filter(given: Any) -> Filter:
    try:
        return Filter.of(_short(given or None))
    except InputError as error:
        raise bad_request(str(error)) from error


def _short(given: Any) -> Any:
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
