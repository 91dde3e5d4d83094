"""An index on Qdrant: a server or cluster, or the engine within this process."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from vsplade.backends.address import Address
from vsplade.backends.collection import (
    FoundRow,
    Prefilter,
    Row,
    batched,
    joined_windows,
    nearest_pages,
)
from vsplade.backends.milvus_filter import for_filters
from vsplade.backends.qdrant_filter import make_filter
from vsplade.store.manifest import JsonValue
from vsplade.types import Direction, SparseVector, Windows

MOST_RESULTS = 1 << 20
"""That one search may ask for. Qdrant has no limit of its own."""
BATCH = 256
WINDOWS, RECORDS = "_windows", "_records"
WORDS, MEANING = "words", "direction"
"""Names of the vectors."""
BRIEF = ("id", "place")
SCROLL = 512
"""Points read at a time."""

Sparse = tuple[list[int], list[float]]
Point = tuple[str, dict[str, Sparse | list[float]], dict[str, Any]]
"""Id, vectors by name, payload."""


FoundPoint = tuple[str, float, dict[str, Any]]
"""Id, score, payload."""


@dataclass(frozen=True, slots=True)
class NearestPoints:
    """What is asked of a collection: the ``k`` points with the largest products with each vector."""

    using: str
    """The vector's name."""
    vectors: Sequence[Sparse | list[float]]
    k: int
    filter: Any
    payload: Sequence[str]


class Store(Protocol):
    """What is needed of Qdrant, once by its client and once by the engine in this process."""

    models: Any
    """The classes of filters."""

    def exists(self, name: str) -> bool: ...

    def create(self, name: str, sparse: bool, dimensions: int, indexed: Mapping[str, str]) -> None: ...

    def upsert(self, name: str, points: Sequence[Point]) -> None: ...

    def delete(self, name: str, ids: Sequence[str]) -> None: ...

    def delete_where(self, name: str, filter: Any) -> None: ...

    def retrieve(
        self, name: str, ids: Sequence[str], payload: Sequence[str], vectors: bool
    ) -> list[Point]: ...

    def scroll(self, name: str, filter: Any, payload: Sequence[str], vectors: bool) -> Iterator[Point]: ...

    def count(self, name: str, filter: Any) -> int: ...

    def query(self, name: str, asked: NearestPoints) -> list[list[FoundPoint]]:
        """For each of the vectors."""
        ...

    def flush(self) -> None:
        """What was written so far is on disk."""
        ...

    def close(self) -> None: ...


def filter_models(module: Any, range_kind: Any, has_ids: Callable[[Sequence[str]], Any]) -> SimpleNamespace:
    """The classes of filters, which the client and the engine call alike; what they do not is given."""
    names = ("Filter", "FieldCondition", "MatchValue", "MatchAny", "MatchPrefix")

    def range_of(operator: str, value: float) -> Any:
        return range_kind(**dict.fromkeys(("gte", "lte") if operator == "eq" else (operator,), value))

    return SimpleNamespace(
        **{name: getattr(module, name) for name in names}, has_ids=has_ids, range_of=range_of
    )


def as_sparse(kind: Any, vectors: Mapping[str, Sparse | list[float]]) -> dict[str, Any]:
    """Vectors by name, the sparse ones as the class that the client or the engine wants."""
    return {
        using: kind(indices=vector[0], values=vector[1]) if isinstance(vector, tuple) else vector
        for using, vector in vectors.items()
    }


def point_of(record: Any) -> Point:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    plain = {
        name: (vector.indices, vector.values) if hasattr(vector, "indices") else vector
        for name, vector in vectors.items()
    }
    return str(record.id), plain, record.payload or {}


def scroll_all(page: Callable[[Any], tuple[Sequence[Any], Any]]) -> Iterator[Point]:
    """``page(offset)`` gives some records, and where the next ones begin."""
    offset = None
    while True:
        records, offset = page(offset)
        yield from map(point_of, records)
        if offset is None:
            return


class QdrantCollection:
    most_results = MOST_RESULTS

    def __init__(self, address: Address, store: Store) -> None:
        self.where, self._store = str(address), store
        self.serves_processes = address.path is None
        self._pages = address.collection
        self._windows, self._records = address.collection + WINDOWS, address.collection + RECORDS
        names = (self._pages, self._windows, self._records)
        self._there = {name for name in names if store.exists(name)}

    def close(self) -> None:
        self._store.close()

    # -- pages ----------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return self._pages in self._there and self._records in self._there

    def create(self) -> None:
        if self._pages not in self._there:
            self._store.create(self._pages, True, 0, {"terms": "integer", "metadata.doc_id": "keyword"})
        if self._records not in self._there:
            self._store.create(self._records, True, 0, {})
        self._there |= {self._pages, self._records}

    def put(self, rows: Sequence[Row]) -> None:
        points = [_page_point(row) for row in rows]
        windows = [point for row in rows for point in _window_points(row)]
        if windows and self._windows not in self._there:
            dimensions = len(windows[0][1][MEANING])
            self._store.create(self._windows, False, dimensions, {"page_key": "keyword"})
            self._there.add(self._windows)
        self._remove_windows([row.key for row in rows])
        for batch in batched(windows, BATCH):
            self._store.upsert(self._windows, batch)
        for batch in batched(points, BATCH):
            self._store.upsert(self._pages, batch)
        self._store.flush()

    def remove(self, keys: Sequence[str]) -> None:
        for batch in batched(keys, BATCH):
            self._store.delete(self._pages, batch)
        self._remove_windows(keys)
        self._store.flush()

    def _remove_windows(self, keys: Sequence[str]) -> None:
        if self._windows in self._there:
            for batch in batched(keys, BATCH):
                self._store.delete_where(
                    self._windows, self._filter(Prefilter(among=tuple(batch)), "page_key")
                )

    def _filter(self, prefilter: Prefilter, page_key: str = "", terms: bool = True) -> Any:
        return make_filter(self._store.models, prefilter, page_key, terms)

    def fetch(self, keys: Sequence[str], thumbnails: bool = False) -> dict[str, Row]:
        fields = (*BRIEF, "page", *(("thumbnail",) if thumbnails else ()))
        found: dict[str, Row] = {}
        for batch in batched(dict.fromkeys(keys), BATCH):
            windows = self._windows_of(batch)
            for key, vectors, payload in self._store.retrieve(self._pages, batch, fields, True):
                found[key] = _row(vectors, payload, windows.get(key))
        return found

    def _windows_of(self, keys: Sequence[str]) -> dict[str, Windows]:
        if self._windows not in self._there:
            return {}
        filter = self._filter(Prefilter(among=tuple(keys)), "page_key")
        fields = ("page_key", "number", "cluster", "length")
        return joined_windows(
            [
                (
                    kept["page_key"],
                    kept["number"],
                    np.array(vectors[MEANING]) * kept["length"],
                    kept["cluster"],
                )
                for _, vectors, kept in self._store.scroll(self._windows, filter, fields, True)
            ]
        )

    def briefs(self, prefilter: Prefilter) -> Iterator[FoundRow]:
        points = self._store.scroll(self._pages, self._filter(prefilter), ("page", *BRIEF), False)
        return (_found(key, payload, 0.0) for key, _, payload in points)

    def count(self, prefilter: Prefilter) -> int:
        return self._store.count(self._pages, self._filter(prefilter))

    # -- search ---------------------------------------------------------------------------------------

    def search(self, queries: Sequence[SparseVector], k: int, prefilter: Prefilter) -> list[list[FoundRow]]:
        vectors: list[Sparse | list[float]] = [
            (query.terms.tolist(), query.weights.tolist()) for query in queries
        ]
        filter = self._filter(prefilter)
        answers = self._store.query(self._pages, NearestPoints(WORDS, vectors, k, filter, ("page", *BRIEF)))
        return [[_found(key, payload, score) for key, score, payload in answer] for answer in answers]

    def nearest(self, direction: Direction, k: int, prefilter: Prefilter) -> list[FoundRow]:
        if self._windows not in self._there:
            return []
        filter = self._filter(prefilter, "page_key", terms=False)
        asked: list[Sparse | list[float]] = [direction.vector.tolist()]

        def find(limit: int) -> list[tuple[str, float]]:
            nearest = NearestPoints(MEANING, asked, limit, filter, ("page_key",))
            (found,) = self._store.query(self._windows, nearest)
            return [(payload["page_key"], score) for _, score, payload in found]

        chosen = nearest_pages(find, k, prefilter, MOST_RESULTS)
        points = self._store.retrieve(self._pages, list(chosen), ("page", *BRIEF), False) if chosen else []
        pages = {key: payload for key, _, payload in points}
        return [_found(key, pages[key], cosine) for key, cosine in chosen.items() if key in pages]

    # -- records --------------------------------------------------------------------------------------

    def records(self, prefix: str) -> dict[str, JsonValue]:
        if self._records not in self._there:
            return {}
        points = self._store.scroll(self._records, None, ("record",), False)
        found = (json.loads(payload["record"]) for _, _, payload in points)
        return {name: value for name, value in found if name.startswith(prefix)}

    def record(self, name: str) -> JsonValue:
        if self._records not in self._there:
            return None
        for _, _, payload in self._store.retrieve(self._records, [_record_key(name)], ("record",), False):
            value: JsonValue = json.loads(payload["record"])[1]
            return value
        return None

    def write_records(self, changes: Mapping[str, JsonValue]) -> None:
        points: list[Point] = [
            (_record_key(name), {}, {"record": json.dumps([name, value])})
            for name, value in changes.items()
            if value is not None
        ]
        for batch in batched(points, BATCH):
            self._store.upsert(self._records, batch)
        gone = [_record_key(name) for name, value in changes.items() if value is None]
        for keys in batched(gone, BATCH):
            self._store.delete(self._records, keys)
        self._store.flush()


def _record_key(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(name)))


def _page_point(row: Row) -> Point:
    terms, weights = row.vector.terms.tolist(), row.vector.weights.tolist()
    vectors: dict[str, Sparse | list[float]] = {WORDS: (terms, weights)} if terms else {}
    payload = {
        "id": json.dumps(row.id),
        "place": row.place,
        "page": json.dumps(row.metadata),
        "metadata": for_filters(row.metadata),
        "terms": terms,
        "thumbnail": base64.b64encode(row.thumbnail).decode(),
    }
    return row.key, vectors, payload


def _window_points(row: Row) -> Iterator[Point]:
    windows = row.vector.meaning
    if not isinstance(windows, Windows):
        return
    for number, (codes, cluster) in enumerate(zip(windows.codes, windows.clusters.tolist(), strict=True)):
        direction = codes.astype(np.float64)
        length = float(np.linalg.norm(direction))
        payload = {
            "page_key": row.key,
            "number": number,
            "cluster": cluster,
            "length": length,
            "metadata": for_filters(row.metadata),
        }
        yield (
            str(uuid.uuid5(uuid.UUID(row.key), str(number))),
            {MEANING: (direction / length).tolist()},
            payload,
        )


def _found(key: str, payload: Mapping[str, Any], score: float) -> FoundRow:
    id, metadata = json.loads(payload["id"]), json.loads(payload["page"])
    return FoundRow(key, id, int(payload["place"]), metadata, float(score))


def _row(vectors: Mapping[str, Any], payload: Mapping[str, Any], windows: Windows | None) -> Row:
    terms, weights = vectors.get(WORDS, ([], []))
    order = np.argsort(np.array(terms, np.int64))
    vector = SparseVector(np.array(terms, np.uint32)[order], np.array(weights, np.float32)[order], windows)
    thumbnail = base64.b64decode(payload.get("thumbnail") or "")
    return Row(
        json.loads(payload["id"]), int(payload["place"]), vector, json.loads(payload["page"]), thumbnail
    )
