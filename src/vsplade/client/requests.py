"""Each request that a client can send, once, for both clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from vsplade.client.answers import ClientError

Conditions = Mapping[str, Any] | str | Sequence[str] | None


class Switches(TypedDict, total=False):
    """What a search may be told by name; all are False where they are not given."""

    fuse: bool
    explain: bool
    snippets: bool
    words_only: bool
    """By the pages' words alone, not by what they are about."""


@dataclass(frozen=True, slots=True)
class Ask:
    method: str
    path: str
    params: dict[str, Any] | None = None
    json: Any = None
    content: bytes | None = None
    picture: bool = False


def checked(answer: Any, ask: Ask) -> Any:
    """What was asked for, or an error with the server's own words."""
    if answer.is_success:
        return answer.content if ask.picture else answer.json()
    try:
        told = answer.json()["error"]
        code, message = told["code"], told["message"]
    except (ValueError, KeyError, TypeError):
        code, message = "failed", f"The server answered {answer.status_code}."
    raise ClientError(answer.status_code, code, message)


def _page(id: str, what: str) -> str:
    return f"/v1/pages/{quote(id, safe='')}/{what}"


class Asking:
    """Makes requests."""

    @staticmethod
    def search(query: str, k: int, filter: Conditions, **switches: Unpack[Switches]) -> Ask:
        return Ask("POST", "/v1/search", json={"query": query, "k": k, **switches, **_filter(filter)})

    @staticmethod
    def search_batch(queries: Sequence[str], k: int, filter: Conditions, **switches: bool) -> Ask:
        body = {"queries": list(queries), "k": k, **switches, **_filter(filter)}
        return Ask("POST", "/v1/search", json=body)

    @staticmethod
    def explain(query: str, id: str) -> Ask:
        return Ask("GET", "/v1/explain", {"q": query, "id": id})

    @staticmethod
    def places(id: str, query: str) -> Ask:
        return Ask("GET", _page(id, "places"), {"q": query})

    @staticmethod
    def text(id: str) -> Ask:
        return Ask("GET", _page(id, "text"))

    @staticmethod
    def image(id: str, edge: int, query: str | None) -> Ask:
        return Ask("GET", _page(id, "image"), {"edge": edge, **({"q": query} if query else {})}, picture=True)

    @staticmethod
    def embed_sparse(texts: Sequence[str]) -> Ask:
        return Ask("POST", "/v1/embed_sparse", json={"inputs": list(texts)})

    @staticmethod
    def documents(offset: int, limit: int) -> Ask:
        return Ask("GET", "/v1/documents", {"offset": offset, "limit": limit})

    @staticmethod
    def upload(path: Path, metadata: Mapping[str, Any] | None) -> Ask:
        given = {"metadata": json.dumps(dict(metadata))} if metadata else None
        return Ask("PUT", f"/v1/documents/{quote(path.name, safe='')}", given, content=path.read_bytes())

    @staticmethod
    def add_paths(paths: Sequence[str], metadata: Mapping[str, Any] | None) -> Ask:
        return Ask("POST", "/v1/documents", json={"paths": list(paths), "metadata": dict(metadata or {})})

    @staticmethod
    def delete(doc_id: str) -> Ask:
        return Ask("DELETE", f"/v1/documents/{quote(doc_id, safe='')}")

    @staticmethod
    def job(id: str) -> Ask:
        return Ask("GET", f"/v1/jobs/{id}")


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
