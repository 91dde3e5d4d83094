"""Each request that can be sent to a server, and how its answer is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from vsplade.client.answers import ClientError, Document, Job, Match, PagePlaces, SearchResult, read_as

Conditions = Mapping[str, Any] | str | Sequence[str] | None
Answer = TypeVar("Answer")


class SearchSwitches(TypedDict, total=False):
    """Options of a search by name; switches are False where they are not given."""

    fuse: bool
    explain: bool
    snippets: bool
    words_only: bool
    """By the pages' words alone, not by what they are about."""
    min_score: float
    """Pages with less are left out; 0 where it is not given."""


@dataclass(frozen=True)
class ServerRequest(Generic[Answer]):
    read: Callable[[Any], Answer]
    """From the answer's JSON, or from its bytes (``binary``)."""
    method: str
    path: str
    content: dict[str, Any] = field(default_factory=dict)
    """What httpx sends: ``params``, ``json`` or ``content``."""
    binary: bool = False


def read_answer(answer: Any, request: ServerRequest[Answer]) -> Answer:
    """An error has the server's own words."""
    if answer.is_success:
        return request.read(answer.content if request.binary else answer.json())
    try:
        given = answer.json()["error"]
        code, message = given["code"], given["message"]
    except (ValueError, KeyError, TypeError):
        code, message = "failed", f"The server answered {answer.status_code}."
    raise ClientError(answer.status_code, code, message)


def _page(id: str, part: str) -> str:
    return f"/v1/pages/{quote(id, safe='')}/{part}"


def search(
    query: str, k: int = 10, filter: Conditions = None, **switches: Unpack[SearchSwitches]
) -> ServerRequest[SearchResult]:
    """The best pages."""
    body = {"query": query, "k": k, **switches, **_filter(filter)}
    return ServerRequest(partial(read_as, SearchResult), "POST", "/v1/search", {"json": body})


def search_batch(
    queries: Sequence[str], k: int = 10, filter: Conditions = None, **switches: Unpack[SearchSwitches]
) -> ServerRequest[list[SearchResult]]:
    body = {"queries": list(queries), "k": k, **switches, **_filter(filter)}
    return ServerRequest(_list_of(SearchResult, "results"), "POST", "/v1/search", {"json": body})


def explain(query: str, id: str, filter: Sequence[str] = ()) -> ServerRequest[list[Match]]:
    params = {"q": query, "id": id, "filter": list(filter)}
    return ServerRequest(_list_of(Match, "matches"), "GET", "/v1/explain", {"params": params})


def places(id: str, query: str) -> ServerRequest[PagePlaces]:
    return ServerRequest(partial(read_as, PagePlaces), "GET", _page(id, "places"), {"params": {"q": query}})


def text(id: str) -> ServerRequest[str]:
    """The page's words: its text layer, or what was read from the picture."""
    return ServerRequest(lambda answer: str(answer["text"]), "GET", _page(id, "text"))


def image(id: str, edge: int = 1600, query: str | None = None) -> ServerRequest[bytes]:
    """A JPEG of the page; with a query, its words are marked."""
    params = {"edge": edge, **({"q": query} if query else {})}
    return ServerRequest(bytes, "GET", _page(id, "image"), {"params": params}, binary=True)


def embed_sparse(texts: Sequence[str]) -> ServerRequest[list[dict[int, float]]]:
    def read(answer: Any) -> list[dict[int, float]]:
        return [{entry["index"]: entry["value"] for entry in vector} for vector in answer]

    return ServerRequest(read, "POST", "/v1/embed_sparse", {"json": {"inputs": list(texts)}})


def status() -> ServerRequest[dict[str, Any]]:
    return ServerRequest(dict, "GET", "/v1/status")


def documents(offset: int = 0, limit: int = 100) -> ServerRequest[list[Document]]:
    params = {"offset": offset, "limit": limit}
    return ServerRequest(_list_of(Document, "documents"), "GET", "/v1/documents", {"params": params})


def upload(path: str | Path, metadata: Mapping[str, Any] | None = None) -> ServerRequest[Job]:
    """Send a file of this machine; ``wait`` tells when it can be searched."""
    params = {"metadata": json.dumps(dict(metadata))} if metadata else None
    target = f"/v1/documents/{quote(Path(path).name, safe='')}"
    return ServerRequest(_as_job, "PUT", target, {"params": params, "content": Path(path).read_bytes()})


def add_paths(paths: Sequence[str], metadata: Mapping[str, Any] | None = None) -> ServerRequest[Job]:
    """Add files of the server, by their paths there."""
    body = {"paths": list(paths), "metadata": dict(metadata or {})}
    return ServerRequest(_as_job, "POST", "/v1/documents", {"json": body})


def delete(doc_id: str) -> ServerRequest[Job]:
    return ServerRequest(_as_job, "DELETE", f"/v1/documents/{quote(doc_id, safe='')}")


def job(id: str) -> ServerRequest[Job]:
    return ServerRequest(_as_job, "GET", f"/v1/jobs/{id}")


def _as_job(given: Any) -> Job:
    return read_as(Job, given)


def _list_of(kind: type[Answer], key: str) -> Callable[[Any], list[Answer]]:
    return lambda answer: [read_as(kind, item) for item in answer[key]]


def _filter(given: Conditions) -> dict[str, Any]:
    if not given:
        return {}
    if isinstance(given, str):
        return {"filter": given}
    return {"filter": dict(given) if isinstance(given, Mapping) else list(given)}
