"""Texts and pages of a batch as one run of rows without padding, and attention that knows where each begins.

torch's own kernel for such runs looks at near positions only, where a layer does; with a mask it would
compute all of them. It takes half precision on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Kept = tuple[Tensor, ...]
"""What the way back needs."""


@dataclass(frozen=True)
class Packing:
    """Which rows of (pages, positions) there are."""

    pages: int
    length: int
    """Positions of the longest page."""
    rows: Tensor | None
    """Numbers of the rows with attention among all; None: all of them."""
    starts: Tensor
    """Where each page begins, and the end."""

    @classmethod
    def of(cls, pages: int, length: int, mask: Tensor | None, device: torch.device) -> Packing:
        if mask is None:
            starts = torch.arange(pages + 1, device=device, dtype=torch.int32) * length
            return cls(pages, length, None, starts)
        there = mask.bool()
        starts = functional.pad(there.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        return cls(pages, length, there.flatten().nonzero().squeeze(1), starts)

    def pack(self, inputs: Tensor) -> Tensor:
        """(pages, positions, width) to rows."""
        rows = inputs.reshape(-1, inputs.shape[-1])
        return rows if self.rows is None else rows.index_select(0, self.rows)

    def unpack(self, rows: Tensor) -> Tensor:
        """Back again; padding is 0."""
        if self.rows is not None:
            whole = rows.new_zeros(self.pages * self.length, rows.shape[1])
            rows = whole.index_copy(0, self.rows, rows)
        return rows.view(self.pages, self.length, -1)

    def turned(self, turns: Tensor) -> Tensor:
        """(1, positions, size) of rotary places, for the rows."""
        return turns if self.rows is None else turns.index_select(1, self.rows % self.length)


def can_pack(device: torch.device, kind: torch.dtype) -> bool:
    return device.type == "cuda" and kind in (torch.bfloat16, torch.float16)


def attend(qkv: Tensor, packing: Packing, heads: int, window: int) -> tuple[Tensor, Kept]:
    """(rows, 3 * width) to (rows, width); ``window`` positions on either side are seen; -1: all."""
    q, k, v = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    if not can_pack(qkv.device, qkv.dtype):
        chances = _chances(q, k, packing, window)
        mixed = torch.einsum("hqk,khd->qhd", chances, v.to(chances.dtype))
        return mixed.reshape(len(qkv), -1).to(qkv.dtype), (chances,)
    out, sums, seed, unused, _ = torch.ops.aten._flash_attention_forward(
        q, k, v, packing.starts, packing.starts, packing.length, packing.length, 0.0, False, False,
        window_size_left=window, window_size_right=window,
    )  # fmt: skip
    return out.reshape(len(qkv), -1), (out, sums, seed, unused)


def _chances(q: Tensor, k: Tensor, packing: Packing, window: int) -> Tensor:
    """(heads, rows, rows): by torch's plain operations, to compare with; in float32 at least."""
    q, k = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (q, k))
    place = torch.arange(len(q), device=q.device)
    page = torch.searchsorted(packing.starts.long(), place, right=True)
    seen = page[:, None] == page[None]
    if window >= 0:
        seen = seen & ((place[:, None] - place[None]).abs() <= window)
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return scores.masked_fill(~seen, float("-inf")).softmax(-1)
