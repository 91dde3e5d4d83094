"""How a renderer's process and its parent talk: frames of a JSON header and raw bytes. Nothing is pickled.

Jobs go in on the worker's standard input, one JSON object a line. Answers come out on its standard output:
12 bytes (length of the header, length of the payload), the header, the payload. A page's payload is its
pixels (1 or 3 bytes each, rows from the top, no padding) followed by its thumbnail; the pixels may also lie
in shared memory, at the ``slot`` that the header names. The answer about the last page of a job says so
(``last``): one frame less for each picture that is a file of its own.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from io import BufferedReader
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<IQ")

_SMALL_BYTES = 1 << 16
"""A payload up to here is sent in one go with its header."""

Header = dict[str, Any]


def write_frame(descriptor: int, header: Mapping[str, object], *payload: bytes | memoryview) -> None:
    """Send one answer; blocks while the parent is busy, which is all the backpressure there is here."""
    encoded = json.dumps(header).encode()
    parts = [memoryview(part).cast("B") for part in payload]
    length = sum(map(len, parts))
    parts.insert(0, memoryview(_LENGTHS.pack(len(encoded), length) + encoded))
    if length <= _SMALL_BYTES:
        parts = [memoryview(b"".join(parts))]
    for part in parts:
        _write_all(descriptor, part)


def write_at(descriptor: int, data: bytes | memoryview, start: int) -> None:
    """Into shared memory; beside the frames, so it must be there before the frame that speaks of it."""
    left = memoryview(data).cast("B")
    while left:
        written = os.pwrite(descriptor, left, start)
        left, start = left[written:], start + written


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def read_frame(stream: BufferedReader) -> tuple[Header, NDArray[np.uint8]] | None:
    """The next answer, or None when the worker's process has ended.

    A buffered stream gives less than it was asked for at its end only. A small frame costs one system call,
    and a payload larger than the buffer goes past it, straight to where it will stay.
    """
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_length, payload_length = _LENGTHS.unpack(lengths)
    header = stream.read(header_length)
    # Not a bytearray: that would be filled with zeros first, and no other thread could run meanwhile.
    payload = np.empty(payload_length, np.uint8)
    if len(header) < header_length or stream.readinto(payload.data) < payload_length:
        return None
    return json.loads(header.decode()), payload
