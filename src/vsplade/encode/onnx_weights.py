"""Weights out of an ONNX file with NumPy alone: the few fields of its protocol buffers that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError

# Numbers of fields and types in onnx.proto.
_GRAPH, _INITIALIZER = 7, 5
_DIMENSIONS, _TYPE, _FLOATS, _INT32S, _INT64S, _NAME, _RAW = 1, 2, 4, 5, 7, 8, 9
_TYPES: dict[int, type[np.generic]] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64,
}  # fmt: skip
_HEAD = ("head.", "size.")
"""The parts of the network that head.onnx holds."""


def initializers(path: Path) -> dict[str, NDArray[np.generic]]:
    """Every constant of the graph, by its name."""
    try:
        return dict(_tensors(memoryview(path.read_bytes())))
    except (IndexError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged or not an ONNX file ({error}).") from error


def unpacked(path: Path) -> dict[str, NDArray[np.float32]]:
    """The weights of a reader's 8-bit file by their names in the network, as float32."""
    held = initializers(path)
    weights: dict[str, NDArray[np.float32]] = {}
    for name, value in held.items():
        base, _, suffix = name.rpartition("_")
        if suffix == "quantized":
            scale = held.get(f"{base}_scale", held.get(f"{name}_scale"))
            # the trunk's channels come first, the head's matrices are stored the other way round
            last = value.ndim == 2 and base.startswith(_HEAD)
            shape = (-1,) if last else (-1,) + (1,) * (value.ndim - 1)
            plain = value.astype(np.float32) * np.asarray(scale, np.float32).reshape(shape)
            weights[base] = np.ascontiguousarray(plain.T) if last else plain
        elif name.startswith(_HEAD) and name.endswith(".bias"):
            weights[name] = value.astype(np.float32)
    return weights


def _tensors(model: memoryview) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for number, graph in _fields(model):
        if number == _GRAPH and isinstance(graph, memoryview):
            for field, tensor in _fields(graph):
                if field == _INITIALIZER and isinstance(tensor, memoryview):
                    yield _tensor(tensor)


def _tensor(message: memoryview) -> tuple[str, NDArray[np.generic]]:
    dimensions: list[int] = []
    kind: type[np.generic] = np.float32
    name, values = "", np.zeros(0)
    for number, value in _fields(message):
        if isinstance(value, int):
            if number == _DIMENSIONS:
                dimensions.append(value)
            elif number == _TYPE:
                kind = _TYPES[value]
        elif number == _DIMENSIONS:
            dimensions += _integers(value)
        elif number == _NAME:
            name = bytes(value).decode()
        elif number == _FLOATS:
            values = np.frombuffer(value, np.float32)
        elif number in (_INT32S, _INT64S):
            values = np.array(_integers(value), np.int64)
        elif number == _RAW:
            values = np.frombuffer(value, np.uint8)
    if values.dtype == np.uint8:
        values = values.view(kind)
    return name, values.astype(kind).reshape(dimensions)


def _integers(packed: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == 2:
            length, at = _varint(message, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"field of unknown kind {wire}")
        if at + length > len(message):
            raise ValueError("it ends too early")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, at
        shift += 7
