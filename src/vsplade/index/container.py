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

from vsplade.errors import IndexFormatError
from vsplade.index.storage import Chunk, damaged, unreadable, write_durably

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
            with open(path, "rb") as file:
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
        if size != self._data + self.header["data_bytes"]:
            raise damaged(
                self.path, f"it has {size} bytes instead of {self._data + self.header['data_bytes']}"
            )
        self._arrays = {name: self._view(name, entry) for name, entry in self.header["arrays"].items()}

    def _read_header(self) -> dict[str, Any]:
        magic, version, length, checksum, reserved = _PREFIX.unpack_from(self._map)
        if magic != MAGIC or reserved:
            raise damaged(self.path, "it does not start with vsplade's mark")
        if version != VERSION:
            raise IndexFormatError(
                f"{self.path}: written in format version {version}, this vsplade reads version {VERSION}. "
                "Install a matching vsplade, or build the index again with `vsplade index`."
            )
        text = self._map[_PREFIX.size : _PREFIX.size + length]
        if zlib.crc32(text) != checksum:
            raise damaged(self.path, "its header fails the checksum")
        self._header_bytes = length
        header: dict[str, Any] = json.loads(text)
        return header

    def _view(self, name: str, entry: dict[str, Any]) -> Array:
        if entry["dtype"] not in DTYPES:
            raise damaged(self.path, f"array {name} has the unknown type {entry['dtype']}")
        return np.frombuffer(
            self._map, dtype=entry["dtype"], count=entry["count"], offset=self._data + entry["offset"]
        )

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

    def nbytes(self, prefix: str) -> int:
        """Bytes of all arrays whose name starts with ``prefix``."""
        return sum(array.nbytes for name, array in self._arrays.items() if name.startswith(prefix))

    def problems(self) -> Iterator[str]:
        """What a full read finds wrong: arrays that fail their checksum, padding that is not zero."""
        end = 0
        for name, entry in self.header["arrays"].items():
            array = self._arrays[name]
            if zlib.crc32(_bytes(array)) != entry["crc32"]:
                yield f"{self.path}: array {name} fails its checksum"
            end = entry["offset"] + array.nbytes
            if any(self._map[self._data + end : self._data + _aligned(end)]):
                yield f"{self.path}: bytes behind array {name} are not zero"
