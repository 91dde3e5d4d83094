"""The manifest: one small file that names every file of a commit. Swapping it is what commits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vsplade.errors import IndexFormatError
from vsplade.index.storage import damaged, unreadable, write_durably

NAME = "MANIFEST"
VERSION = 1
_MARK = "vsplade-index"

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment file, and the tombstones of this commit (a separate file: segments never change)."""

    file: str
    pages: int
    bytes: int
    deleted: int = 0
    tombstones: str | None = None
    tombstones_crc32: int = 0


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A file of key-value changes; the manifest's list, applied in order, is the whole state."""

    file: str
    keys: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Manifest:
    encoder: str
    fingerprint: str
    vocabulary: int
    generation: int = 0
    next_file: int = 1
    """Number for the next file; only ever grows, so that no file name is used twice."""
    first_stage_terms: int = 0
    """Terms a page, on average, in the stored first stage of two-stage search; 0: not stored."""
    term_values: str | None = None
    """File with the encoder's table of them; None where it has none, and in indexes of before."""
    term_values_crc32: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    state: tuple[StateEntry, ...] = ()

    def files(self) -> set[str]:
        """Every file that this commit needs."""
        names = {segment.file for segment in self.segments} | {entry.file for entry in self.state}
        optional = [self.term_values, *(segment.tombstones for segment in self.segments)]
        return names | {name for name in optional if name}

    def with_changes(self, **changes: Any) -> Manifest:
        return replace(self, **changes)


def exists(folder: Path) -> bool:
    return (folder / NAME).is_file()


def store(folder: Path, manifest: Manifest) -> None:
    body = json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode()
    first = f"{_MARK} {VERSION} {zlib.crc32(body):08x}\n".encode()
    write_durably(folder / NAME, [first, body])


def load(folder: Path) -> Manifest:
    path = folder / NAME
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IndexFormatError(
            f"{folder}: there is no index here. Build one with `vsplade index`, or check the folder's name."
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    first, _, body = content.partition(b"\n")
    words = first.decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != _MARK:
        raise damaged(path, "its first line is not one of vsplade's")
    if words[1] != str(VERSION):
        raise IndexFormatError(
            f"{path}: written in format version {words[1]}, this vsplade reads version {VERSION}. "
            "Install a matching vsplade, or build the index again with `vsplade index`."
        )
    if words[2] != f"{zlib.crc32(body):08x}":
        raise damaged(path, "it fails its checksum")
    return _from_json(json.loads(body))


def _from_json(fields: Mapping[str, Any]) -> Manifest:
    segments = tuple(SegmentEntry(**entry) for entry in fields["segments"])
    state = tuple(StateEntry(**entry) for entry in fields["state"])
    return Manifest(**{**fields, "segments": segments, "state": state})
