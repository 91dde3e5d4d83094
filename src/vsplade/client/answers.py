"""What a server answers, as small frozen types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Match:
        meant = {word: tuple(by) for word, by in given.get("meant_by", {}).items()}
        return cls(**{**given, "meant_by": meant})


@dataclass(frozen=True, slots=True)
class Snippet:
    """Words of the page; ``marks`` are the (start, end) of those that were asked for."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Snippet:
        return cls(given["text"], tuple((start, end) for start, end in given["marks"]))


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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RemoteHit:
        snippet = given.get("snippet")
        return cls(
            given["id"],
            given["score"],
            given["doc_id"],
            given["page_num"],
            given["name"],
            given["metadata"],
            tuple(map(Match.of, given.get("matches", ()))),
            Snippet.of(snippet) if snippet else None,
            tuple(WordMatch(**word) for word in given.get("words", ())),
        )


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """Pages that no search finds until the server's index is repaired, and the files to index again."""

    pages: int
    segments: tuple[str, ...]
    files: tuple[str, ...]
    message: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> OutOfReach:
        return cls(given["pages"], tuple(given["segments"]), tuple(given["files"]), given["message"])


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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SearchResult:
        hits = tuple(RemoteHit.of(hit) for hit in given["hits"])
        words = tuple(WordMatch(**word) for word in given["words"])
        notes, message = tuple(given["notes"]), given["message"]
        damaged = OutOfReach.of(given["damaged"]) if given.get("damaged") else None
        return cls(
            given["query"], hits, given["took_ms"], given["generation"], words, notes, message, damaged
        )


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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> PagePlaces:
        marks = tuple(PlacedWord(one["text"], Box(*one["box"]), one["weight"]) for one in given["marks"])
        return cls(marks, Snippet.of(given["snippet"]), given["text_layer"])


@dataclass(frozen=True, slots=True)
class Document:
    doc_id: str
    name: str
    pages: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Document:
        return cls(given["doc_id"], given["name"], given["pages"])


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

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Job:
        return cls(**{name: given[name] for name in cls.__slots__})
