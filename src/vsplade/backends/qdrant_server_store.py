"""A Qdrant server or cluster, through ``qdrant-client``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException

from vsplade.backends import qdrant
from vsplade.backends.address import TOKEN, Address
from vsplade.backends.collection import check_version
from vsplade.backends.qdrant import MEANING, SCROLL, WORDS, FoundPoint, NearestPoints, Point
from vsplade.errors import EngineError

SECONDS, FIRST_SECONDS = 60, 10
"""That a call may take, and the first one: a server that is there answers soon."""
OLDEST = (1, 13)


class ServerStore:
    models = qdrant.filter_models(models, models.Range, lambda keys: models.HasIdCondition(has_id=list(keys)))

    def __init__(self, address: Address, client: QdrantClient | None = None) -> None:
        self._address, self._where = address, str(address)
        if client is None:
            self._check_version()
        self._client = client or self._connected(SECONDS)

    def _connected(self, seconds: int) -> QdrantClient:
        key = self._address.token or None
        return QdrantClient(url=self._address.url, api_key=key, timeout=seconds, check_compatibility=False)

    def _check_version(self) -> None:
        try:
            version = str(self._connected(FIRST_SECONDS).info().version)
        except Exception as error:
            raise EngineError(
                f"{self._where}: Qdrant cannot be reached ({_text(error)}). Is the server running, and is "
                f"{TOKEN} its key?"
            ) from error
        check_version("Qdrant", version, OLDEST, self._where)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (ApiException, QdrantException, ValueError) as error:
            raise EngineError(f"{self._where}: Qdrant answered with an error: {_text(error)}.") from error

    def exists(self, name: str) -> bool:
        with self._errors():
            return bool(self._client.collection_exists(name))

    def create(self, name: str, sparse: bool, dimensions: int, indexed: Mapping[str, str]) -> None:
        words = {WORDS: models.SparseVectorParams()}
        meaning = {
            # Without a graph: every search looks at all windows, and is exact.
            MEANING: models.VectorParams(
                size=max(1, dimensions),
                distance=models.Distance.DOT,
                hnsw_config=models.HnswConfigDiff(m=0),
            )
        }
        with self._errors():
            self._client.create_collection(
                name,
                vectors_config={} if sparse else meaning,
                sparse_vectors_config=words if sparse else None,
                shard_number=self._address.shards,
                replication_factor=self._address.replicas,
                on_disk_payload=True,
            )
            for field, kind in indexed.items():
                self._client.create_payload_index(name, field, field_schema=kind, wait=True)

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        made = [
            models.PointStruct(id=key, vector=qdrant.as_sparse(models.SparseVector, vectors), payload=payload)
            for key, vectors, payload in points
        ]
        with self._errors():
            self._client.upsert(name, made, wait=True)

    def delete(self, name: str, ids: Sequence[str]) -> None:
        with self._errors():
            self._client.delete(name, models.PointIdsList(points=list(ids)), wait=True)

    def delete_where(self, name: str, filter: Any) -> None:
        with self._errors():
            self._client.delete(name, models.FilterSelector(filter=filter), wait=True)

    def retrieve(self, name: str, ids: Sequence[str], payload: Sequence[str], vectors: bool) -> list[Point]:
        with self._errors():
            records = self._client.retrieve(name, list(ids), with_payload=list(payload), with_vectors=vectors)
        return [qdrant.point_of(record) for record in records]

    def scroll(self, name: str, filter: Any, payload: Sequence[str], vectors: bool) -> Iterator[Point]:
        def page(offset: Any) -> Any:
            with self._errors():
                return self._client.scroll(
                    name, filter, SCROLL, offset=offset, with_payload=list(payload), with_vectors=vectors
                )

        return qdrant.scroll_all(page)

    def count(self, name: str, filter: Any) -> int:
        with self._errors():
            return int(self._client.count(name, filter, exact=True).count)

    def query(self, name: str, asked: NearestPoints) -> list[list[FoundPoint]]:
        requests = [
            models.QueryRequest(
                query=qdrant.as_sparse(models.SparseVector, {asked.using: vector})[asked.using],
                using=asked.using,
                limit=asked.k,
                filter=asked.filter,
                params=models.SearchParams(exact=True),
                with_payload=list(asked.payload),
            )
            for vector in asked.vectors
        ]
        with self._errors():
            answers = self._client.query_batch_points(name, requests)
        return [
            [(str(point.id), point.score, point.payload or {}) for point in answer.points]
            for answer in answers
        ]

    def flush(self) -> None:
        """Every write waits until it is applied."""

    def close(self) -> None:
        self._client.close()


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")
