"""Triton kernels; imported only where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def resample_axis(
    source, first, taps, out, total, inputs, outputs, inner, width, WIDE: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One axis of a picture of bytes seen as (outer, axis, inner): weighted sums along it, rounded. ``WIDE``
    counts in 64 bits, whose divisions take ten times as long.
    """
    block = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    place = at % inner
    number = (at // inner) % outputs
    outer = at // (inner * outputs)
    begin = tl.load(first + number, mask=inside, other=0)
    base = (outer * inputs + begin) * inner + place
    total_weight = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(0, width):
        here = inside & (begin + tap < inputs)
        weight = tl.load(taps + number * width + tap, mask=inside, other=0.0)
        value = tl.load(source + base + tap * inner, mask=here, other=0).to(tl.float32)
        total_weight += weight * value
    rounded = tl.minimum(tl.maximum(tl.floor(total_weight + 0.5), 0.0), 255.0)
    tl.store(out + at, rounded.to(tl.uint8), mask=inside)


@triton.jit
def largest_positions(
    logits, mask, best, where, length, terms, row, MASKED: tl.constexpr, P: tl.constexpr, T: tl.constexpr
):  # fmt: skip
    """Of (pages, length, terms): each term's largest logit over the positions with mask, and the first of
    the places that have it. ``row`` is the distance of two pages in ``best`` and ``where``.

    P running maxima a term are kept side by side, so that positions are compared across threads only once, at
    the end. A number that is none wins: the caller must see it.
    """
    page = tl.program_id(0).to(tl.int64)
    term = tl.program_id(1) * T + tl.arange(0, T)
    lane = tl.arange(0, P)
    named = term < terms
    highest = tl.full((P, T), float("-inf"), tl.float32)
    found = tl.zeros((P, T), tl.int32) + lane[:, None]
    for start in range(0, length, P):
        position = start + lane
        here = position < length
        if MASKED:
            here = here & (tl.load(mask + page * length + position, mask=here, other=0) != 0)
        at = (page * length + position[:, None]) * terms + term[None, :]
        value = tl.load(logits + at, mask=here[:, None] & named[None, :], other=float("-inf")).to(tl.float32)
        better = (value > highest) | (value != value)
        highest = tl.where(better, value, highest)
        found = tl.where(better, position[:, None], found)
    broken = tl.max((highest != highest).to(tl.int32), axis=0) > 0
    top = tl.max(highest, axis=0)
    first = tl.min(tl.where(highest == top[None, :], found, length - 1), axis=0)
    top = tl.where(broken, float("nan"), top)
    out = page * row + term
    tl.store(best + out, top.to(best.dtype.element_ty), mask=named)
    tl.store(where + out, tl.minimum(first, length - 1), mask=named)


@triton.jit
def norm_rows(x, added, weight, bias, out, rows, width, eps, R: tl.constexpr, W: tl.constexpr):
    """Layer norm of ``x + added``: one pass over memory; ``added`` is the same for all rows."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    column = tl.arange(0, W)
    inside = column < width
    both = (row < rows)[:, None] & inside[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(x + at, mask=both, other=0.0).to(tl.float32)
    value += tl.load(added + column, mask=inside, other=0.0)[None, :]
    mean = tl.sum(value, axis=1) / width
    apart = tl.where(inside[None, :], value - mean[:, None], 0.0)
    spread = tl.sum(apart * apart, axis=1) / width
    scaled = apart / tl.sqrt(spread + eps)[:, None]
    scaled = scaled * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    scaled = scaled + tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    tl.store(out + at, scaled.to(out.dtype.element_ty), mask=both)


@triton.jit
def patch_rows(
    tiles, out, total, mean, deviation, edge: tl.constexpr, patch: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """(tiles, 3, edge, edge) of bytes to (tiles * patches, 3 * patch * patch), normalised."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = at < total
    across = at % patch
    down = (at // patch) % patch
    channel = (at // (patch * patch)) % 3
    number = at // (patch * patch * 3)
    side = edge // patch
    column = number % side
    row = (number // side) % side
    tile = number // (side * side)
    source = ((tile * 3 + channel) * edge + row * patch + down) * edge + column * patch + across
    value = tl.load(tiles + source, mask=inside, other=0).to(tl.float32)
    value = (value / 255.0 - mean) / deviation
    tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rotate_heads(
    qkv, cosine, sine, length, width,
    heads: tl.constexpr, half: tl.constexpr, H: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Rotary places, in place: of each row (queries, keys, values) the queries and keys are turned."""
    row = tl.program_id(0)
    head = tl.arange(0, H)[:, None]
    column = tl.arange(0, D)[None, :]
    inside = (head < heads) & (column < half)
    first = qkv + row.to(tl.int64) * 3 * width + head * 2 * half + column
    turn = (row % length) * 2 * half + column
    a = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(first + half, mask=inside, other=0.0).to(tl.float32)
    cosine_a = tl.load(cosine + turn, mask=column < half, other=0.0).to(tl.float32)
    cosine_b = tl.load(cosine + turn + half, mask=column < half, other=0.0).to(tl.float32)
    sine_a = tl.load(sine + turn, mask=column < half, other=0.0).to(tl.float32)
    sine_b = tl.load(sine + turn + half, mask=column < half, other=0.0).to(tl.float32)
    tl.store(first, (a * cosine_a - b * sine_a).to(qkv.dtype.element_ty), mask=inside)
    tl.store(first + half, (b * cosine_b + a * sine_b).to(qkv.dtype.element_ty), mask=inside)


@triton.jit
def gate_rows(both, out, total, inner: tl.constexpr, B: tl.constexpr):
    """(rows, 2 * inner): GELU of the first half times the second."""
    at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = at < total
    source = both + (at // inner) * 2 * inner + at % inner
    value = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(source + inner, mask=inside, other=0.0).to(tl.float32)
    value = 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))
    tl.store(out + at, (value * gate).to(out.dtype.element_ty), mask=inside)
