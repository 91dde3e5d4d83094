"""Safetensors files read with numpy alone: the query side of a model must not need torch."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError

_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class TensorInfo:
    kind: str
    shape: tuple[int, ...]
    begin: int
    end: int


class TensorFile:
    """The header is read and checked at once, a tensor when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                if not 2 <= length <= min(_LARGEST_HEADER, size - 8):
                    raise ValueError("its header is longer than the file")
                header = json.loads(file.read(length))
            self.metadata: dict[str, str] = header.pop("__metadata__", {})
            self.tensors = {name: _info(entry, 8 + length, size) for name, entry in header.items()}
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
            raise InputError(
                f"{path} is not a sound safetensors file ({error}). Download it again."
            ) from error

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def read(self, name: str) -> NDArray[np.float32]:
        """One tensor in float32."""
        info = self.tensors[name]
        with self.path.open("rb") as file:
            file.seek(info.begin)
            raw = np.frombuffer(file.read(info.end - info.begin), dtype=_NUMPY[info.kind])
        if info.kind == "BF16":  # the upper half of a float32
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32).reshape(info.shape)


def _info(entry: Any, data: int, size: int) -> TensorInfo:
    kind, shape = str(entry["dtype"]), tuple(int(edge) for edge in entry["shape"])
    begin, end = (int(place) for place in entry["data_offsets"])
    if kind in _NUMPY and end - begin != math.prod(shape) * np.dtype(_NUMPY[kind]).itemsize:
        raise ValueError("a tensor's shape and size disagree")
    if not 0 <= begin <= end <= size - data:
        raise ValueError("a tensor lies outside the file")
    return TensorInfo(kind, shape, data + begin, data + end)
