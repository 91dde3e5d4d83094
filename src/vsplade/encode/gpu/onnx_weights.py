"""Weights out of the reader's ONNX files, for the reader in torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from vsplade.errors import InputError

_HEAD = ("head.", "size.")
"""The parts of the network that head.onnx holds."""


def initializers(path: Path) -> dict[str, NDArray[np.generic]]:
    """Every constant of the graph, by its name."""
    try:
        graph = onnx.load(path).graph
    except (DecodeError, OSError) as error:
        raise InputError(f"{path} is damaged or not an ONNX file ({error}).") from error
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


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
