"""Grey pages of different sizes, end to end: one transfer to the device, and one picture of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vsplade.encode.gpu.transfers import to_device


def padded(sizes: Sequence[tuple[int, int]], side: int) -> tuple[int, int]:
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    return height + -height % side, width + -width % side


@dataclass
class Packed:
    """Grey pages in main memory, end to end, and where each begins."""

    levels: Tensor
    start: list[int]
    sizes: list[tuple[int, int]]
    """(height, width); those beyond ``pages`` only fill the batch up."""
    pages: int
    askew: list[bool]
    """Of each page, whether its lines are."""


@dataclass
class PageBatch:
    """The same on the device."""

    levels: Tensor
    start: Tensor
    sizes: list[tuple[int, int]]
    pages: int
    askew: list[bool]

    def grey(self, number: int) -> Tensor:
        """(height, width) levels of one page."""
        height, width = self.sizes[number]
        first = sum(down * across for down, across in self.sizes[:number])
        return self.levels[first : first + height * width].view(height, width)

    def picture(self, side: int) -> Tensor:
        """(n, H, W), sides multiples of ``side``, the last row and column of each repeated to the end."""
        height, width = padded(self.sizes, side)
        device, size = self.levels.device, to_device(self.sizes, self.levels.device, torch.int32)
        row = torch.arange(height, device=device, dtype=torch.int32)[None].minimum(size[:, :1] - 1)
        column = torch.arange(width, device=device, dtype=torch.int32)[None].minimum(size[:, 1:] - 1)
        place = (self.start[:, None] + row * size[:, 1:])[:, :, None] + column[:, None]
        return self.levels.index_select(0, place.view(-1)).view(len(size), height, width)
