"""An index on Milvus: a server, a cluster, or milvus-lite in a file."""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from pymilvus import MilvusClient, MilvusException

from vsplade.backends.address import TOKEN, Address
from vsplade.backends.collection import (
    FoundRow,
    Narrowing,
    Row,
    batched,
    joined_windows,
    nearest_pages,
)
from vsplade.backends.milvus_filter import ALL_TERMS, expression, for_filters, has_lists
from vsplade.backends.milvus_records import joined, name_key, pieces
from vsplade.backends.milvus_schema import (
    MOST_TERMS,
    PAGE_FIELDS,
    RECORD_FIELDS,
    RECORDS,
    TEXT,
    WINDOW_FIELDS,
    WINDOWS,
    check_fields,
    create_pages,
    create_records,
    create_windows,
)
from vsplade.errors import EngineError, InputError
from vsplade.store.manifest import JsonValue
from vsplade.store.postings import MAX_VOCABULARY
from vsplade.types import Direction, SparseVector, Windows

MOST_RESULTS = 16_384
"""That Milvus gives for one search."""
OLDEST = (2, 4)
"""The first version with sparse vectors."""
SECONDS, STARTING = 30.0, 20.0
"""To wait for an answer; for the engine of a file to start."""
UNAVAILABLE = 2
"""Milvus' number of the error that no server answers."""
BATCH = 500
STRONG = "Strong"
"""Reads see every write before them. Searches do not wait for that: see docs/scale-out.md."""


class MilvusCollection:
    most_results = MOST_RESULTS

    def __init__(self, address: Address) -> None:
        for name in ("pymilvus", "grpc"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # they print traces of what we report
        self.where, self._address = str(address), address
        self.serves_processes = address.path is None
        self._pages = address.collection
        self._windows, self._records = address.collection + WINDOWS, address.collection + RECORDS
        self._client = _connect(address, self.where)
        try:
            self._lite = _is_lite(self._client, self.where) or address.path is not None
            self._check()
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        wanted = {self._pages: PAGE_FIELDS, self._windows: WINDOW_FIELDS, self._records: RECORD_FIELDS}
        with self._errors():
            self._there = {name for name in wanted if self._client.has_collection(name)}
            for name in self._there:
                check_fields(self._client, name, wanted[name], self.where)
                # A file that another process wrote is closed to searches until this, too.
                copies = {} if self._lite else {"replica_number": self._address.replicas}
                self._client.load_collection(name, **copies)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except MilvusException as error:
            raise EngineError(f"{self.where}: Milvus answered with an error: {_told(error)}.") from error

    def close(self) -> None:
        self._client.close()

    # -- pages ----------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return self._pages in self._there and self._records in self._there

    def create(self) -> None:
        with self._errors():
            if self._pages not in self._there:
                create_pages(self._client, self._pages, not self._lite, self._address.shards)
            if self._records not in self._there:
                create_records(self._client, self._records)
        self._there |= {self._pages, self._records}

    def put(self, rows: Sequence[Row]) -> None:
        entities = [_page_entity(row) for row in rows]
        windows = [entity for row in rows for entity in _window_entities(row)]
        with self._errors():
            if windows and self._windows not in self._there:
                dimensions = len(windows[0]["direction"])
                create_windows(self._client, self._windows, dimensions, self._address.shards)
                self._there.add(self._windows)
            self._remove_windows([row.key for row in rows])
            for batch in batched(windows, BATCH):
                self._client.upsert(self._windows, batch)
            for batch in batched(entities, BATCH):
                self._client.upsert(self._pages, batch)

    def remove(self, keys: Sequence[str]) -> None:
        with self._errors():
            for batch in batched(keys, BATCH):
                self._client.delete(self._pages, ids=batch)
            self._remove_windows(keys)

    def _remove_windows(self, keys: Sequence[str]) -> None:
        if self._windows in self._there:
            for batch in batched(keys, BATCH):
                self._client.delete(self._windows, filter=f"page_key in {json.dumps(batch)}")

    def fetch(self, keys: Sequence[str], thumbnails: bool = False) -> dict[str, Row]:
        fields = ["key", "place", "page", "vector", *(["thumbnail"] if thumbnails else [])]
        found: dict[str, Row] = {}
        with self._errors():
            for batch in batched(dict.fromkeys(keys), BATCH):
                rows = self._get(self._pages, expression(Narrowing(among=tuple(batch)), "key"), fields)
                windows = self._windows_of(batch)
                found |= {row["key"]: _row(row, windows.get(row["key"])) for row in rows}
        return found

    def _windows_of(self, keys: Sequence[str]) -> dict[str, Windows]:
        if self._windows not in self._there:
            return {}
        rows = self._get(
            self._windows,
            expression(Narrowing(among=tuple(keys)), "page_key"),
            ["key", "page_key", "cluster", "direction"],
        )
        return joined_windows(
            [
                (row["page_key"], int(row["key"].rpartition("-")[2]), row["direction"], row["cluster"])
                for row in rows
            ]
        )

    def _get(self, name: str, filter: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        """All rows, in no order."""
        batches = self._client.query_iterator(
            name, batch_size=BATCH, filter=filter, output_fields=fields, consistency_level=STRONG
        )
        try:
            while rows := batches.next():
                yield from rows
        finally:
            batches.close()

    def briefs(self, narrowing: Narrowing) -> Iterator[FoundRow]:
        with self._errors():
            for row in self._get(self._pages, expression(narrowing, "key"), ["key", "place", "page"]):
                yield _found(row, 0.0)

    def count(self, narrowing: Narrowing) -> int:
        filter = expression(narrowing, "key")
        with self._errors():
            answer = self._client.query(
                self._pages, filter=filter, output_fields=["count(*)"], consistency_level=STRONG
            )
        return int(answer[0]["count(*)"])

    # -- search ---------------------------------------------------------------------------------------

    def search(self, queries: Sequence[SparseVector], k: int, narrowing: Narrowing) -> list[list[FoundRow]]:
        asked = [_as_dict(query) for query in queries]
        with self._errors():
            answers = self._client.search(
                self._pages,
                asked,
                anns_field="vector",
                limit=k,
                filter=expression(narrowing, "key"),
                search_params={"metric_type": "IP", "params": {"drop_ratio_search": 0.0}},
                output_fields=["key", "place", "page"],
            )
        return [[_found(hit["entity"], hit["distance"]) for hit in hits] for hits in answers]

    def nearest(self, direction: Direction, k: int, narrowing: Narrowing) -> list[FoundRow]:
        if self._windows not in self._there:
            return []
        chosen = nearest_pages(
            lambda limit: self._nearest_windows(direction, limit, narrowing), k, narrowing, MOST_RESULTS
        )
        with self._errors():
            rows = self._get(
                self._pages, expression(Narrowing(among=tuple(chosen)), "key"), ["key", "place", "page"]
            )
            pages = {row["key"]: row for row in rows} if chosen else {}
        return [_found(pages[key], cosine) for key, cosine in chosen.items() if key in pages]

    def _nearest_windows(
        self, direction: Direction, limit: int, narrowing: Narrowing
    ) -> list[tuple[str, float]]:
        with self._errors():
            (hits,) = self._client.search(
                self._windows,
                [direction.vector.tolist()],
                anns_field="direction",
                limit=limit,
                filter=expression(narrowing, "page_key", terms=False),
                search_params={"metric_type": "COSINE", "params": {}},
                output_fields=["page_key"],
            )
        return [(hit["entity"]["page_key"], float(hit["distance"])) for hit in hits]

    # -- records --------------------------------------------------------------------------------------

    def records(self, prefix: str) -> dict[str, JsonValue]:
        if self._records not in self._there:
            return {}
        fields = ["name", "part", "stamp", "text"]
        with self._errors():
            found = joined(self._get(self._records, "", fields))
        return {name: value for name, value in found.items() if name.startswith(prefix)}

    def record(self, name: str) -> JsonValue:
        if self._records not in self._there:
            return None
        with self._errors():
            rows = self._client.get(
                self._records,
                ids=[f"{name_key(name)}-0"],
                output_fields=["name", "part", "stamp", "text"],
                consistency_level=STRONG,
            )
        return joined(rows).get(name)

    def write_records(self, changes: Mapping[str, JsonValue]) -> None:
        # The first piece decides; of what is left behind of a long value nothing counts.
        gone = [f"{name_key(name)}-0" for name, value in changes.items() if value is None]
        with self._errors():
            for batch in batched(pieces(changes), BATCH):
                self._client.upsert(self._records, batch)
            for keys in batched(gone, BATCH):
                self._client.delete(self._records, ids=keys)


def _connect(address: Address, where: str) -> MilvusClient:
    given: dict[str, Any] = {"timeout": SECONDS}
    if address.path is not None:
        try:
            import milvus_lite  # noqa: F401
        except ImportError as error:
            raise InputError(
                f"{where}: a file needs the package milvus-lite. Run: pip install milvus-lite"
            ) from error
        address.path.parent.mkdir(parents=True, exist_ok=True)
        uri = str(address.path)
    else:
        uri = address.url
        given |= {"token": address.token, "db_name": address.database}
    try:
        return _client(uri, STARTING if address.path is not None else 0.0, given)
    except MilvusException as error:
        advice = (
            "Another process may have it open: milvus-lite takes one at a time."
            if address.path is not None
            else f"Is the server running, and is {TOKEN} its user and password?"
        )
        raise EngineError(f"{where}: Milvus cannot be reached ({_told(error)}). {advice}") from error


def _client(uri: str, patience: float, given: dict[str, Any]) -> MilvusClient:
    """The engine of a file is started by the client, which does not always wait until it answers."""
    end = time.monotonic() + patience
    while True:
        try:
            return MilvusClient(uri, **given)
        except MilvusException as error:
            if error.code != UNAVAILABLE or time.monotonic() > end:
                raise
            time.sleep(0.2)


def _is_lite(client: MilvusClient, where: str) -> bool:
    """Whether this is the small edition, which has no index on the terms; too old a server is refused."""
    try:
        version = str(client.get_server_version())
    except Exception:  # milvus-lite 2 does not tell: the call is not implemented there
        return True
    check_version(version, where)
    return "lite" in version


def check_version(version: str, where: str) -> None:
    numbers = re.search(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise EngineError(
            f"{where}: this is Milvus {version}; sparse vectors need {oldest} or newer. Nothing was changed."
        )


def _told(error: MilvusException) -> str:
    message: str = getattr(error, "message", "") or str(error)
    return " ".join(message.split()).rstrip(".")


def _as_dict(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))


def _page_entity(row: Row) -> dict[str, Any]:
    text = json.dumps({"id": row.id, "metadata": row.metadata}, separators=(",", ":"))
    thumbnail = base64.b64encode(row.thumbnail).decode()
    for what, kept in (("its metadata", text), ("its thumbnail", thumbnail)):
        if len(kept) > TEXT:
            raise InputError(f"page {row.id!r}: {what} take {len(kept):,} bytes; Milvus keeps {TEXT:,}.")
    terms = row.vector.terms.tolist()
    return {
        "key": row.key,
        "place": row.place,
        "page": text,
        "metadata": for_filters(row.metadata),
        "lists": int(has_lists(row.metadata)),
        "terms": terms if len(terms) <= MOST_TERMS else [ALL_TERMS],
        "thumbnail": thumbnail,
        # Some versions refuse empty vectors. No query asks for this term.
        "vector": _as_dict(row.vector) or {MAX_VOCABULARY: 1.0},
    }


def _window_entities(row: Row) -> Iterator[dict[str, Any]]:
    windows = row.vector.meaning
    if not isinstance(windows, Windows):
        return
    for number, (codes, cluster) in enumerate(zip(windows.codes, windows.clusters.tolist(), strict=True)):
        yield {
            "key": f"{row.key}-{number}",
            "page_key": row.key,
            "cluster": cluster,
            "metadata": for_filters(row.metadata),
            "lists": int(has_lists(row.metadata)),
            "direction": codes.astype(np.float32).tolist(),
        }


def _found(row: Mapping[str, Any], score: float) -> FoundRow:
    page = json.loads(row["page"])
    return FoundRow(row["key"], page["id"], int(row["place"]), page["metadata"], float(score))


def _row(row: Mapping[str, Any], windows: Windows | None) -> Row:
    page = json.loads(row["page"])
    weights = {int(term): weight for term, weight in row["vector"].items() if int(term) != MAX_VOCABULARY}
    plain = SparseVector.from_dict(weights)
    vector = SparseVector(plain.terms, plain.weights, windows)
    thumbnail = base64.b64decode(row.get("thumbnail") or "")
    return Row(page["id"], int(row["place"]), vector, page["metadata"], thumbnail)
