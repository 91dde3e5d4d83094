"""A client that waits, and one for asyncio; both send the requests of ``requests.py``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Unpack

from vsplade.client import requests
from vsplade.client.answers import ClientError, Document, Job, Match, Places, SearchResult
from vsplade.client.requests import Answer, Ask, Conditions, Switches, checked
from vsplade.errors import MissingExtraError

try:
    import httpx
except ModuleNotFoundError as error:
    raise MissingExtraError("The client", "client") from error

POLL_SECONDS = 0.2


def _options(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return {"base_url": url, "headers": headers, "timeout": timeout}


class Client:
    """``Client("http://127.0.0.1:8000")``; use it as a context manager, or call ``close``."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, transport: Any = None
    ) -> None:
        self._http = httpx.Client(**_options(url, key, timeout), transport=transport)

    def _send(self, ask: Ask[Answer]) -> Answer:
        try:
            answer = self._http.request(
                ask.method, ask.path, params=ask.params, json=ask.json, content=ask.content
            )
        except httpx.HTTPError as error:
            raise ClientError(0, "unreachable", f"The server cannot be reached: {error}.") from error
        return checked(answer, ask)

    def search(
        self, query: str, k: int = 10, filter: Conditions = None, **switches: Unpack[Switches]
    ) -> SearchResult:
        """The best pages."""
        return self._send(requests.search(query, k, filter, **switches))

    def search_batch(
        self, queries: Sequence[str], k: int = 10, filter: Conditions = None, **switches: Unpack[Switches]
    ) -> list[SearchResult]:
        return self._send(requests.search_batch(queries, k, filter, **switches))

    def explain(self, query: str, id: str) -> list[Match]:
        return self._send(requests.explain(query, id))

    def places(self, id: str, query: str) -> Places:
        return self._send(requests.places(id, query))

    def text(self, id: str) -> str:
        """The page's words: its text layer, or what was read from the picture."""
        return self._send(requests.text(id))

    def image(self, id: str, edge: int = 1600, query: str | None = None) -> bytes:
        """A JPEG of the page; with a query, its words are marked."""
        return self._send(requests.image(id, edge, query))

    def embed_sparse(self, texts: Sequence[str]) -> list[dict[int, float]]:
        return self._send(requests.embed_sparse(texts))

    def status(self) -> dict[str, Any]:
        return self._send(requests.status())

    def documents(self, offset: int = 0, limit: int = 100) -> list[Document]:
        return self._send(requests.documents(offset, limit))

    def upload(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Job:
        """Send a file of this machine; ``wait`` tells when it can be searched."""
        return self._send(requests.upload(Path(path), metadata))

    def add_paths(self, paths: Sequence[str], metadata: Mapping[str, Any] | None = None) -> Job:
        """Add files of the server, by their paths there."""
        return self._send(requests.add_paths(paths, metadata))

    def delete(self, doc_id: str) -> Job:
        return self._send(requests.delete(doc_id))

    def job(self, id: str) -> Job:
        return self._send(requests.job(id))

    def wait(self, job: Job, timeout: float = 600.0) -> Job:
        """Until the job has ended; a job that failed is returned as well."""
        until = time.monotonic() + timeout
        while not job.ended:
            if time.monotonic() > until:
                raise ClientError(0, "timeout", f"The job {job.id} did not end within {timeout:g} seconds.")
            time.sleep(POLL_SECONDS)
            job = self.job(job.id)
        return job

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """The same for asyncio."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, transport: Any = None
    ) -> None:
        self._http = httpx.AsyncClient(**_options(url, key, timeout), transport=transport)

    async def _send(self, ask: Ask[Answer]) -> Answer:
        try:
            answer = await self._http.request(
                ask.method, ask.path, params=ask.params, json=ask.json, content=ask.content
            )
        except httpx.HTTPError as error:
            raise ClientError(0, "unreachable", f"The server cannot be reached: {error}.") from error
        return checked(answer, ask)

    async def search(
        self, query: str, k: int = 10, filter: Conditions = None, **switches: Unpack[Switches]
    ) -> SearchResult:
        return await self._send(requests.search(query, k, filter, **switches))

    async def search_batch(
        self, queries: Sequence[str], k: int = 10, filter: Conditions = None, **switches: Unpack[Switches]
    ) -> list[SearchResult]:
        return await self._send(requests.search_batch(queries, k, filter, **switches))

    async def explain(self, query: str, id: str) -> list[Match]:
        return await self._send(requests.explain(query, id))

    async def places(self, id: str, query: str) -> Places:
        return await self._send(requests.places(id, query))

    async def text(self, id: str) -> str:
        return await self._send(requests.text(id))

    async def image(self, id: str, edge: int = 1600, query: str | None = None) -> bytes:
        return await self._send(requests.image(id, edge, query))

    async def embed_sparse(self, texts: Sequence[str]) -> list[dict[int, float]]:
        return await self._send(requests.embed_sparse(texts))

    async def status(self) -> dict[str, Any]:
        return await self._send(requests.status())

    async def documents(self, offset: int = 0, limit: int = 100) -> list[Document]:
        return await self._send(requests.documents(offset, limit))

    async def upload(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Job:
        return await self._send(requests.upload(Path(path), metadata))

    async def add_paths(self, paths: Sequence[str], metadata: Mapping[str, Any] | None = None) -> Job:
        return await self._send(requests.add_paths(paths, metadata))

    async def delete(self, doc_id: str) -> Job:
        return await self._send(requests.delete(doc_id))

    async def job(self, id: str) -> Job:
        return await self._send(requests.job(id))

    async def wait(self, job: Job, timeout: float = 600.0) -> Job:
        until = time.monotonic() + timeout
        while not job.ended:
            if time.monotonic() > until:
                raise ClientError(0, "timeout", f"The job {job.id} did not end within {timeout:g} seconds.")
            await asyncio.sleep(POLL_SECONDS)
            job = await self.job(job.id)
        return job

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
