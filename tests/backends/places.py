"""The places that an index can be in, for tests that run against each of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def milvus_server(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The small edition's own server, in a process of its own; with the address of an index there."""
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder / "data")]
    process = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)])
    try:
        yield process, f"milvus://127.0.0.1:{port}/pages"
    finally:
        process.kill()
        process.wait()
