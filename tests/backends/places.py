"""The places that an index can be in, for tests that run against each of them."""

from __future__ import annotations

from pathlib import Path

ENGINES = ("milvus", "qdrant")
PLACES = ("folder", *ENGINES)
"""``folder`` is the index that all others must agree with."""


def where(place: str, folder: Path, name: str = "pages") -> Path | str:
    """A place in a test's own folder."""
    if place == "folder":
        return folder / name
    return {
        "milvus": f"milvus://{folder}/milvus.db/{name}",
        "qdrant": f"qdrant://{folder}/edge.qdrant/{name}",
    }[place]
