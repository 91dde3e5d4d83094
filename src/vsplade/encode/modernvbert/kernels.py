"""Triton kernels; imported only where there is a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def resample_axis(source, first, taps, out, total, inputs, outputs, inner, width, BLOCK: tl.constexpr):
    """One axis of a picture of bytes seen as (outer, axis, inner): weighted sums along it, rounded."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
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
