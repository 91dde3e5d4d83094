"""The vision tower with 8-bit products (float8_e4m3fn): three of a layer's four, each row with its own scale.

The kernels that norm, or take GELU, round in the same pass. The product after attention stays as it is:
rounding what it takes would cost what it gains.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vsplade.encode.modernvbert.devices import kernels_run_on
from vsplade.encode.modernvbert.tower import Norm, Tower, attention_order
from vsplade.errors import InputError

KIND = torch.float8_e4m3fn
LARGEST = 448.0
Rounded = tuple[Tensor, Tensor]
"""8-bit rows, and their scales."""


class EightBitTower(Tower):
    """Tiles of bytes to (tiles, positions, width), as ``Tower``."""

    def __init__(self, vision: Any, mean: float, deviation: float) -> None:
        super().__init__(vision, mean, deviation)
        check_device(self.places.device)
        with torch.no_grad():
            self.rounded = [
                (round_rows(layer.qkv[0]), round_rows(layer.wide[0]), round_rows(layer.narrow.t()))
                for layer in self.layers
            ]

    def _see(self, tiles: Tensor) -> Tensor:
        positions, width = self.places.shape
        x = self.places.repeat(len(tiles), 1)
        x.addmm_(self._patches(tiles), self.first)
        added: Tensor | None = None
        with attention_order(self._planned(tiles)):
            for layer, (qkv_weight, wide, narrow) in zip(self.layers, self.rounded, strict=True):
                qkv = product(norm_rows(layer.before, x, added), qkv_weight, layer.qkv[1], x.dtype)
                q, k, v = qkv.view(len(tiles), positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
                mixed = functional.scaled_dot_product_attention(q, k, v)
                x.addmm_(mixed.transpose(1, 2).reshape(-1, width), layer.out)
                both = product(norm_rows(layer.between, x, None), wide, layer.wide[1], x.dtype)
                added = product(gelu_rows(both), narrow, None, x.dtype)
        if added is not None:
            x += added
        return self.last(x).view(len(tiles), positions, width)


def check_device(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (9, 0):
        raise InputError(
            f"8-bit products need a GPU of compute capability 9.0 or above; "
            f"{torch.cuda.get_device_name(device)} has none."
        )


def round_rows(x: Tensor) -> Rounded:
    """By torch's plain operations."""
    scale = x.float().abs().amax(1, keepdim=True).clamp_min(1e-12) / LARGEST
    return (x.float() / scale).to(KIND), scale


def product(rows: Rounded, weight: Rounded, bias: Tensor | None, kind: torch.dtype) -> Tensor:
    """Rows times the weight's rows."""
    if not rows[0].is_cuda:
        plain, by = rows[0].float() * rows[1], weight[0].float() * weight[1]
        return functional.linear(plain, by, None if bias is None else bias.float()).to(kind)
    out: Tensor = torch._scaled_mm(
        rows[0], weight[0].t(), rows[1], weight[1].t(), bias=bias, out_dtype=kind, use_fast_accum=True
    )
    return out


def norm_rows(norm: Norm, x: Tensor, added: Tensor | None) -> Rounded:
    """The norm of ``x``, after ``added`` was added to it in place."""
    if kernels_run_on(x):
        from research.paper.kernels_eight import norm_to_eight

        return launch_norm_to_eight(norm_to_eight, norm, x, added)
    if added is not None:
        x += added.to(x.dtype)
    return round_rows(norm(x))


def gelu_rows(x: Tensor) -> Rounded:
    if kernels_run_on(x):
        from research.paper.kernels_eight import gelu_to_eight

        return launch_gelu_to_eight(gelu_to_eight, x)
    return round_rows(functional.gelu(x, approximate="tanh"))


def launch_norm_to_eight(kernel: Any, norm: Norm, x: Tensor, added: Tensor | None, rows: int = 4) -> Rounded:
    width = x.shape[1]
    out, scales = torch.empty_like(x, dtype=KIND), x.new_empty(len(x), 1, dtype=torch.float32)
    kernel[(-(-len(x) // rows),)](
        x, x if added is None else added, norm.added, norm.weight, norm.bias, out, scales, len(x), width,
        norm.eps, SUM=added is not None, R=rows, W=1 << (width - 1).bit_length(),
    )  # fmt: skip
    return out, scales


def launch_gelu_to_eight(kernel: Any, x: Tensor, rows: int = 1) -> Rounded:
    width = x.shape[1]
    out, scales = torch.empty_like(x, dtype=KIND), x.new_empty(len(x), 1, dtype=torch.float32)
    kernel[(-(-len(x) // rows),)](x, out, scales, len(x), width, R=rows, W=1 << (width - 1).bit_length())
    return out, scales
