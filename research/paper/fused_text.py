"""The text layers' training pass on a GPU: no padding, and three steps a layer with a way back of their own.

Each step keeps what its way back needs and nothing twice. The stream stays in float32; its sum with what a
layer adds is made inside the next norm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vsplade.encode.modernvbert.devices import kernels_run_on
from vsplade.encode.modernvbert.packed import Kept, Packing, attend, can_pack
from vsplade.encode.modernvbert.text_tower import gate, rotate

Product = tuple[Tensor, Tensor, Tensor]
"""A frozen weight in the precision of products, and what is learned: down, up times its share."""


class AddNorm(torch.autograd.Function):
    """(stream, what is added) to their sum and its norm, in the precision of what is added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.eps, ctx.kind = eps, y.dtype
        if kernels_run_on(x):
            from research.paper.fused_kernels import add_norm_rows

            whole, out = launch_add_norm(add_norm_rows, x, y, weight, eps)
        else:
            whole = x + y
            out = functional.layer_norm(whole, whole.shape[-1:], weight, None, eps).to(y.dtype)
        ctx.save_for_backward(whole, weight)
        return whole, out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        to_whole, to_out = gradients
        whole, weight = ctx.saved_tensors
        if to_out is None:
            return to_whole, to_whole.to(ctx.kind), None, None
        if kernels_run_on(whole):
            from research.paper.fused_kernels import add_norm_back

            found = launch_add_norm_back(add_norm_back, whole, weight, to_out, to_whole, ctx.eps, ctx.kind)
            return (*found, None, None)
        apart = whole - whole.mean(-1, keepdim=True)
        share = (apart.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        scaled, given = apart * share, to_out.to(whole.dtype) * weight
        along = (given * scaled).mean(-1, keepdim=True)
        exact = (given - given.mean(-1, keepdim=True) - scaled * along) * share
        exact = exact if to_whole is None else exact + to_whole
        return exact, exact.to(ctx.kind), None, None


class Attend(torch.autograd.Function):
    """Queries, keys and values, their rotary places, and attention."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, down: Tensor, up: Tensor, cosine: Tensor, sine: Tensor,
        packing: Packing, heads: int, window: int,
    ) -> Tensor:  # fmt: skip
        qkv, low = _multiply(rows, weight, down, up)
        rotate(qkv, cosine, sine, heads)
        mixed, kept = attend(qkv, packing, heads, window)
        ctx.given = packing, heads, window
        ctx.save_for_backward(rows, low, weight, down, up, cosine, sine, qkv, *kept)
        return mixed

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        rows, low, weight, down, up, cosine, sine, qkv, *kept = ctx.saved_tensors
        packing, heads, window = ctx.given
        to_qkv = attend_back(gradients[0], qkv, tuple(kept), packing, heads, window)
        rotate(to_qkv, cosine, -sine, heads)
        found = _multiply_back(to_qkv, rows, low, weight, down, up)
        return (*found[:1], None, *found[1:], None, None, None, None, None)


class Gated(torch.autograd.Function):
    """The wide product, its gate and the narrow product."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, *products: Tensor) -> Tensor:
        wide, narrow = products[:3], products[3:]
        both, low = _multiply(rows, *wide)
        added, low_after = _multiply(gate(both), *narrow)
        ctx.save_for_backward(rows, low, both, low_after, *products)
        return added

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        rows, low, both, low_after, *products = ctx.saved_tensors
        wide, narrow = products[:3], products[3:]
        weight, down, up = narrow
        given = gradients[0].contiguous()
        to_low = given @ up
        to_gated = torch.addmm(given @ weight, to_low, down)
        to_both, gated = _gate_back(both, to_gated)
        found = _multiply_back(to_both, rows, low, *wide)
        return (found[0], None, *found[1:], None, to_low.t() @ gated, given.t() @ low_after)


class AddProduct(torch.autograd.Function):
    """A frozen product with what is learned of it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, down: Tensor, up: Tensor) -> Tensor:
        out, low = _multiply(rows, weight, down, up)
        ctx.save_for_backward(rows, low, weight, down, up)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        found = _multiply_back(gradients[0].contiguous(), *ctx.saved_tensors)
        return (found[0], None, *found[1:])


def layer(
    x: Tensor, y: Tensor | None, cosine: Tensor, sine: Tensor, packing: Packing, window: int,
    before: Tensor | None, qkv: Product, out: Product, between: Tensor, wide: Product, narrow: Product,
    heads: int, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The stream and what is still to be added to it, before and after a layer."""
    if before is None or y is None:
        rows = x.to(qkv[0].dtype)
    else:
        x, rows = AddNorm.apply(x, y, before, eps)
    mixed = Attend.apply(rows, *qkv, cosine, sine, packing, heads, window)
    x, rows = AddNorm.apply(x, AddProduct.apply(mixed, *out), between, eps)
    return x, Gated.apply(rows, *wide, *narrow)


def attend_back(to_out: Tensor, qkv: Tensor, kept: Kept, packing: Packing, heads: int, window: int) -> Tensor:
    """The gradient of ``qkv``."""
    q, k, v = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    given = to_out.reshape(len(qkv), heads, -1)
    if not can_pack(qkv.device, qkv.dtype):
        (chances,) = kept
        q, k, v, given = (part.to(chances.dtype) for part in (q, k, v, given))
        to_chances = torch.einsum("qhd,khd->hqk", given, v)
        scores = chances * (to_chances - (to_chances * chances).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        parts = (
            torch.einsum("hqk,khd->qhd", scores, k),
            torch.einsum("hqk,qhd->khd", scores, q),
            torch.einsum("hqk,qhd->khd", chances, given),
        )
    else:
        out, sums, seed, unused = kept
        parts = torch.ops.aten._flash_attention_backward(
            given, q, k, v, out, sums, packing.starts, packing.starts, packing.length, packing.length, 0.0,
            False, seed, unused, window_size_left=window, window_size_right=window,
        )  # fmt: skip
    return torch.stack(parts, 1).view(len(qkv), -1).to(qkv.dtype)


def _multiply(rows: Tensor, weight: Tensor, down: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    low = functional.linear(rows, down)
    return functional.linear(rows, weight).addmm_(low, up.t()), low


def _multiply_back(
    given: Tensor, rows: Tensor, low: Tensor, weight: Tensor, down: Tensor, up: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of rows, down and up."""
    to_low = given @ up
    return (given @ weight).addmm_(to_low, down), to_low.t() @ rows, given.t() @ low


def _gate_back(both: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the two halves, and what the gate gave."""
    if kernels_run_on(both):
        from research.paper.fused_kernels import gate_back

        return launch_gate_back(gate_back, both, given)
    value, factor = both.chunk(2, -1)
    gelu = functional.gelu(value)
    to_value = torch.ops.aten.gelu_backward(given * factor, value)
    return torch.cat([to_value, given * gelu], -1), gelu * factor


def launch_add_norm(
    kernel: Any, x: Tensor, y: Tensor, weight: Tensor, eps: float, rows: int = 4
) -> tuple[Tensor, Tensor]:
    x, y = x.contiguous(), y.contiguous()
    whole, out = torch.empty_like(x), torch.empty_like(y)
    grid = (-(-len(x) // rows),)
    block = 1 << (x.shape[1] - 1).bit_length()
    kernel[grid](x, y, weight, whole, out, len(x), x.shape[1], eps, R=rows, W=block)
    return whole, out


def launch_add_norm_back(
    kernel: Any, whole: Tensor, weight: Tensor, to_out: Tensor, to_whole: Tensor | None, eps: float,
    kind: torch.dtype, rows: int = 2,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    to_out = to_out.contiguous()
    also = whole if to_whole is None else to_whole.contiguous()
    exact, half = torch.empty_like(whole), torch.empty_like(whole, dtype=kind)
    grid = (-(-len(whole) // rows),)
    block = 1 << (whole.shape[1] - 1).bit_length()
    kernel[grid](
        whole, weight, to_out, also, exact, half, len(whole), whole.shape[1], eps,
        ALSO=to_whole is not None, R=rows, W=block,
    )  # fmt: skip
    return exact, half


def launch_gate_back(kernel: Any, both: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    given = given.contiguous()
    to_both, out = torch.empty_like(both), torch.empty_like(given)
    kernel[(-(-given.numel() // 1024),)](
        both, given, to_both, out, given.numel(), inner=given.shape[1], B=1024
    )
    return to_both, out
