"""A batch of word pictures changed a little, anew each time: on a GPU, each change for some of them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def stretched(x: Tensor, wider: Tensor) -> Tensor:
    """(words, 1, height, width): so much wider, and a little higher, slanted, shifted, shaken."""
    n, _, height, width = x.shape
    device = x.device

    def some(spread: float) -> Tensor:
        return torch.randn(n, device=device) * spread

    move = torch.zeros(n, 2, 3, device=device)
    move[:, 0, 0], move[:, 1, 1] = 1 / wider, torch.exp(some(0.06))
    move[:, 0, 1] = some(0.1) * height / width
    move[:, 1, 0] = some(0.012) * width / height
    move[:, 0, 2] = 1 / wider - 1 + some(2.6) / width
    move[:, 1, 2] = some(1.8) / height + move[:, 1, 0] / 2
    grid = functional.affine_grid(move, list(x.shape), align_corners=False)
    coarse = torch.randn(n, 2, 2, max(2, width // 12), device=device)
    waves = functional.interpolate(coarse, (height, width), mode="bilinear").permute(0, 2, 3, 1)
    size = torch.tensor([2 / width, 2 / height], device=device)
    strength = torch.rand(n, 1, 1, 1, device=device) * (torch.rand(n, 1, 1, 1, device=device) < 0.5)
    return functional.grid_sample(x, grid + waves * size * strength * 0.7, align_corners=False)


def changed(x: Tensor) -> Tensor:
    """Bolder, thinner, blurred, coarser, noisy, uneven, with lines through them."""
    n, _, height, width = x.shape
    device = x.device

    def for_some(share: float, most: float) -> Tensor:
        chance = torch.rand(n, 1, 1, 1, device=device)
        return torch.where(chance < share, torch.rand(n, 1, 1, 1, device=device) * most, 0.0)

    x = torch.lerp(x, functional.max_pool2d(x, 3, 1, 1), for_some(0.12, 0.8))
    x = torch.lerp(x, -functional.max_pool2d(-x, 3, 1, 1), for_some(0.12, 0.8))
    x = torch.lerp(x, functional.avg_pool2d(x, 3, 1, 1), for_some(0.2, 0.9))
    coarse = functional.interpolate(functional.avg_pool2d(x, 2), (height, width), mode="bilinear")
    x = torch.lerp(x, coarse, for_some(0.1, 1.0))
    x = x + torch.randn_like(x) * for_some(0.25, 0.2)
    rough = torch.randn(n, 1, height // 2, width // 2, device=device)
    x = x + functional.interpolate(rough, (height, width), mode="bilinear") * for_some(0.1, 0.3)
    level = torch.rand(n, 1, 1, 1, device=device) * 0.4 + 0.3
    x = torch.lerp(x, torch.sigmoid((x - level) * 12), for_some(0.12, 1.0))
    clouds = torch.rand(n, 1, 2, max(2, width // 24), device=device)
    x = x * (1 - functional.interpolate(clouds, (height, width), mode="bilinear") * for_some(0.12, 0.8))
    places = torch.arange(width, device=device)
    line = (places - torch.rand(n, 1, 1, 1, device=device) * width).abs() < 0.8
    x = torch.lerp(
        x, (torch.rand(n, 1, 1, 1, device=device) < 0.4).float().expand_as(x), line * for_some(0.05, 1.0)
    )
    rows = torch.arange(height, device=device)[:, None]
    rule = (rows - torch.rand(n, 1, 1, 1, device=device) * height).abs() < 0.9
    x = torch.maximum(x, rule * for_some(0.04, 1.0))
    return x.clamp(0, 1) ** torch.exp(torch.randn(n, 1, 1, 1, device=device) * 0.2)
