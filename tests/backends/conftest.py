"""A stand-in for Qdrant's server: the local mode of its client, which takes the same calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.backends.places import MEMORY


@pytest.fixture(autouse=True, scope="session")
def local_qdrant() -> Iterator[None]:
    """For hosts that begin so; all others are looked for on the network."""
    from vsplade.backends import qdrant_server_store as store

    real = store.QdrantClient

    @cache
    def local(url: str) -> Any:
        client = real(":memory:")
        client.close = lambda *rest, **options: None  # a server goes on when one of its clients leaves
        return client

    def made(url: str, **given: Any) -> Any:
        return local(url) if f"//{MEMORY}" in url else real(url=url, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "QdrantClient", made)
        yield
