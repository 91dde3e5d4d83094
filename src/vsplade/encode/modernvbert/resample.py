"""Pillow's Lanczos resizing on torch tensors, so that a GPU cuts the tiles and the CPUs only decode.

Pillow resizes one axis after the other and rounds to bytes in between; so does this. The weights are its own,
rounded as it rounds them, and sums are taken in float32 instead of integers: a few values in a million come
out one step apart, where a sum lies on the border between two bytes. Rows come first; pillow 13
begins with columns in some cases, which for a page, whose sides change alike, is a step in a few places.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsplade.encode.modernvbert.processor import LANCZOS, Grid, ProcessorSettings, fit_edge, whole_tiles
from vsplade.pages.resize import LANCZOS_LOBES

_PRECISION = float(1 << 22)
_BLOCK = 1024


def weights(inputs: int, outputs: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """For every output its first input, and the weights of the inputs from there on."""
    scale = inputs / outputs
    stretch = max(scale, 1.0)
    support = LANCZOS_LOBES * stretch
    middle = (np.arange(outputs) + 0.5) * scale
    first = np.maximum((middle - support + 0.5).astype(np.int64), 0)
    last = np.minimum((middle + support + 0.5).astype(np.int64), inputs)
    place = first[:, None] + np.arange(int((last - first).max()))[None]
    x = (place - middle[:, None] + 0.5) / stretch
    taps = np.where(
        (np.abs(x) < LANCZOS_LOBES) & (place < last[:, None]), np.sinc(x) * np.sinc(x / LANCZOS_LOBES), 0.0
    )
    taps /= taps.sum(1, keepdims=True)
    rounded = np.trunc(taps * _PRECISION + np.copysign(0.5, taps)) / _PRECISION
    return first.astype(np.int32), rounded.astype(np.float32)


@lru_cache(maxsize=64)
def _weights_on(inputs: int, outputs: int, device: torch.device) -> tuple[Tensor, Tensor]:
    first, taps = weights(inputs, outputs)
    return torch.from_numpy(first).to(device), torch.from_numpy(taps).to(device)


def _resize_axis(picture: Tensor, size: int, axis: int) -> Tensor:
    """Bytes in, bytes out; ``axis`` 1 is down, 2 across."""
    if picture.shape[axis] == size:
        return picture
    first, taps = _weights_on(picture.shape[axis], size, picture.device)
    if picture.is_cuda:
        return _kernel_resize(picture, first, taps, axis)
    total: Tensor | None = None
    for number in range(taps.shape[1]):
        place = (first + number).clamp(max=picture.shape[axis] - 1)
        weight = taps[:, number]
        part = picture.index_select(axis, place) * (weight[:, None] if axis == 1 else weight)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("a filter without weights")
    return (total + 0.5).floor_().clamp_(0, 255).to(torch.uint8)


def _kernel_resize(picture: Tensor, first: Tensor, taps: Tensor, axis: int) -> Tensor:
    source = picture.contiguous()
    shape = list(source.shape)
    inner = math.prod(shape[axis + 1 :])
    inputs, shape[axis] = shape[axis], len(first)
    out = torch.empty(shape, dtype=torch.uint8, device=source.device)
    grid = (-(-out.numel() // _BLOCK),)
    wide = max(source.numel(), out.numel()) > 2**30
    _kernel()[grid](
        source, first, taps, out, out.numel(), inputs, len(first), inner, taps.shape[1], WIDE=wide,
        BLOCK=_BLOCK,
    )  # fmt: skip
    return out


@lru_cache(maxsize=1)
def _kernel() -> Any:
    from vsplade.encode.modernvbert.kernels import resample_axis

    return resample_axis


def resize(picture: Tensor, width: int, height: int) -> Tensor:
    """(channels, height, width) of bytes."""
    return _resize_axis(_resize_axis(picture, width, 2), height, 1)


def can_cut(settings: ProcessorSettings) -> bool:
    return settings.resample == LANCZOS


def cut(picture: Tensor, settings: ProcessorSettings) -> tuple[Tensor, Grid]:
    """What ``PageProcessor.tiles`` gives, for a picture of bytes (channels, height, width) with 1 or 3
    channels: (tiles, channels, size, size).
    """
    edge = settings.tile
    x = resize(picture, *fit_edge(picture.shape[2], picture.shape[1], settings.longest_edge))
    x = resize(x, *whole_tiles(x.shape[2], x.shape[1], edge))
    channels, rows, columns = x.shape[0], x.shape[1] // edge, x.shape[2] // edge
    if rows == columns == 1:
        return x[None], Grid(0, 0)
    tiles = x.view(channels, rows, edge, columns, edge).permute(1, 3, 0, 2, 4)
    whole = resize(x, edge, edge)
    return torch.cat([tiles.reshape(-1, channels, edge, edge), whole[None]]), Grid(rows, columns)
