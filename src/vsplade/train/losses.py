"""The paper's three loss groups, written as its equations are, and how their weights change over a run.

Vectors are dense, (batch, vocabulary). A temperature divides scores; the mean is over the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from vsplade.train.training_config import PaperConfig


@dataclass(frozen=True)
class Side:
    """Pages, or captions, of this process, and of all processes (the same where there is one)."""

    weights: Tensor
    everyone: Tensor
    """(all pages, vocabulary): candidates of the ranking, and what sparsity is measured on."""


@dataclass(frozen=True)
class Parts:
    """The total, and what it is made of, unweighted."""

    total: Tensor
    parts: dict[str, Tensor]


def info_nce(
    queries: Tensor, candidates: Tensor, temperature: float, first: int = 0, clamp: float = 0.0
) -> Tensor:
    """Query ``i`` belongs to candidate ``first + i``; all the others are negatives."""
    scores = queries @ candidates.T / temperature
    if clamp:
        scores = scores.clamp(-clamp, clamp)
    return functional.cross_entropy(scores, torch.arange(len(queries), device=scores.device) + first)


def flops(weights: Tensor) -> Tensor:
    """The sum over terms of the squared mean weight: terms active on many examples cost most."""
    return weights.mean(0).square().sum()


def overlap_gate(pages: Tensor, captions: Tensor, temperature: float) -> Tensor:
    """What page and caption agree on, sharpened, each row summing to 1 (or 0 without agreement). No
    gradient.
    """
    overlap = pages.detach() * captions.detach()
    # Divided by the largest first: the power neither overflows nor vanishes, and cancels in the sum.
    largest = overlap.amax(1, keepdim=True)
    sharp = (overlap / largest.clamp(min=torch.finfo(overlap.dtype).tiny)).pow(1 / temperature)
    return sharp / sharp.sum(1, keepdim=True).clamp(min=torch.finfo(overlap.dtype).tiny)


def caption_gated(logits: Tensor, gate: Tensor) -> Tensor:
    """Raises the pre-activation logits of the terms that the gate selects."""
    return -(gate * functional.logsigmoid(logits)).sum(1).mean()


def cosine_alignment(pages: Tensor, captions: Tensor) -> Tensor:
    """The ablation: pages pulled towards their captions as vectors."""
    return (1 - functional.cosine_similarity(pages, captions, dim=1)).mean()


def page_losses(
    config: PaperConfig,
    queries: Tensor,
    page: Side,
    logits: Tensor,
    caption: Side | None,
    first: int,
    ramp: float,
) -> Parts:
    """A batch of pages: ranking, the caption's part, sparsity. ``ramp`` is how far the FLOPS warm-up is."""
    parts = {
        "rank": info_nce(queries, page.everyone, config.temperature, first, config.score_clamp),
        "flops": flops(page.everyone),
    }
    total = parts["rank"] + ramp * config.page_flops * parts["flops"]
    if caption is not None and config.captions != "none":
        parts["caption_rank"] = info_nce(
            queries, caption.everyone, config.temperature, first, config.score_clamp
        )
        parts["caption_flops"] = flops(caption.everyone)
        total = total + config.caption_rank_weight * parts["caption_rank"]
        total = total + ramp * config.caption_flops * parts["caption_flops"]
        if config.captions == "gated":
            gate = overlap_gate(page.weights, caption.weights, config.gate_temperature)
            parts["gated"] = caption_gated(logits, gate)
            total = total + config.gate_weight * parts["gated"]
        elif config.captions == "cosine":
            parts["cosine"] = cosine_alignment(page.weights, caption.weights)
            total = total + config.cosine_weight * parts["cosine"]
    return Parts(total, parts)


def rate_share(step: int, steps: int, warm_up: float, decay: float) -> float:
    """Warm-up, stable, decay: the share of the highest rate at a step (from 0), linear at both ends."""
    rising, falling = round(steps * warm_up), round(steps * decay)
    if step < rising:
        return (step + 1) / rising
    if step >= steps - falling:
        return max(0.0, (steps - step) / (falling + 1))
    return 1.0


def flops_share(step: int, steps: int, kind: str) -> float:
    """The share of the FLOPS weight at a step: 0 at the first, all of it from ``steps`` on."""
    if steps == 0 or step >= steps:
        return 1.0
    share = step / steps
    return share * share if kind == "quadratic" else share
