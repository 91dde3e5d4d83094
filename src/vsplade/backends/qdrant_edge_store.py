"""Qdrant's own engine within this process (``qdrant-edge-py``): a folder, and no server.

A folder is open once in a process, whoever uses it, and in one process at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from vsplade.backends import qdrant
from vsplade.backends.qdrant import MEANING, SCROLL, WORDS, FoundPoint, NearestPoints, Point
from vsplade.errors import EngineError

_open: dict[Path, tuple[edge.EdgeShard, int]] = {}
"""The shards of this process, and how many use each."""
_lock = threading.Lock()


class EdgeStore:
    models = qdrant.filter_models(edge, edge.RangeFloat, lambda keys: edge.HasIdCondition(set(keys)))

    def __init__(self, folder: Path, where: str) -> None:
        self._folder, self._where = folder.absolute(), where
        self._shards: dict[str, edge.EdgeShard] = {}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the engine has no class of its own for them
            raise EngineError(f"{self._where}: Qdrant answered with an error: {error}.") from error

    def _shard(self, name: str, config: edge.EdgeConfig | None = None) -> edge.EdgeShard:
        if name not in self._shards:
            path = self._folder / name
            with _lock, self._errors():
                shard, users = _open.get(path, (None, 0))
                if shard is None:
                    path.mkdir(parents=True, exist_ok=True)
                    shard = (
                        edge.EdgeShard.load(str(path))
                        if config is None
                        else edge.EdgeShard.create(str(path), config)
                    )
                _open[path] = shard, users + 1
            self._shards[name] = shard
        return self._shards[name]

    def exists(self, name: str) -> bool:
        return (self._folder / name / "segments").is_dir()

    def create(self, name: str, sparse: bool, dimensions: int, indexed: Mapping[str, str]) -> None:
        shard = self._shard(
            name,
            edge.EdgeConfig(
                vectors=None
                if sparse
                else {MEANING: edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Dot)},
                sparse_vectors={WORDS: edge.EdgeSparseVectorParams()} if sparse else None,
            ),
        )
        kinds = {"integer": edge.PayloadSchemaType.Integer, "keyword": edge.PayloadSchemaType.Keyword}
        with self._errors():
            for field, kind in indexed.items():
                shard.update(edge.UpdateOperation.create_field_index(field, kinds[kind]))
            shard.flush()

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        made = [
            edge.Point(key, qdrant.as_sparse(edge.SparseVector, vectors), payload)
            for key, vectors, payload in points
        ]
        with self._errors():
            self._shard(name).update(edge.UpdateOperation.upsert_points(made))

    def delete(self, name: str, ids: Sequence[str]) -> None:
        with self._errors():
            self._shard(name).update(edge.UpdateOperation.delete_points(list(ids)))

    def delete_where(self, name: str, filter: Any) -> None:
        with self._errors():
            self._shard(name).update(edge.UpdateOperation.delete_points_by_filter(filter))

    def retrieve(self, name: str, ids: Sequence[str], payload: Sequence[str], vectors: bool) -> list[Point]:
        with self._errors():
            records = self._shard(name).retrieve(list(ids), list(payload), vectors)
        return [qdrant.point_of(record) for record in records]

    def scroll(self, name: str, filter: Any, payload: Sequence[str], vectors: bool) -> Iterator[Point]:
        def page(offset: Any) -> Any:
            with self._errors():
                return self._shard(name).scroll(
                    edge.ScrollRequest(offset, SCROLL, filter, list(payload), vectors)
                )

        return qdrant.scroll_all(page)

    def count(self, name: str, filter: Any) -> int:
        with self._errors():
            return int(self._shard(name).count(edge.CountRequest(exact=True, filter=filter)))

    def query(self, name: str, asked: NearestPoints) -> list[list[FoundPoint]]:
        answers = []
        for vector in asked.vectors:
            sparse = qdrant.as_sparse(edge.SparseVector, {asked.using: vector})
            request = edge.QueryRequest(
                limit=asked.k,
                query=edge.Query.Nearest(sparse[asked.using], asked.using),
                filter=asked.filter,
                with_payload=list(asked.payload),
                params=edge.SearchParams(exact=True),
            )
            with self._errors():
                found = self._shard(name).query(request)
            answers.append([(str(point.id), point.score, point.payload or {}) for point in found])
        return answers

    def flush(self) -> None:
        with self._errors():
            for shard in self._shards.values():
                shard.flush()

    def close(self) -> None:
        with _lock:
            for name, shard in self._shards.items():
                path = self._folder / name
                _, users = _open[path]
                if users > 1:
                    _open[path] = shard, users - 1
                else:
                    del _open[path]
                    shard.close()
            self._shards = {}
