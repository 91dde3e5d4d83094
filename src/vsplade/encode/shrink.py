"""Smaller copies of many pages at once, on torch tensors: what ``pages.fit`` does with Pillow, as two matrix
products.

Pillow's Lanczos filter works along one axis after the other and rounds to bytes in between; so does this.
Where a copy has less than a quarter of a page's edge, Pillow averages small blocks first and rounds them to
bytes; here that average is part of the filter. Copies agree within one grey level on nearly all pixels (the
tests say how nearly).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_LOBES = 3.0
_GAP = 2.0
"""``reducing_gap`` of ``pages.fit``."""

Sizes = Sequence[tuple[int, int]]
"""(height, width) of each page."""


def shrink(pages: Tensor, old: Sizes, new: Sizes, height: int, width: int) -> Tensor:
    """Grey levels (n, H, W) of pages with the sizes ``old`` as (n, height, width) with the sizes ``new``, the
    last row and column repeated to the end.
    """
    sides = [[(a[axis], b[axis]) for a, b in zip(old, new, strict=True)] for axis in (1, 0)]
    numbers = on(sides, pages.device, torch.float64)
    across = _filter(sides[0], numbers[0], pages.shape[2], width, pages)
    narrow = torch.bmm(pages, across.transpose(1, 2)).round_().clamp_(0, 255)
    down = _filter(sides[1], numbers[1], pages.shape[1], height, pages)
    return torch.bmm(down, narrow).round_().clamp_(0, 255)


def on(numbers: Sequence[Any], device: torch.device, kind: Any) -> Tensor:
    """A small tensor, without waiting for the device."""
    plain = torch.tensor(numbers, dtype=kind)
    return plain.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else plain.to(device)


def _filter(sides: list[tuple[int, int]], numbers: Tensor, inputs: int, outputs: int, like: Tensor) -> Tensor:
    """(n, outputs, inputs) weights of Pillow's Lanczos filter; rows add up to one.

    ``sides``, old and new, on the device too: ``numbers``.
    """
    if len(set(sides)) == 1 < len(sides):
        return _filter(sides[:1], numbers[:1], inputs, outputs, like).expand(len(sides), -1, -1)
    taps, device = _most_taps(sides), like.device
    size, target = numbers[:, :1], numbers[:, 1:]
    factor = (size / target / _GAP).floor().clamp(min=1)
    cells = (size / factor).ceil()
    ratio = size / factor / target  # of the reduced axis to the new one
    stretch = ratio.clamp(min=1)
    index = torch.arange(outputs, device=device)[None].minimum(target - 1)
    middle = (index + 0.5) * ratio
    first = (middle - _LOBES * stretch + 0.5).floor().clamp(min=0)
    last = (middle + _LOBES * stretch + 0.5).floor().minimum(cells)
    place = (first * factor)[:, :, None] + torch.arange(taps, device=device)
    cell = (place / factor[:, :, None]).floor()
    count = (size[:, :, None] - cell * factor[:, :, None]).minimum(factor[:, :, None]).clamp(min=1)
    x = ((cell + 0.5 - middle[:, :, None]) / stretch[:, :, None]).float()
    inside = (cell < last[:, :, None]) & (place < size[:, :, None]) & (x.abs() < _LOBES)
    weights = torch.where(inside, torch.sinc(x) * torch.sinc(x / _LOBES), 0.0) / count.float()
    weights = weights / weights.sum(2, keepdim=True)
    # room for the taps beyond the end, all zero, so that each has a place of its own
    dense = torch.zeros(len(sides), outputs, inputs + taps, dtype=like.dtype, device=device)
    dense.scatter_(2, place.long(), weights.to(like.dtype))
    return dense[:, :, :inputs]


def _most_taps(sides: list[tuple[int, int]]) -> int:
    """Inputs that one output may take in, over all pages; a multiple of 8, for aligned rows."""
    most = 0
    for size, target in set(sides):
        factor = max(1, int(size / target / _GAP))
        most = max(most, (int(2 * _LOBES * max(1.0, size / factor / target)) + 2) * factor)
    return most + -most % 8
