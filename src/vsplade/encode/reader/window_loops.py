"""Compiled loops around the trunk: pixels of a window as it takes them, and its answer cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.compiled import compiled
from vsplade.encode.reader.ink_windows import FOLD

_DARKNESS = (255 - np.arange(256)).astype(np.float32) / np.float32(255)


def folded(window: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(height, width) of grey levels to (1, 16, height / 4, width / 4), black as 1: the pixels of each
    4 x 4 block become channels.
    """
    height, width = window.shape
    out = np.empty((1, FOLD * FOLD, height // FOLD, width // FOLD), np.float32)
    _fold(window, _DARKNESS, out[0])
    return out


@compiled()
def _fold(window: Any, darkness: Any, out: Any) -> None:
    channels, rows, columns = out.shape
    for channel in range(channels):
        down, across = channel // FOLD, channel % FOLD
        for row in range(rows):
            for column in range(columns):
                out[channel, row, column] = darkness[window[row * FOLD + down, column * FOLD + across]]


def gathered(
    fine: NDArray[np.float32],
    coarse: NDArray[np.float32],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> NDArray[np.float32]:
    """The features of some cells: their own, and those of the coarse cells that they lie in."""
    out = np.empty((len(rows), len(fine) + len(coarse)), np.float32)
    _gather(fine, rows, columns, out[:, : len(fine)])
    _gather(coarse, rows // 2, columns // 2, out[:, len(fine) :])
    return out


@compiled()
def _gather(planes: Any, rows: Any, columns: Any, out: Any) -> None:
    for number in range(len(planes)):
        for cell in range(len(rows)):
            out[cell, number] = planes[number, rows[cell], columns[cell]]
