"""What a collection on an outside engine must do to hold an index.

An engine may find more pages than were asked for where its conditions cannot say it exactly. The caller looks
at each page that comes back, so that every engine gives the same results.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np

from vsplade.errors import EngineError
from vsplade.store.durable import to_bytes
from vsplade.store.manifest import JsonValue
from vsplade.store.meaning_windows import MAX_WINDOWS
from vsplade.types import Direction, SparseVector, Windows

FORMAT = 1
"""Of what is kept on an engine; another number is refused."""
MANIFEST = "manifest"
"""The record that makes a collection an index: whose vectors these are, and the number of the commit."""


def check_version(engine: str, version: str, oldest: tuple[int, int], where: str) -> None:
    numbers = re.search(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < oldest:
        needed = ".".join(map(str, oldest))
        raise EngineError(
            f"{where}: this is {engine} {version}; {needed} or newer is needed. Nothing was changed."
        )


def key_of(page_id: str) -> str:
    """A page's key on an engine: of one length, whatever its id holds."""
    return str(uuid.UUID(bytes=hashlib.blake2b(to_bytes(page_id), digest_size=16).digest()))


Item = TypeVar("Item")


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


@dataclass(frozen=True, slots=True)
class Row:
    """All that is kept of a page."""

    id: str
    place: int
    """Orders pages as they were last added."""
    vector: SparseVector
    metadata: dict[str, Any]
    thumbnail: bytes = b""

    @property
    def key(self) -> str:
        return key_of(self.id)


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A page that a search brought, and its score."""

    key: str
    id: str
    place: int
    metadata: Mapping[str, Any]
    score: float = 0.0


class MetadataCondition(Protocol):
    """What ``search.filters.Condition`` is."""

    @property
    def key(self) -> str: ...

    @property
    def operator(self) -> str: ...

    @property
    def value(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Prefilter:
    """Which pages may be found. What an engine cannot express it leaves out: it then finds more."""

    conditions: tuple[MetadataCondition, ...] = ()
    holding: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Each: a page has all terms of at least one of these sets."""
    among: tuple[str, ...] | None = None
    """Only pages of these keys; None: all."""


class Collection(Protocol):
    """Pages, windows and records of one index on an engine."""

    where: str
    """The address, as errors name it."""
    most_results: int
    """That one search may ask for."""
    serves_processes: bool
    """Whether several processes may have it open at once."""

    def exists(self) -> bool: ...

    def create(self) -> None:
        """What is missing of the collection; nothing that is there is changed."""
        ...

    def put(self, rows: Sequence[Row]) -> None:
        """Add pages, or replace those of the same key. May be repeated."""
        ...

    def remove(self, keys: Sequence[str]) -> None:
        """Unknown keys are no error."""
        ...

    def fetch(self, keys: Sequence[str], thumbnails: bool = False) -> dict[str, Row]: ...

    def briefs(self, prefilter: Prefilter) -> Iterator[FoundRow]:
        """All pages, in no order, without their vectors."""
        ...

    def count(self, prefilter: Prefilter) -> int: ...

    def search(self, queries: Sequence[SparseVector], k: int, prefilter: Prefilter) -> list[list[FoundRow]]:
        """The ``k`` pages with the largest inner products, which are their scores."""
        ...

    def nearest(self, direction: Direction, k: int, prefilter: Prefilter) -> list[FoundRow]:
        """The ``k`` pages whose best window is nearest; the score is its cosine."""
        ...

    def records(self, prefix: str) -> dict[str, JsonValue]: ...

    def record(self, name: str) -> JsonValue: ...

    def write_records(self, changes: Mapping[str, JsonValue]) -> None:
        """None removes a record."""
        ...

    def close(self) -> None: ...


def nearest_pages(
    find: Callable[[int], Sequence[tuple[str, float]]], k: int, prefilter: Prefilter, most: int
) -> dict[str, float]:
    """The keys of ``k`` pages and the cosine of the best window of each, best first.

    ``find(limit)`` gives pages' keys and cosines of so many windows; more are asked for until there are
    enough pages.
    """
    limit = 4 * k if prefilter.among is None else MAX_WINDOWS * len(prefilter.among)
    while True:
        limit = min(limit, most)
        found, best = find(limit), dict[str, float]()
        for key, cosine in found:
            best.setdefault(key, cosine)  # the best of a page comes first
        if len(best) >= k or len(found) < limit or limit == most:
            return dict(list(best.items())[:k])
        limit *= 4


def joined_windows(rows: Sequence[tuple[str, int, Any, int]]) -> dict[str, Windows]:
    """By page: of rows of (page's key, number on the page, codes, cluster)."""
    parts: dict[str, list[tuple[int, Any, int]]] = {}
    for page_key, number, codes, cluster in rows:
        parts.setdefault(page_key, []).append((number, codes, cluster))
    return {
        key: Windows(
            np.rint(np.array([codes for _, codes, _ in group], np.float32)).astype(np.int8),
            np.array([cluster for _, _, cluster in group], np.uint16),
        )
        for key, group in ((key, sorted(group, key=lambda part: part[0])) for key, group in parts.items())
    }
