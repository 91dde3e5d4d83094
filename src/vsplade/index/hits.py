"""Results that cost little to make: only the id and the score are at hand, the rest is read when looked at.

A search makes hundreds of hits, and most are never asked for their metadata or for an explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vsplade.index.snapshot import Snapshot
from vsplade.query.plan import Ranking
from vsplade.results.explain import explain
from vsplade.types import Hit, Json, SparseVector

_set = object.__setattr__  # a Hit is frozen; these are its first values


@dataclass(frozen=True, slots=True)
class Answered:
    """The search that hits came from: what they need to fill themselves in."""

    snapshot: Snapshot
    query: SparseVector
    token: Callable[[int], str]
    """Names terms."""


class StoredHit(Hit):
    """A Hit of an index. Attributes that are not set yet come from ``__getattr__``, once."""

    __slots__ = ("_source",)
    _source: tuple[Answered, int]

    def __getattr__(self, name: str) -> Any:
        if name == "matches":
            search, number = self._source
            segment, page = search.snapshot.locate(number)
            _set(self, name, explain(search.query, segment.vector(page), search.token))
        elif name in ("metadata", "doc_id", "page_num"):
            search, number = self._source
            segment, page = search.snapshot.locate(number)
            metadata = segment.metadata(page)
            _set(self, "metadata", metadata)
            _set(self, "doc_id", _doc_id(self.id, metadata))
            _set(self, "page_num", _page_num(metadata))
        else:
            raise AttributeError(f"a hit has no attribute {name!r}")
        return object.__getattribute__(self, name)

    def __eq__(self, other: object) -> bool:
        """Also equal to a plain Hit with the same content."""
        return isinstance(other, Hit) and _content(self) == _content(other)

    __hash__ = Hit.__hash__


def make_hits(search: Answered, ranking: Ranking) -> list[Hit]:
    hits: list[Hit] = []
    ids = search.snapshot.ids(ranking.numbers)
    for id, score, number in zip(ids, ranking.scores.tolist(), ranking.numbers.tolist(), strict=True):
        hit = StoredHit.__new__(StoredHit)
        _set(hit, "id", id)
        _set(hit, "score", score)
        _set(hit, "_source", (search, number))
        hits.append(hit)
    return hits


def _content(hit: Hit) -> tuple[object, ...]:
    return hit.id, hit.score, hit.doc_id, hit.page_num, hit.metadata, list(hit.matches)


def _doc_id(page_id: str, metadata: Mapping[str, Json]) -> str:
    for key in ("doc_id", "path"):
        value = metadata.get(key)
        if isinstance(value, str):
            return value
    return page_id


def _page_num(metadata: Mapping[str, Json]) -> int:
    value = metadata.get("page_num")
    return value if isinstance(value, int) else 1
