"""Which pages of a segment are deleted, as of one commit: a bit a page, then the name of the segment."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.store.durable import damaged, read_plain
from vsplade.store.manifest import SegmentEntry

_LONGEST_NAME = 64


def pack_tombstones(deleted: NDArray[np.bool_], segment: str) -> bytes:
    """With the segment's name: so they can be told apart when the manifest is lost."""
    return np.packbits(deleted, bitorder="little").tobytes() + segment.encode("ascii")


def unpack_tombstones(body: bytes, pages: int) -> tuple[NDArray[np.bool_], str] | None:
    """(deleted, the segment's name); None where the bits are not those of so many pages. The name is empty in
    indexes of before."""
    size = -(-pages // 8)
    bits = np.unpackbits(np.frombuffer(body[:size], dtype=np.uint8), bitorder="little")
    if len(body) < size or bits[pages:].any():
        return None
    return bits[:pages] == 1, body[size:].decode("ascii", "replace")


def read_live(folder: Path, entry: SegmentEntry) -> NDArray[np.bool_] | None:
    """The live pages of a manifest's segment; None: all of them."""
    if entry.tombstones is None:
        return None
    path = folder / entry.tombstones
    body = read_plain(path, MOST_BYTES)
    if zlib.crc32(body) != entry.tombstones_crc32:
        raise damaged(path, "it fails its checksum")
    unpacked = unpack_tombstones(body, entry.pages)
    if unpacked is None or unpacked[1] not in ("", entry.file):
        raise damaged(path, "it is not of the segment that the manifest says")
    deleted = unpacked[0]
    if int(np.count_nonzero(deleted)) != entry.deleted:
        raise damaged(path, f"it does not delete {entry.deleted} pages")
    return ~deleted


MOST_BYTES = (1 << 13) + _LONGEST_NAME
