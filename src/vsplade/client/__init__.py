"""I have a server somewhere; how does a Python program talk to it? ``Client`` and ``AsyncClient``."""

from vsplade.client.clients import AsyncClient, Client
from vsplade.client.types import ClientError, Document, Job, Match, Places, RemoteHit, SearchResult, Snippet

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "Document",
    "Job",
    "Match",
    "Places",
    "RemoteHit",
    "SearchResult",
    "Snippet",
]
