"""Project to the vocabulary and take each term's best position, without holding all logits at once.

``log1p(relu(scale * x))`` never falls as ``x`` rises, so pooling the raw logits first gives the same weights.
The logits of a few thousand terms exist at a time. Going back, only the winning position of a term
has a gradient, and only terms with one are looked at: the cost is that of the active terms, not of all
positions. Where several positions have a term's largest logit, the first of them is its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from vsplade.encode.modernvbert.devices import kernels_run_on

LOGITS = {"cpu": 1 << 22}
"""Logits that exist at a time in the forward pass: what a cache holds on a CPU."""
LOGITS_ELSEWHERE = 1 << 25
"""64 MiB in bfloat16: large enough products to keep a GPU busy."""
PAIRS = 1 << 15
"""(page, term) pairs whose gradient vectors exist at a time in the backward pass."""


_POSITIONS, _TERMS = 64, 64
"""A block of the kernel."""
Take: TypeAlias = Callable[[Tensor, Tensor | None, Tensor, Tensor], None]
"""Puts maxima and places of some terms' logits into the last two."""


class _MaxLogits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, terms: int,
        kernel: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        pages, length, _ = features.shape
        vocabulary = weight.shape[0]
        best = features.new_empty(pages, vocabulary)
        where = torch.empty(pages, vocabulary, dtype=torch.int32, device=features.device)
        flat = features.reshape(pages * length, -1)
        chunks = [(start, min(start + terms, vocabulary)) for start in range(0, vocabulary, terms)]
        take = _by_kernel if kernel else _by_torch(mask, pages, length)
        seen = None if mask is None else mask.to(torch.uint8).contiguous()
        for start, stop in chunks:
            # The bias is the same at all positions: it is added to the winner alone.
            logits = torch.mm(flat, weight[start:stop].t()).view(pages, length, stop - start)
            take(logits, seen, best[:, start:stop], where[:, start:stop])
            del logits  # the next ones take its place
        ctx.save_for_backward(features, weight, where)
        ctx.mark_non_differentiable(where)
        return best + bias, where

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        gradient: Tensor = gradients[0]
        features, weight, where = ctx.saved_tensors
        pages, length, width = features.shape
        wanted_features, wanted_weight, wanted_bias = ctx.needs_input_grad[:3]
        exact = torch.promote_types(features.dtype, torch.float32)
        to_features = features.new_zeros(pages * length, width, dtype=exact) if wanted_features else None
        to_weight = weight.new_zeros(weight.shape, dtype=exact) if wanted_weight else None
        flat = features.reshape(pages * length, width)
        which_page, which_term = gradient.nonzero(as_tuple=True)
        for start in range(0, len(which_page), PAIRS):
            page, term = which_page[start : start + PAIRS], which_term[start : start + PAIRS]
            row = page * length + where[page, term].long()
            share = gradient[page, term].to(exact).unsqueeze(1)
            if to_features is not None:
                to_features.index_add_(0, row, share * weight[term])
            if to_weight is not None:
                to_weight.index_add_(0, term, share * flat[row])
        return (
            to_features.view_as(features).to(features.dtype) if to_features is not None else None,
            to_weight.to(weight.dtype) if to_weight is not None else None,
            gradient.sum(0) if wanted_bias else None,
            None,
            None,
            None,
        )


def _by_torch(mask: Tensor | None, pages: int, length: int) -> Take:
    hidden = None if mask is None else ~mask.bool().view(pages, length, 1)
    some_hidden = hidden is not None and bool(hidden.any())

    def take(logits: Tensor, _: Tensor | None, best: Tensor, where: Tensor) -> None:
        if some_hidden:
            logits.masked_fill_(hidden, float("-inf"))
        values, positions = logits.max(1)
        best.copy_(values)
        where.copy_(positions)

    return take


def _by_kernel(logits: Tensor, mask: Tensor | None, best: Tensor, where: Tensor) -> None:
    """One pass over the logits, ``mask`` in bytes; torch's own maximum takes several times their memory."""
    from vsplade.encode.modernvbert.kernels import largest_positions

    pages, length, terms = logits.shape
    largest_positions[(pages, -(-terms // _TERMS))](
        logits, logits if mask is None else mask, best, where, length, terms, best.stride(0),
        MASKED=mask is not None, P=_POSITIONS, T=_TERMS,
    )  # fmt: skip


def terms_at_a_time(device: str, positions: int) -> int:
    """Whole blocks of the kernel: rows of an odd width are unaligned, and a GPU multiplies those slowly."""
    terms = LOGITS.get(device, LOGITS_ELSEWHERE) // max(1, positions)
    return max(256, terms // _TERMS * _TERMS)


def max_logits(
    features: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None = None, terms: int = 0,
    kernel: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """For each page and term the largest logit over the positions with ``mask``, and where it is.

    ``features`` is (pages, positions, width), ``weight`` (vocabulary, width), ``mask`` (pages, positions), or
    None where all positions count.
    ``terms`` is how many terms are projected at a time; 0 chooses. Every page needs one position at least.
    ``kernel`` takes the maxima with a kernel of our own; None: on a GPU, where there is triton.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        features, weight, bias = features.to(kind), weight.to(kind), bias.to(kind)
    if terms < 1:
        terms = terms_at_a_time(device, features.shape[0] * features.shape[1])
    by_kernel = kernels_run_on(features) if kernel is None else kernel
    best, where = _MaxLogits.apply(features, weight, bias, mask, terms, by_kernel)
    return best, where


def sparse_weights(logits: Tensor, scale: float, allowed: Tensor | None = None) -> Tensor:
    """SPLADE's activation of pooled logits; terms that are not ``allowed`` weigh nothing."""
    weights = torch.log1p(torch.relu(logits * scale))
    return weights if allowed is None else weights * allowed
