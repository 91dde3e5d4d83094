"""Smaller copies of many pages at once, on torch tensors: what ``pages.fit`` does with Pillow, as two matrix
products.

Pillow's Lanczos filter works along one axis after the other and rounds to bytes in between; so does this.
Where a copy has less than a quarter of a page's edge, Pillow averages small blocks first and rounds them to
bytes; here that average is part of the filter. Copies agree within one grey level on nearly all pixels (the
tests say how nearly).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from vsplade.encode.gpu.transfers import kernels, to_device
from vsplade.pages.resize import LANCZOS_LOBES

_GAP = 2.0
"""``reducing_gap`` of ``pages.fit``."""

Sizes = Sequence[tuple[int, int]]
"""(height, width) of each page."""
Sides = list[tuple[int, int]]
"""Old and new length of one side of each page."""


def shrink(pages: Tensor, old: Sizes, new: Sizes, height: int, width: int) -> Tensor:
    """Grey levels (n, H, W) of pages with the sizes ``old`` as (n, height, width) with the sizes ``new``, the
    last row and column repeated to the end.
    """
    sides = [[(a[axis], b[axis]) for a, b in zip(old, new, strict=True)] for axis in (1, 0)]
    numbers = to_device(sides, pages.device, torch.float64)
    across = _filter(sides[0], numbers[0], pages.shape[2], width, pages)
    narrow = torch.bmm(pages, across.transpose(1, 2)).round_().clamp_(0, 255)
    down = _filter(sides[1], numbers[1], pages.shape[1], height, pages)
    return torch.bmm(down, narrow).round_().clamp_(0, 255)


def _filter(sides: Sides, numbers: Tensor, inputs: int, outputs: int, like: Tensor) -> Tensor:
    """(n, outputs, inputs) weights of Pillow's Lanczos filter; rows add up to one.

    ``numbers`` are the sides on the device.
    """
    if len(set(sides)) == 1 < len(sides):
        return _filter(sides[:1], numbers[:1], inputs, outputs, like).expand(len(sides), -1, -1)
    if like.is_cuda and kernel_works(like.device):
        return _filter_by_kernel(sides, numbers, inputs, outputs, like)
    return _filter_by_torch(sides, numbers, inputs, outputs, like)


def _filter_by_kernel(sides: Sides, numbers: Tensor, inputs: int, outputs: int, like: Tensor) -> Tensor:
    """The same in one call: torch takes fifty for it, and those of a batch took longer than its pages."""
    dense = torch.zeros(len(sides), outputs, inputs, dtype=like.dtype, device=like.device)
    kernels().lanczos(numbers, dense, _most_taps(sides))
    return dense


@cache
def kernel_works(device: torch.device) -> bool:
    """Whether the kernel does here what torch does: pages must be read also where Triton cannot be used."""
    if kernels() is None:
        return False
    sides = [(96, 64), (96, 40), (90, 11), (31, 40)]
    like, numbers = (
        torch.zeros(1, dtype=torch.float16, device=device),
        to_device(sides, device, torch.float64),
    )
    try:
        made, expected = (
            work(sides, numbers, 128, 72, like) for work in (_filter_by_kernel, _filter_by_torch)
        )
        same = bool((made.float() - expected.float()).abs().max() < 2e-3)
    except Exception as error:  # Triton's compiler has many
        warnings.warn(f"Triton cannot be used here, reading is slower: {error}", stacklevel=2)
        return False
    if not same:
        warnings.warn("Triton's results are not torch's here; reading is slower without it.", stacklevel=2)
    return same


def _filter_by_torch(sides: Sides, numbers: Tensor, inputs: int, outputs: int, like: Tensor) -> Tensor:
    taps, device = _most_taps(sides), like.device
    size, target = numbers[:, :1], numbers[:, 1:]
    factor = (size / target / _GAP).floor().clamp(min=1)
    cells = (size / factor).ceil()
    ratio = size / factor / target  # of the reduced axis to the new one
    stretch = ratio.clamp(min=1)
    index = torch.arange(outputs, device=device)[None].minimum(target - 1)
    middle = (index + 0.5) * ratio
    first = (middle - LANCZOS_LOBES * stretch + 0.5).floor().clamp(min=0)
    last = (middle + LANCZOS_LOBES * stretch + 0.5).floor().minimum(cells)
    place = (first * factor)[:, :, None] + torch.arange(taps, device=device)
    cell = (place / factor[:, :, None]).floor()
    count = (size[:, :, None] - cell * factor[:, :, None]).minimum(factor[:, :, None]).clamp(min=1)
    x = ((cell + 0.5 - middle[:, :, None]) / stretch[:, :, None]).float()
    inside = (cell < last[:, :, None]) & (place < size[:, :, None]) & (x.abs() < LANCZOS_LOBES)
    weights = torch.where(inside, torch.sinc(x) * torch.sinc(x / LANCZOS_LOBES), 0.0) / count.float()
    weights = weights / weights.sum(2, keepdim=True)
    # room for the taps beyond the end, all zero, so that each has a place of its own
    dense = torch.zeros(len(sides), outputs, inputs + taps, dtype=like.dtype, device=device)
    dense.scatter_(2, place.long(), weights.to(like.dtype))
    return dense[:, :, :inputs]


def _most_taps(sides: Sides) -> int:
    """Inputs that one output may take in, over all pages; a multiple of 8, for aligned rows."""
    most = 0
    for size, target in set(sides):
        factor = max(1, int(size / target / _GAP))
        most = max(most, (int(2 * LANCZOS_LOBES * max(1.0, size / factor / target)) + 2) * factor)
    return most + -most % 8
