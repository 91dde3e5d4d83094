"""What a server answers, as small frozen types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from vsplade.errors import VspladeError
from vsplade.types import Box, WordMatch


class ClientError(VspladeError):
    """The server refused a request, or could not be reached (``status`` 0)."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Match:
    """A term that page and query share, and what it added to the score."""

    token: str
    term: int
    query_weight: float
    page_weight: float
    product: float
    in_part: bool = False
    """It is a piece of a word of the query that does not stand on the page as a whole."""
    meant_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Of a match by meaning: words that the page has not, each with the words of the page that mean it."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Words of the page; ``marks`` are the (start, end) of those that were asked for."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteHit:
    """One result."""

    id: str
    score: float
    doc_id: str
    page_num: int
    name: str
    metadata: Mapping[str, Any] = field(hash=False)
    matches: tuple[Match, ...] = ()
    snippet: Snippet | None = None
    words: tuple[WordMatch, ...] = ()
    """The query's words, and whether this page holds each; where ``explain`` was asked for."""


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Pages that no search finds until the server's index is repaired, and the files to index again."""

    pages: int
    segments: tuple[str, ...]
    files: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A query's results, best first."""

    query: str
    hits: tuple[RemoteHit, ...]
    took_ms: float
    generation: int
    words: tuple[WordMatch, ...] = ()
    """The query's words, and whether any page holds each: ``found``, ``in part`` or ``not found``."""
    notes: tuple[str, ...] = ()
    """What in the query was not understood as it may have been meant."""
    message: str | None = None
    """Which words no page holds, or why there are no hits; None where every word was found."""
    damaged: OutOfReach | None = None
    """Which pages were not searched, because a part of the server's index is damaged; None: none."""


@dataclass(frozen=True, slots=True)
class PlacedWord:
    text: str
    box: Box
    weight: float


@dataclass(frozen=True, slots=True)
class PagePlaces:
    """Where a query's words stand on a page."""

    marks: tuple[PlacedWord, ...]
    snippet: Snippet
    text_layer: bool


@dataclass(frozen=True, slots=True)
class Document:
    doc_id: str
    name: str
    pages: int


@dataclass(frozen=True, slots=True)
class Job:
    """Something that changes the index; ``state`` is queued, running, done or failed."""

    id: str
    kind: str
    state: str
    done: int
    total: int
    error: str | None
    report: Mapping[str, Any] = field(hash=False)

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed")


Answer = TypeVar("Answer")


def read_as(kind: type[Answer], given: Mapping[str, Any]) -> Answer:
    """An answer's JSON as one of these classes. What only a newer server tells is passed over."""
    hints: Mapping[str, Any] = _hints(kind)
    return kind(**{name: _part(hint, given[name]) for name, hint in hints.items() if name in given})


_hints: Any = cache(get_type_hints)


def _part(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if value is None or hint is Any:
        return value
    if origin is UnionType:  # or None
        return _part(inner[0], value)
    if hint is Box:
        return Box(*value)
    if origin is tuple:
        return tuple(_part(inner[0], item) for item in value) if inner[1] is ... else tuple(value)
    if origin is Mapping:
        return {key: _part(inner[1], item) for key, item in value.items()}
    return read_as(hint, value) if isinstance(hint, type) and is_dataclass(hint) else value
