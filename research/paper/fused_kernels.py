"""Triton kernels of the training pass; imported only where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_norm_rows(x, y, weight, whole, out, rows, width, eps, R: tl.constexpr, W: tl.constexpr):
    """``whole = x + y``, and its layer norm without a bias."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.arange(0, W)
    inside = column < width
    both = (row < rows)[:, None] & inside[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    value += tl.load(y + at, mask=both, other=0.0).to(tl.float32)
    tl.store(whole + at, value.to(whole.dtype.element_ty), mask=both)
    mean = tl.sum(value, axis=1) / width
    apart = tl.where(inside[None, :], value - mean[:, None], 0.0)
    spread = tl.sum(apart * apart, axis=1) / width
    scaled = apart / tl.sqrt(spread + eps)[:, None]
    scaled = scaled * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, scaled.to(out.dtype.element_ty), mask=both)


@triton.jit
def add_norm_back(
    whole, weight, to_out, to_whole, exact, half, rows, width, eps,
    ALSO: tl.constexpr, R: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """The gradient of ``whole``: through the norm, and with ``ALSO`` what came to it besides. It is written
    twice, for the stream and in the precision of products.
    """
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.arange(0, W)
    inside = column < width
    both = (row < rows)[:, None] & inside[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(whole + at, mask=both, other=0.0).to(tl.float32)
    mean = tl.sum(value, axis=1) / width
    apart = tl.where(inside[None, :], value - mean[:, None], 0.0)
    share = 1.0 / tl.sqrt(tl.sum(apart * apart, axis=1) / width + eps)
    scaled = apart * share[:, None]
    given = tl.load(to_out + at, mask=both, other=0.0).to(tl.float32)
    given = given * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    along = tl.sum(given * scaled, axis=1) / width
    found = (given - (tl.sum(given, axis=1) / width)[:, None] - scaled * along[:, None]) * share[:, None]
    if ALSO:
        found += tl.load(to_whole + at, mask=both, other=0.0).to(tl.float32)
    tl.store(exact + at, found.to(exact.dtype.element_ty), mask=both)
    tl.store(half + at, found.to(half.dtype.element_ty), mask=both)


@triton.jit
def gate_back(both, to_out, to_both, out, total, inner: tl.constexpr, B: tl.constexpr):
    """Back through GELU of the first half times the second; ``out`` is what the gate gave, made anew."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = at < total
    source = both + (at // inner) * 2 * inner + at % inner
    target = to_both + (at // inner) * 2 * inner + at % inner
    value = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(source + inner, mask=inside, other=0.0).to(tl.float32)
    given = tl.load(to_out + at, mask=inside, other=0.0).to(tl.float32)
    below = 0.5 * (1.0 + tl.erf(value * 0.7071067811865476))
    slope = below + value * 0.3989422804014327 * tl.exp(-0.5 * value * value)
    gelu = value * below
    tl.store(out + at, (gelu * factor).to(out.dtype.element_ty), mask=inside)
    tl.store(target, (given * factor * slope).to(to_both.dtype.element_ty), mask=inside)
    tl.store(target + inner, (given * gelu).to(to_both.dtype.element_ty), mask=inside)
