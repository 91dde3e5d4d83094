"""The places that an index can be in, for tests that run against each of them."""

from __future__ import annotations

from pathlib import Path

from vsplade.store.segment import hash_id

ENGINES = ("milvus", "qdrant", "qdrant-client")
"""milvus-lite in a file, Qdrant's engine in this process, Qdrant's client in its local mode."""
PLACES = ("folder", *ENGINES)
"""``folder`` is the index that all others must agree with."""
MEMORY = "memory-"


def where(place: str, folder: Path, name: str = "pages") -> Path | str:
    """A place in a test's own folder."""
    if place == "folder":
        return folder / name
    return {
        "milvus": f"milvus://{folder}/milvus.db/{name}",
        "qdrant": f"qdrant://{folder}/edge.qdrant/{name}",
        "qdrant-client": f"qdrant://{MEMORY}{hash_id(str(folder)):x}/{name}",
    }[place]
