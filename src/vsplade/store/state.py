"""A small key-value store that commits with the pages: a job's own records (files, hashes, failures).

Each commit adds one file with the keys it changed; a few files at most, then they are joined into one.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from vsplade.store.durable import damaged, open_plain, to_bytes, unreadable, write_durably
from vsplade.store.manifest import JsonValue, StateEntry

MAX_FILES = 8
MOST_STATE_BYTES = 1 << 32
FILE_RECORDS = "file:"
"""Keys that begin so are what the ingest job knows of a file; the rest of the key is its path."""
State = dict[str, JsonValue]


def write_changes(path: Path, changes: Mapping[str, JsonValue]) -> StateEntry:
    """``changes`` maps a key to its new value, or to None where the key was removed."""
    body = to_bytes(json.dumps(changes, ensure_ascii=False, separators=(",", ":")))
    write_durably(path, [body])
    return StateEntry(path.name, len(changes), zlib.crc32(body))


class StateReader(Protocol):
    """Where the state of a commit is read from."""

    def read(self) -> State: ...


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
            state.update(parse_state(self._folder / entry.file, body[:]))
        return {key: value for key, value in state.items() if value is not None}


def parse_state(path: Path, body: bytes) -> State:
    try:
        changes: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not a JSON document") from error
    if not isinstance(changes, dict):
        raise damaged(path, "it is not a JSON object")
    return changes


def _map(path: Path) -> mmap.mmap | bytes:
    with open_plain(path) as file:
        try:
            size = file.seek(0, 2)
            if size > MOST_STATE_BYTES:
                raise damaged(path, f"it has {size} bytes, more than such a file can have")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except (OSError, ValueError) as error:
            raise unreadable(path, OSError(str(error))) from error
