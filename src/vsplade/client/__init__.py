"""I have a server somewhere; how does a Python program talk to it? ``Client`` and ``AsyncClient``."""

from vsplade.client.answers import (
    ClientError,
    Document,
    Job,
    Match,
    OutOfReach,
    PagePlaces,
    RemoteHit,
    SearchResult,
    Snippet,
)
from vsplade.client.clients import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Document",
    "Job",
    "Match",
    "OutOfReach",
    "PagePlaces",
    "RemoteHit",
    "SearchResult",
    "Snippet",
]
