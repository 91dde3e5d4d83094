"""A client that waits, and one for asyncio. What both can ask is in ``requests.py``, once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from vsplade.client import requests
from vsplade.client.answers import ClientError, Job
from vsplade.client.requests import ServerRequest, read_answer
from vsplade.errors import MissingExtraError

try:
    import httpx
except ModuleNotFoundError as error:
    raise MissingExtraError("The client", "client") from error

POLL_SECONDS = 0.2

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class RequestMethod(Generic[Parameters, Answer]):
    """A function of ``requests.py`` as a method: ``Client`` returns the answer, ``AsyncClient`` awaits it."""

    def __init__(self, request: Callable[Parameters, ServerRequest[Answer]]) -> None:
        self._request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, client: Client, owner: type | None = None) -> Callable[Parameters, Answer]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: type | None = None
    ) -> Callable[Parameters, Awaitable[Answer]]: ...
    @overload
    def __get__(
        self, client: None, owner: type | None = None
    ) -> Callable[Parameters, ServerRequest[Answer]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: type | None = None) -> Callable[..., Any]:
        if client is None:
            return self._request

        @wraps(self._request)
        def send(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            return client._send(self._request(*args, **kwargs))

        return send


class _Requests:
    """What can be asked of a server."""

    search = RequestMethod(requests.search)
    search_batch = RequestMethod(requests.search_batch)
    explain = RequestMethod(requests.explain)
    places = RequestMethod(requests.places)
    text = RequestMethod(requests.text)
    image = RequestMethod(requests.image)
    embed_sparse = RequestMethod(requests.embed_sparse)
    status = RequestMethod(requests.status)
    documents = RequestMethod(requests.documents)
    upload = RequestMethod(requests.upload)
    add_paths = RequestMethod(requests.add_paths)
    delete = RequestMethod(requests.delete)
    job = RequestMethod(requests.job)


def _http_options(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return {"base_url": url, "headers": headers, "timeout": timeout}


def _unreachable(error: Exception) -> ClientError:
    return ClientError(0, "unreachable", f"The server cannot be reached: {error}.")


def _rounds(job: Job, timeout: float) -> Iterator[None]:
    """One round a poll; an error when the time is over."""
    until = time.monotonic() + timeout
    while time.monotonic() <= until:
        yield
    raise ClientError(0, "timeout", f"The job {job.id} did not end within {timeout:g} seconds.")


class Client(_Requests):
    """``Client("http://127.0.0.1:8000")``; use it as a context manager, or call ``close``."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, transport: Any = None
    ) -> None:
        self._http = httpx.Client(**_http_options(url, key, timeout), transport=transport)

    def _send(self, request: ServerRequest[Answer]) -> Answer:
        try:
            return read_answer(self._http.request(request.method, request.path, **request.content), request)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error

    def wait(self, job: Job, timeout: float = 600.0) -> Job:
        """Until the job has ended; a job that failed is returned as well."""
        rounds = _rounds(job, timeout)
        while not job.ended:
            next(rounds)
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


class AsyncClient(_Requests):
    """The same for asyncio."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, transport: Any = None
    ) -> None:
        self._http = httpx.AsyncClient(**_http_options(url, key, timeout), transport=transport)

    async def _send(self, request: ServerRequest[Answer]) -> Answer:
        try:
            answer = await self._http.request(request.method, request.path, **request.content)
        except httpx.HTTPError as error:
            raise _unreachable(error) from error
        return read_answer(answer, request)

    async def wait(self, job: Job, timeout: float = 600.0) -> Job:
        rounds = _rounds(job, timeout)
        while not job.ended:
            next(rounds)
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
