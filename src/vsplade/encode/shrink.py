"""Smaller copies of many pages at once, on torch tensors: what ``pages.fit`` does with Pillow, as two matrix
products.

Pillow's Lanczos filter works along one axis after the other and rounds to bytes in between; so does this.
Where a copy has less than a quarter of a page's edge, Pillow averages small blocks first and rounds them to
bytes; here that average is part of the filter. Copies agree within one grey level on nearly all pixels (the
tests say how nearly).
"""

from __future__ import annotations

from collections.abc import Sequence

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
    across = _filter([s[1] for s in old], [s[1] for s in new], pages.shape[2], width, pages)
    narrow = torch.bmm(pages, across.transpose(1, 2)).round_().clamp_(0, 255)
    down = _filter([s[0] for s in old], [s[0] for s in new], pages.shape[1], height, pages)
    return torch.bmm(down, narrow).round_().clamp_(0, 255)


def _filter(old: list[int], new: list[int], inputs: int, outputs: int, like: Tensor) -> Tensor:
    """(n, outputs, inputs) weights of Pillow's Lanczos filter; rows add up to one."""
    if len(set(zip(old, new, strict=True))) == 1 < len(old):
        return _filter(old[:1], new[:1], inputs, outputs, like).expand(len(old), -1, -1)
    taps, device = _most_taps(old, new), like.device
    numbers = torch.tensor([old, new], dtype=torch.float64)
    if device.type == "cuda":
        numbers = numbers.pin_memory()
    size, target = numbers.to(device, non_blocking=True)[:, :, None]  # (n, 1)
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
    dense = torch.zeros(len(old), outputs, inputs + taps, dtype=like.dtype, device=device)
    dense.scatter_(2, place.long(), weights.to(like.dtype))
    return dense[:, :, :inputs]


def _most_taps(old: list[int], new: list[int]) -> int:
    """Inputs that one output may take in, over all pages; a multiple of 8, for aligned rows."""
    most = 0
    for size, target in set(zip(old, new, strict=True)):
        factor = max(1, int(size / target / _GAP))
        most = max(most, (int(2 * _LOBES * max(1.0, size / factor / target)) + 2) * factor)
    return most + -most % 8
