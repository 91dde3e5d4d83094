"""Triton kernels that round to 8 bits what a product takes; imported only where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def norm_to_eight(
    x, y, added, weight, bias, out, scales, rows, width, eps,
    SUM: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Layer norm of ``x + added``, each row rounded with a scale of its own; ``SUM`` adds ``y`` to ``x``."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.arange(0, W)
    inside = column < width
    both = (row < rows)[:, None] & inside[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    if SUM:
        value += tl.load(y + at, mask=both, other=0.0).to(tl.float32)
        tl.store(x + at, value.to(x.dtype.element_ty), mask=both)
    value += tl.load(added + column, mask=inside, other=0.0)[None, :]
    mean = tl.sum(value, axis=1) / width
    apart = tl.where(inside[None, :], value - mean[:, None], 0.0)
    spread = tl.sum(apart * apart, axis=1) / width
    scaled = apart / tl.sqrt(spread + eps)[:, None]
    scaled = scaled * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    scaled = scaled + tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    scale = tl.maximum(tl.max(tl.abs(scaled), axis=1), 1e-12) / 448.0
    tl.store(out + at, (scaled / scale[:, None]).to(out.dtype.element_ty), mask=both)
    tl.store(scales + row, scale, mask=row < rows)


@triton.jit
def gelu_to_eight(x, out, scales, rows, width, R: tl.constexpr, W: tl.constexpr):
    """GELU by its tanh form, each row rounded with a scale of its own."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.arange(0, W)
    both = (row < rows)[:, None] & (column < width)[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    scale = tl.maximum(tl.max(tl.abs(value), axis=1), 1e-12) / 448.0
    tl.store(out + at, (value / scale[:, None]).to(out.dtype.element_ty), mask=both)
    tl.store(scales + row, scale, mask=row < rows)
