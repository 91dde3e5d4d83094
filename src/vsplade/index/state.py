"""A small key-value store that commits with the pages: a job's own records (files, hashes, failures).

Each commit adds one file with the keys it changed; a few files at most, then they are joined into one.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from vsplade.index.manifest import JsonValue, StateEntry
from vsplade.index.storage import damaged, to_bytes, write_durably

MAX_FILES = 8
State = dict[str, JsonValue]


def write_changes(path: Path, changes: Mapping[str, JsonValue]) -> StateEntry:
    """``changes`` maps a key to its new value, or to None where the key was removed."""
    body = to_bytes(json.dumps(changes, ensure_ascii=False, separators=(",", ":")))
    write_durably(path, [body])
    return StateEntry(path.name, len(changes), zlib.crc32(body))


class StateFiles:
    """The state's files of one commit, held open: a writer may remove them before they are parsed."""

    def __init__(self, folder: Path, entries: Sequence[StateEntry]) -> None:
        self._folder = folder
        self._bodies = [(entry, _map(folder / entry.file)) for entry in entries]

    def read(self) -> State:
        state: State = {}
        for entry, body in self._bodies:
            if zlib.crc32(body) != entry.crc32:
                raise damaged(self._folder / entry.file, "it fails its checksum")
            state.update(json.loads(body[:]))
        return {key: value for key, value in state.items() if value is not None}


def _map(path: Path) -> mmap.mmap | bytes:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.seek(0, 2) else b""
