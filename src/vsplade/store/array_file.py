"""One file of named plain arrays: a fixed prefix, a JSON header, then the arrays, each with its checksum.

docs/index-format.md describes the bytes; this is the only module that reads or writes them.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import DamagedFileError
from vsplade.store.durable import Chunk, damaged, open_plain, unreadable, write_durably

MAGIC = b"VSPLADE\x00"
VERSION = 1
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sIIII")  # magic, version, header bytes, header crc32, zero

Array = NDArray[Any]
DTYPES = ("<u1", "<u2", "<u4", "<u8", "<f4")


def _aligned(size: int) -> int:
    return -size % ALIGNMENT + size


def _bytes(array: Array) -> memoryview:
    return array.data.cast("B") if array.size else memoryview(b"")


def write_container(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> int:
    """Write ``arrays`` (one-dimensional) with ``header``; returns the file's size in bytes."""
    table: dict[str, dict[str, Any]] = {}
    views: list[Chunk] = []
    position = 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        view = _bytes(little)
        table[name] = {
            "dtype": f"<{little.dtype.kind}{little.dtype.itemsize}",
            "count": int(little.size),
            "offset": position,
            "crc32": zlib.crc32(view),
        }
        padding = _aligned(len(view)) - len(view)
        views += [view, bytes(padding)]
        position += len(view) + padding
    text = json.dumps({**header, "data_bytes": position, "arrays": table}, separators=(",", ":")).encode()
    text += b" " * (_aligned(_PREFIX.size + len(text)) - _PREFIX.size - len(text))
    prefix = _PREFIX.pack(MAGIC, VERSION, len(text), zlib.crc32(text), 0)
    return write_durably(path, [prefix, text, *views])


class Container:
    """A memory-mapped container. Arrays are views of the map: reading touches only what is used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_plain(path) as file:
                size = file.seek(0, 2)
                if size < _PREFIX.size:
                    raise damaged(self.path, f"it has only {size} bytes")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise  # a reader may have to begin again: snapshot.py decides
        except OSError as error:
            raise unreadable(path, error) from error
        self.size = size
        self.header = self._read_header()
        self._data = _PREFIX.size + self._header_bytes
        data_bytes = self.whole("data_bytes", 0, 1 << 62)
        if size != self._data + data_bytes:
            raise damaged(self.path, f"it has {size} bytes instead of {self._data + data_bytes}")
        table = self.header.get("arrays")
        if not isinstance(table, dict):
            raise damaged(self.path, "its header lists no arrays")
        self._arrays = {name: self._view(name, entry) for name, entry in table.items()}

    def _read_header(self) -> dict[str, Any]:
        magic, version, length, checksum, reserved = _PREFIX.unpack_from(self._map)
        if magic != MAGIC or reserved:
            raise damaged(self.path, "it does not start with vsplade's mark")
        if version != VERSION:
            reason = f"written in format version {version}, this vsplade reads version {VERSION}"
            raise DamagedFileError(
                f"{self.path}: {reason}. Install a matching vsplade, or build the index again with "
                "`vsplade index`.",
                self.path,
                reason,
            )
        text = self._map[_PREFIX.size : _PREFIX.size + length]
        if len(text) != length or zlib.crc32(text) != checksum:
            raise damaged(self.path, "its header fails the checksum")
        self._header_bytes: int = length
        self.header_crc32: int = checksum
        try:
            header: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise damaged(self.path, "its header is not a JSON document") from error
        if not isinstance(header, dict):
            raise damaged(self.path, "its header is not a JSON object")
        return header

    def whole(self, key: str, least: int, most: int) -> int:
        """A number of the header, within these limits."""
        value = self.header.get(key)
        if type(value) is not int or not least <= value <= most:
            raise damaged(self.path, f"{key!r} in its header cannot be {ascii(value)[:60]}")
        return value

    def _view(self, name: str, entry: object) -> Array:
        """The array of a header's entry; the header may come from anybody, so nothing of it is believed."""
        keys = ("count", "offset", "crc32")
        if not isinstance(entry, dict) or any(type(entry.get(key)) is not int for key in keys):
            raise damaged(self.path, f"the array {name!a} is not described as arrays are")
        count, offset = entry["count"], entry["offset"]
        if entry.get("dtype") not in DTYPES:
            raise damaged(self.path, f"the array {name!a} has an unknown type")
        size = count * np.dtype(entry["dtype"]).itemsize
        if count < 0 or offset < 0 or offset % ALIGNMENT or offset + size > self.header["data_bytes"]:
            raise damaged(self.path, f"the array {name!a} lies outside of the file")
        if count == 0:
            return np.zeros(0, dtype=entry["dtype"])
        return np.frombuffer(self._map, dtype=entry["dtype"], count=count, offset=self._data + offset)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def expect_random_reads(self, first_array: str, random: bool = True) -> None:
        """Tell the system that the file from ``first_array`` on is read here and there (or, again, in order).

        Read-ahead of 128 KiB for each 2 KiB vector would push the searchable part of an index larger than
        memory out of it (measured: 10 million pages, 23 GiB: 8 ms became 300).
        """
        if hasattr(mmap, "MADV_RANDOM"):  # not on Windows
            start = self._data + self.header["arrays"][first_array]["offset"]
            start -= start % mmap.PAGESIZE
            advice = mmap.MADV_RANDOM if random else mmap.MADV_NORMAL
            self._map.madvise(advice, start, self.size - start)

    @property
    def content(self) -> memoryview:
        """The whole file."""
        return memoryview(self._map)

    def nbytes(self, prefix: str) -> int:
        """Bytes of all arrays whose name starts with ``prefix``."""
        return sum(array.nbytes for name, array in self._arrays.items() if name.startswith(prefix))

    def is_whole(self, name: str) -> bool:
        """Whether an array is there and has its checksum."""
        entry = self.header["arrays"].get(name)
        return entry is not None and zlib.crc32(_bytes(self._arrays[name])) == entry["crc32"]

    def problems(self) -> Iterator[str]:
        """What a full read finds wrong: arrays that fail their checksum, padding that is not zero."""
        end = 0
        for name, entry in self.header["arrays"].items():
            array = self._arrays[name]
            if not self.is_whole(name):
                yield f"{self.path}: array {name} fails its checksum"
            end = entry["offset"] + array.nbytes
            if any(self._map[self._data + end : self._data + _aligned(end)]):
                yield f"{self.path}: bytes behind array {name} are not zero"
