"""Project to the vocabulary and take each term's best position, without holding all logits at once.

``log1p(relu(scale * x))`` never falls as ``x`` rises, so pooling the raw logits first gives the same weights.
The logits of a few thousand terms exist at a time. Going back, only the winning position of a term
has a gradient, and only terms with one are looked at: the cost is that of the active terms, not of all
positions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LOGITS = {"cpu": 1 << 22}
"""Logits that exist at a time in the forward pass: what a cache holds on a CPU."""
LOGITS_ELSEWHERE = 1 << 25
"""64 MiB in bfloat16: large enough products to keep a GPU busy."""
PAIRS = 1 << 15
"""(page, term) pairs whose gradient vectors exist at a time in the backward pass."""


class _MaxLogits(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, terms: int
    ) -> tuple[Tensor, Tensor]:
        pages, length, _ = features.shape
        vocabulary = weight.shape[0]
        best = features.new_empty(pages, vocabulary)
        where = torch.empty(pages, vocabulary, dtype=torch.int32, device=features.device)
        flat = features.reshape(pages * length, -1)
        hidden = None if mask is None else ~mask.bool().view(pages, length, 1)
        some_hidden = hidden is not None and bool(hidden.any())
        for start in range(0, vocabulary, terms):
            stop = min(start + terms, vocabulary)
            # The bias is the same at all positions: it is added to the winner alone.
            logits = torch.mm(flat, weight[start:stop].t()).view(pages, length, stop - start)
            if some_hidden:
                logits.masked_fill_(hidden, float("-inf"))
            values, positions = logits.max(1)
            best[:, start:stop] = values
            where[:, start:stop] = positions
        ctx.save_for_backward(features, weight, where)
        ctx.mark_non_differentiable(where)
        return best + bias, where

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
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
        )


def max_logits(
    features: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None = None, terms: int = 0
) -> tuple[Tensor, Tensor]:
    """For each page and term the largest logit over the positions with ``mask``, and where it is.

    ``features`` is (pages, positions, width), ``weight`` (vocabulary, width), ``mask`` (pages, positions), or
    None where all positions count.
    ``terms`` is how many terms are projected at a time; 0 chooses. Every page needs one position at least.
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        kind = torch.get_autocast_dtype(device)
        features, weight, bias = features.to(kind), weight.to(kind), bias.to(kind)
    if terms < 1:
        logits = LOGITS.get(device, LOGITS_ELSEWHERE)
        terms = max(256, logits // max(1, features.shape[0] * features.shape[1]))
    best, where = _MaxLogits.apply(features, weight, bias, mask, terms)
    return best, where


def sparse_weights(logits: Tensor, scale: float, allowed: Tensor | None = None) -> Tensor:
    """SPLADE's activation of pooled logits; terms that are not ``allowed`` weigh nothing."""
    weights = torch.log1p(torch.relu(logits * scale))
    return weights if allowed is None else weights * allowed
