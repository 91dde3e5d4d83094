"""The reader's own GPU kernels, in Triton; imported only where there is a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024
_NOTHING = tl.constexpr(-1.0e30)


@triton.jit
def _best_of_row(
    logits,
    values,
    terms,
    stride,
    STEPS: tl.constexpr,
    ROUNDED: tl.constexpr,
    BEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row of logits, read once: the softmax's denominator and the BEST likeliest terms.

    The row is seen as STEPS x BLOCK; the best terms are in those columns whose maxima are the best.
    """
    row = tl.program_id(0).to(tl.int64)
    base = logits + row * stride
    column = tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), _NOTHING, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(0, STEPS):
        x = tl.load(base + step * BLOCK + column).to(tl.float32)
        higher = tl.maximum(most, x)
        total = total * tl.exp(most - higher) + tl.exp(x - higher)
        most = higher
    peak = tl.max(most, 0)
    denominator = tl.sum(total * tl.exp(most - peak), 0)
    slot = tl.arange(0, BEST)
    chosen = tl.zeros((BEST,), tl.int32)
    for n in tl.static_range(BEST):
        here = tl.argmax(most, 0)
        chosen = tl.where(slot == n, here, chosen)
        most = tl.where(column == here, _NOTHING, most)
    step = tl.arange(0, ROUNDED)
    place = step[:, None] * BLOCK + chosen[None, :]
    x = tl.load(base + place, mask=(step < STEPS)[:, None] & (chosen >= 0)[None, :], other=_NOTHING).to(
        tl.float32
    )
    for n in tl.static_range(BEST):
        value = tl.max(tl.max(x, 1), 0)
        term = tl.min(tl.min(tl.where(x == value, place, 1 << 30), 1), 0)
        tl.store(values + row * BEST + n, tl.exp(value - peak) / denominator)
        tl.store(terms + row * BEST + n, term.to(tl.int64))
        x = tl.where(place == term, _NOTHING, x)


def fits(terms: int, best: int) -> bool:
    return terms % BLOCK == 0 and best & (best - 1) == 0


def best_terms(logits: Tensor, best: int) -> tuple[Tensor, Tensor]:
    rows, terms = logits.shape
    values = torch.empty(rows, best, dtype=torch.float32, device=logits.device)
    numbers = torch.empty(rows, best, dtype=torch.int64, device=logits.device)
    steps = terms // BLOCK
    if rows:
        _best_of_row[(rows,)](
            logits,
            values,
            numbers,
            logits.stride(0),
            steps,
            triton.next_power_of_2(steps),
            best,
            BLOCK,
            num_warps=4,
        )
    return values, numbers


@triton.jit
def _sinc(x):
    angle = x * 3.141592653589793
    return tl.where(x == 0.0, 1.0, tl.sin(angle) / tl.where(x == 0.0, 1.0, angle))


@triton.jit
def _lanczos_row(numbers, weights, outputs, inputs, TAPS: tl.constexpr):
    """The weights of one output of one page: ``shrink._filter_by_torch`` line by line.

    Places are in double precision, as there and in Pillow: half a pixel decides what an output takes in.
    """
    row = tl.program_id(0)
    page = row // outputs
    size = tl.load(numbers + 2 * page)
    target = tl.load(numbers + 2 * page + 1)
    factor = tl.maximum(tl.floor(size / target / 2.0), 1.0)
    cells = tl.ceil(size / factor)
    ratio = size / factor / target
    stretch = tl.maximum(ratio, 1.0)
    index = tl.minimum((row % outputs).to(tl.float64), target - 1.0)
    middle = (index + 0.5) * ratio
    first = tl.maximum(tl.floor(middle - 3.0 * stretch + 0.5), 0.0)
    last = tl.minimum(tl.floor(middle + 3.0 * stretch + 0.5), cells)
    place = first * factor + tl.arange(0, TAPS).to(tl.float64)
    cell = tl.floor(place / factor)
    count = tl.maximum(tl.minimum(size - cell * factor, factor), 1.0)
    x = ((cell + 0.5 - middle) / stretch).to(tl.float32)
    inside = (cell < last) & (place < size) & (tl.abs(x) < 3.0)
    weight = tl.where(inside, _sinc(x) * _sinc(x / 3.0), 0.0) / count.to(tl.float32)
    weight = weight / tl.sum(weight, 0)
    start = row.to(tl.int64) * inputs
    tl.store(weights + start + place.to(tl.int64), weight.to(weights.dtype.element_ty), mask=inside)


def lanczos(numbers: Tensor, weights: Tensor, taps: int) -> None:
    """Into ``weights`` (n, outputs, inputs), zero before; ``numbers`` (n, 2) are the old and new lengths."""
    pages, outputs, inputs = weights.shape
    _lanczos_row[(pages * outputs,)](
        numbers.contiguous(), weights, outputs, inputs, triton.next_power_of_2(taps), num_warps=1
    )
