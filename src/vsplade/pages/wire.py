"""How a renderer's process and its parent talk: frames of a JSON header and raw bytes. Nothing is pickled.

Jobs go in on the worker's standard input, one JSON object a line. Answers come out on its standard output:
12 bytes (length of the header, length of the payload), the header, the payload. A page's payload is its
pixels (1 or 3 bytes each, rows from the top, no padding) followed by its thumbnail; the pixels may also lie
in shared memory, at the ``slot`` that the header names.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_LENGTHS = struct.Struct("<IQ")

Header = dict[str, Any]


def write_frame(descriptor: int, header: Mapping[str, object], *payload: bytes | memoryview) -> None:
    """Send one answer; blocks while the parent is busy, which is all the backpressure there is here."""
    encoded = json.dumps(header).encode()
    parts = [memoryview(part).cast("B") for part in payload]
    _write_all(descriptor, memoryview(_LENGTHS.pack(len(encoded), sum(map(len, parts))) + encoded))
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


def read_frame(stream: IO[bytes]) -> tuple[Header, NDArray[np.uint8]] | None:
    """The next answer, or None when the worker's process has ended."""
    lengths = _read_exactly(stream, _LENGTHS.size)
    if lengths is None:
        return None
    header_length, payload_length = _LENGTHS.unpack(lengths.data)
    header = _read_exactly(stream, header_length)
    payload = _read_exactly(stream, payload_length)
    if header is None or payload is None:
        return None
    return json.loads(header.tobytes()), payload


def _read_exactly(stream: IO[bytes], length: int) -> NDArray[np.uint8] | None:
    # Not a bytearray: that would be filled with zeros first, and no other thread could run meanwhile.
    data = np.empty(length, np.uint8)
    view = data.data
    while view:
        count = stream.readinto(view)  # type: ignore[attr-defined]
        if not count:
            return None
        view = view[count:]
    return data
