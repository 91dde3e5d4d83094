"""How the learning rate and the weight of sparsity change over a run."""

from __future__ import annotations


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
