"""The constants of an ONNX file, without the package ``onnx``: its messages are walked, tag by tag.

Only what stands in the reader's own files is understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError

_GRAPH, _INITIALIZER = 7, 5
_DIMS, _TYPE, _FLOATS, _INTS, _NAME, _RAW = 1, 2, 4, 5, 8, 9
"""Numbers of fields: of the model, of its graph, and of a tensor."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}


def constants(path: Path) -> dict[str, NDArray[Any]]:
    """Every constant of the graph, by its name; those of other types are left out."""
    try:
        found = {}
        for graph in _all(memoryview(path.read_bytes()), _GRAPH):
            for tensor in _all(graph, _INITIALIZER):
                name, values = _tensor(tensor)
                if values is not None:
                    found[name] = values
    except (OSError, IndexError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is damaged or not an ONNX file ({error}).") from error
    return found


def _tensor(message: memoryview) -> tuple[str, NDArray[Any] | None]:
    """Its name and its values, which lie there as bytes, as floats or as whole numbers."""
    sides: list[int] = []
    name, kind, values = "", 0, None
    for number, value in _fields(message):
        if number == _DIMS:
            sides += [value] if isinstance(value, int) else _varints(value)
        elif isinstance(value, int):
            kind = value if number == _TYPE else kind
        elif number == _NAME:
            name = bytes(value).decode()
        elif number in (_FLOATS, _INTS, _RAW) and len(value):
            values = (number, value)
    if kind not in _TYPES or values is None:
        return name, None
    number, value = values
    if number == _INTS:
        return name, np.array(_varints(value), np.uint64).astype(_TYPES[kind]).reshape(sides)
    return name, np.frombuffer(value, np.float32 if number == _FLOATS else _TYPES[kind]).reshape(sides)


def _all(message: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(message):
        if number == wanted and not isinstance(value, int):
            yield value


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        length = {_EIGHT: 8, _FOUR: 4}.get(kind)
        if kind == _BYTES:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise ValueError("a field ends beyond its message")
        yield number, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number has no end")


def _varints(message: memoryview) -> Sequence[int]:
    if max(message, default=0) < 0x80:  # a byte each
        return message
    values, at = [], 0
    while at < len(message):
        value, at = _varint(message, at)
        values.append(value)
    return values
