"""Each request that a client can send, once, for both clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from vsplade.client.answers import ClientError, Document, Job, Match, Places, SearchResult

Conditions = Mapping[str, Any] | str | Sequence[str] | None


Answer = TypeVar("Answer")


class Switches(TypedDict, total=False):
    """What a search may be told by name; switches are False where they are not given."""

    fuse: bool
    explain: bool
    snippets: bool
    words_only: bool
    """By the pages' words alone, not by what they are about."""
    min_score: float
    """Pages with less are left out; 0 where it is not given."""


@dataclass(frozen=True)
class Ask(Generic[Answer]):
    """One request, and how its answer is read: from JSON, or from bytes where it is a ``picture``."""

    read: Callable[[Any], Answer]
    method: str
    path: str
    params: dict[str, Any] | None = None
    json: Any = None
    content: bytes | None = None
    picture: bool = False


def checked(answer: Any, ask: Ask[Answer]) -> Answer:
    """What was asked for, or an error with the server's own words."""
    if answer.is_success:
        return ask.read(answer.content if ask.picture else answer.json())
    try:
        told = answer.json()["error"]
        code, message = told["code"], told["message"]
    except (ValueError, KeyError, TypeError):
        code, message = "failed", f"The server answered {answer.status_code}."
    raise ClientError(answer.status_code, code, message)


def _page(id: str, what: str) -> str:
    return f"/v1/pages/{quote(id, safe='')}/{what}"


def search(query: str, k: int, filter: Conditions, **switches: Unpack[Switches]) -> Ask[SearchResult]:
    body = {"query": query, "k": k, **switches, **_filter(filter)}
    return Ask(SearchResult.of, "POST", "/v1/search", json=body)


def search_batch(
    queries: Sequence[str], k: int, filter: Conditions, **switches: Unpack[Switches]
) -> Ask[list[SearchResult]]:
    body = {"queries": list(queries), "k": k, **switches, **_filter(filter)}
    return Ask(lambda told: [*map(SearchResult.of, told["results"])], "POST", "/v1/search", json=body)


def explain(query: str, id: str) -> Ask[list[Match]]:
    return Ask(lambda told: [*map(Match.of, told["matches"])], "GET", "/v1/explain", {"q": query, "id": id})


def places(id: str, query: str) -> Ask[Places]:
    return Ask(Places.of, "GET", _page(id, "places"), {"q": query})


def text(id: str) -> Ask[str]:
    return Ask(lambda told: str(told["text"]), "GET", _page(id, "text"))


def image(id: str, edge: int, query: str | None) -> Ask[bytes]:
    asked = {"edge": edge, **({"q": query} if query else {})}
    return Ask(bytes, "GET", _page(id, "image"), asked, picture=True)


def embed_sparse(texts: Sequence[str]) -> Ask[list[dict[int, float]]]:
    def read(told: Any) -> list[dict[int, float]]:
        return [{entry["index"]: entry["value"] for entry in one} for one in told]

    return Ask(read, "POST", "/v1/embed_sparse", json={"inputs": list(texts)})


def status() -> Ask[dict[str, Any]]:
    return Ask(dict, "GET", "/v1/status")


def documents(offset: int, limit: int) -> Ask[list[Document]]:
    asked = {"offset": offset, "limit": limit}
    return Ask(lambda told: [*map(Document.of, told["documents"])], "GET", "/v1/documents", asked)


def upload(path: Path, metadata: Mapping[str, Any] | None) -> Ask[Job]:
    given = {"metadata": json.dumps(dict(metadata))} if metadata else None
    where = f"/v1/documents/{quote(path.name, safe='')}"
    return Ask(Job.of, "PUT", where, given, content=path.read_bytes())


def add_paths(paths: Sequence[str], metadata: Mapping[str, Any] | None) -> Ask[Job]:
    body = {"paths": list(paths), "metadata": dict(metadata or {})}
    return Ask(Job.of, "POST", "/v1/documents", json=body)


def delete(doc_id: str) -> Ask[Job]:
    return Ask(Job.of, "DELETE", f"/v1/documents/{quote(doc_id, safe='')}")


def job(id: str) -> Ask[Job]:
    return Ask(Job.of, "GET", f"/v1/jobs/{id}")


def _filter(given: Conditions) -> dict[str, Any]:
    if not given:
        return {}
    return {
        "filter": given
        if isinstance(given, str)
        else dict(given)
        if isinstance(given, Mapping)
        else list(given)
    }
