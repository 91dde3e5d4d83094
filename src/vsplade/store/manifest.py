"""The manifest: one small file that names every file of a commit. Swapping it is what commits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from vsplade.errors import IndexFormatError
from vsplade.store import file_names
from vsplade.store.durable import damaged, read_plain, write_durably
from vsplade.store.postings import MAX_PAGES, MAX_VOCABULARY

NAME = file_names.MANIFEST
VERSION = 2
_READABLE = ("1", "2")
"""Version 1 has no ``header_crc32``: its segments are only known by their size."""
_MARK = "vsplade-index"
_MOST_BYTES = 1 << 28
_LARGEST = (1 << 53) - 1
_FORMER = {"first_stage_terms", "term_values", "term_values_crc32"}
"""Keys in manifests of before that mean nothing any more."""
_CONTROLS = frozenset(map(chr, [*range(32), *range(127, 160)]))

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
    header_crc32: int | None = None
    """Of the segment's header, which holds the checksums of all its arrays: no other segment has it."""


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
    segments: tuple[SegmentEntry, ...] = ()
    state: tuple[StateEntry, ...] = ()

    def files(self) -> set[str]:
        """Every file that this commit needs."""
        needed = {segment.file for segment in self.segments} | {entry.file for entry in self.state}
        return needed | {segment.tombstones for segment in self.segments if segment.tombstones}

    def with_changes(self, **changes: Any) -> Manifest:
        return replace(self, **changes)


def exists(folder: Path) -> bool:
    """A manifest of any kind, also one that cannot be used: then ``load`` says why."""
    path = folder / NAME
    return path.exists() or path.is_symlink()


def store(folder: Path, manifest: Manifest) -> None:
    body = json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode()
    first = f"{_MARK} {VERSION} {zlib.crc32(body):08x}\n".encode()
    write_durably(folder / NAME, [first, body])


def load(folder: Path) -> Manifest:
    path = folder / NAME
    try:
        content = read_plain(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(folder) from error
    first, _, body = content.partition(b"\n")
    words = first[:100].decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != _MARK:
        raise damaged(path, "its first line is not one of vsplade's")
    if words[1] not in _READABLE:
        raise IndexFormatError(
            f"{path}: written in format version {words[1]}, this vsplade reads versions 1 to {VERSION}. "
            "Install a matching vsplade, or build the index again with `vsplade index`."
        )
    if words[2] != f"{zlib.crc32(body):08x}":
        raise damaged(path, "it fails its checksum")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not a JSON document") from error
    return _Checked(path).manifest(document)


def _missing(folder: Path) -> IndexFormatError:
    if folder.is_dir() and file_names.own_files(folder, "segment"):
        return IndexFormatError(
            f"{folder}: this index has lost its {NAME} file, but its pages are still here. Run `vsplade "
            f"index --recover --index {folder}` to get them back."
        )
    return IndexFormatError(
        f"{folder}: there is no index here. Build one with `vsplade index`, or check the folder's name."
    )


class _Checked:
    """Reads a manifest's JSON and trusts none of it: every name, type and range is checked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def manifest(self, document: Any) -> Manifest:
        given = self._object(document, Manifest)
        manifest = Manifest(
            encoder=self._text(given, "encoder"),
            fingerprint=self._text(given, "fingerprint"),
            vocabulary=self._whole(given, "vocabulary", 1, MAX_VOCABULARY),
            generation=self._whole(given, "generation", 0),
            next_file=self._whole(given, "next_file", 1),
            segments=tuple(map(self._segment, self._list(given, "segments"))),
            state=tuple(map(self._state, self._list(given, "state"))),
        )
        self._check_names(manifest)
        return manifest

    def _segment(self, entry: Any) -> SegmentEntry:
        given = self._object(entry, SegmentEntry)
        pages = self._whole(given, "pages", 1, MAX_PAGES)
        found = SegmentEntry(
            file=self._name(given, "file", "segment"),
            pages=pages,
            bytes=self._whole(given, "bytes", 1),
            deleted=self._whole(given, "deleted", 0, pages, 0),
            tombstones=self._optional_name(given, "tombstones", "deleted"),
            tombstones_crc32=self._whole(given, "tombstones_crc32", 0, 0xFFFFFFFF, 0),
            header_crc32=None
            if given.get("header_crc32") is None
            else self._whole(given, "header_crc32", 0, 0xFFFFFFFF),
        )
        if (found.tombstones is None) != (found.deleted == 0):
            raise self._wrong("tombstones", found.tombstones)
        return found

    def _state(self, entry: Any) -> StateEntry:
        given = self._object(entry, StateEntry)
        return StateEntry(
            self._name(given, "file", "state"),
            self._whole(given, "keys", 0),
            self._whole(given, "crc32", 0, 0xFFFFFFFF),
        )

    def _check_names(self, manifest: Manifest) -> None:
        parts = len(manifest.segments) + len(manifest.state)
        parts += sum(segment.tombstones is not None for segment in manifest.segments)
        files = manifest.files()
        if len(files) != parts:
            raise damaged(self._path, "it names a file twice")
        numbers = [parsed[1] for name in files if (parsed := file_names.parse_name(name))]
        if max(numbers, default=0) >= manifest.next_file:
            raise self._wrong("next_file", manifest.next_file)

    def _object(self, given: Any, kind: type) -> Mapping[str, Any]:
        known = {field.name for field in fields(kind)}
        if not isinstance(given, dict) or not set(given) <= known | _FORMER:
            raise damaged(self._path, "it does not have the keys that a manifest has")
        return given

    def _list(self, given: Mapping[str, Any], key: str) -> list[Any]:
        if not isinstance(given.get(key), list):
            raise self._wrong(key, given.get(key))
        found: list[Any] = given[key]
        return found

    def _text(self, given: Mapping[str, Any], key: str) -> str:
        """Shown on terminals: so without control characters, which these would obey."""
        value = given.get(key)
        if not isinstance(value, str) or len(value) > 4096 or _CONTROLS & set(value):
            raise self._wrong(key, value)
        return value

    def _whole(
        self,
        given: Mapping[str, Any],
        key: str,
        least: int,
        most: int = _LARGEST,
        default: int | None = None,
    ) -> int:
        value = given.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, value)
        return value

    def _name(self, given: Mapping[str, Any], key: str, kind: str) -> str:
        value = given.get(key)
        if not isinstance(value, str) or not file_names.is_numbered(value, kind):
            raise self._wrong(key, value)
        return value

    def _optional_name(self, given: Mapping[str, Any], key: str, kind: str) -> str | None:
        return None if given.get(key) is None else self._name(given, key, kind)

    def _wrong(self, key: str, value: object) -> IndexFormatError:
        return damaged(self._path, f"{key!r} cannot be {ascii(value)[:60]}")
