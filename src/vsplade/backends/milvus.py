"""An index on Milvus: a server, a cluster, or milvus-lite in a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pymilvus import MilvusException

from vsplade.backends.address import Address
from vsplade.backends.collection import (
    FoundRow,
    Prefilter,
    Row,
    batched,
    joined_windows,
    nearest_pages,
)
from vsplade.backends.milvus_connect import explained, is_lite, open_client
from vsplade.backends.milvus_filter import expression
from vsplade.backends.milvus_records import joined, name_key, pieces
from vsplade.backends.milvus_rows import as_dict, found_row, page_entity, stored_row, window_entities
from vsplade.backends.milvus_schema import (
    PAGE_FIELDS,
    RECORD_FIELDS,
    RECORDS,
    WINDOW_FIELDS,
    WINDOWS,
    check_fields,
    create_pages,
    create_records,
    create_windows,
)
from vsplade.errors import EngineError
from vsplade.store.manifest import JsonValue
from vsplade.types import Direction, SparseVector, Windows

MOST_RESULTS = 16_384
"""That Milvus gives for one search."""
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
        self._client = open_client(address, self.where)
        try:
            self._lite = is_lite(self._client, self.where) or address.path is not None
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
            raise EngineError(f"{self.where}: Milvus answered with an error: {explained(error)}.") from error

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
        entities = [page_entity(row) for row in rows]
        windows = [entity for row in rows for entity in window_entities(row)]
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
                rows = self._get(self._pages, expression(Prefilter(among=tuple(batch)), "key"), fields)
                windows = self._windows_of(batch)
                found |= {row["key"]: stored_row(row, windows.get(row["key"])) for row in rows}
        return found

    def _windows_of(self, keys: Sequence[str]) -> dict[str, Windows]:
        if self._windows not in self._there:
            return {}
        rows = self._get(
            self._windows,
            expression(Prefilter(among=tuple(keys)), "page_key"),
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

    def briefs(self, prefilter: Prefilter) -> Iterator[FoundRow]:
        with self._errors():
            for row in self._get(self._pages, expression(prefilter, "key"), ["key", "place", "page"]):
                yield found_row(row, 0.0)

    def count(self, prefilter: Prefilter) -> int:
        filter = expression(prefilter, "key")
        with self._errors():
            answer = self._client.query(
                self._pages, filter=filter, output_fields=["count(*)"], consistency_level=STRONG
            )
        return int(answer[0]["count(*)"])

    # -- search ---------------------------------------------------------------------------------------

    def search(self, queries: Sequence[SparseVector], k: int, prefilter: Prefilter) -> list[list[FoundRow]]:
        asked = [as_dict(query) for query in queries]
        with self._errors():
            answers = self._client.search(
                self._pages,
                asked,
                anns_field="vector",
                limit=k,
                filter=expression(prefilter, "key"),
                search_params={"metric_type": "IP", "params": {"drop_ratio_search": 0.0}},
                output_fields=["key", "place", "page"],
            )
        return [[found_row(hit["entity"], hit["distance"]) for hit in hits] for hits in answers]

    def nearest(self, direction: Direction, k: int, prefilter: Prefilter) -> list[FoundRow]:
        if self._windows not in self._there:
            return []
        chosen = nearest_pages(
            lambda limit: self._nearest_windows(direction, limit, prefilter), k, prefilter, MOST_RESULTS
        )
        with self._errors():
            rows = self._get(
                self._pages, expression(Prefilter(among=tuple(chosen)), "key"), ["key", "place", "page"]
            )
            pages = {row["key"]: row for row in rows} if chosen else {}
        return [found_row(pages[key], cosine) for key, cosine in chosen.items() if key in pages]

    def _nearest_windows(
        self, direction: Direction, limit: int, prefilter: Prefilter
    ) -> list[tuple[str, float]]:
        with self._errors():
            (hits,) = self._client.search(
                self._windows,
                [direction.vector.tolist()],
                anns_field="direction",
                limit=limit,
                filter=expression(prefilter, "page_key", terms=False),
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
