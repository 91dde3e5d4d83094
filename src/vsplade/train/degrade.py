"""What happens to a page on its way to a screen: scanners, copiers, faxes, JPEG, projectors, age.

Each step hits a random share of the windows with random strength. Pictures are darkness (white 0, black 1),
shape (windows, SIZE, SIZE); positions never change here, so labels stay true.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def _uniform(n: int, low: float, high: float, device: torch.device) -> Tensor:
    return (torch.rand(n, device=device) * (high - low) + low)[:, None, None]


def _some(n: int, share: float, device: torch.device) -> Tensor:
    return (torch.rand(n, device=device) < share)[:, None, None]


def smooth_noise(n: int, size: int, cells: int, device: torch.device) -> Tensor:
    """Clouds of about ``size / cells`` px, roughly normal."""
    grid = torch.randn(n, 1, cells, cells, device=device)
    return functional.interpolate(grid, size=(size, size), mode="bicubic", align_corners=False)[:, 0]


def blur(x: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian of a width of its own for each window, by a separable 7-tap filter."""
    n = len(x)
    taps = torch.arange(-3, 4, device=x.device)[None]
    kernel = torch.exp(-(taps**2) / (2 * sigma.view(-1, 1) ** 2 + 1e-4))
    kernel = (kernel / kernel.sum(1, keepdim=True)).to(x.dtype)
    padded = functional.pad(x[None], (3, 3, 3, 3), mode="replicate")
    out = functional.conv2d(padded, kernel.view(n, 1, 1, 7), groups=n)
    return functional.conv2d(out, kernel.view(n, 1, 7, 1), groups=n)[0]


def swell(x: Tensor, amount: Tensor) -> Tensor:
    """Ink that spreads (amount > 0) or breaks up (amount < 0), as copies of copies do."""
    fat = functional.max_pool2d(x[:, None], 3, 1, 1)[:, 0]
    thin = -functional.max_pool2d(-x[:, None], 3, 1, 1)[:, 0]
    return torch.where(
        amount > 0, x + (fat - x) * amount.clamp(min=0), x + (thin - x) * (-amount).clamp(min=0)
    )


def resample(x: Tensor, factor: float) -> Tensor:
    """Down to ``factor`` of the size and up again: a low-resolution scan or screenshot."""
    size = (round(x.shape[-2] * factor), round(x.shape[-1] * factor))
    small = functional.interpolate(x[:, None], size=size, mode="bilinear", antialias=True)
    return functional.interpolate(small, size=x.shape[-2:], mode="bicubic")[:, 0].clamp(0, 1)


_LUMINANCE = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
]  # fmt: skip


def jpeg(x: Tensor, strength: Tensor) -> Tensor:
    """What JPEG loses of grey: 8 x 8 blocks, cosine transform, the standard table times ``strength``."""
    n, height, width = x.shape
    k = torch.arange(8, device=x.device, dtype=torch.float32)
    basis = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / 16) / 2
    basis[0] /= math.sqrt(2)
    table = torch.tensor(_LUMINANCE, device=x.device, dtype=torch.float32).view(8, 8) / 255
    steps = table * strength.view(-1, 1, 1, 1, 1)
    blocks = x.float().view(n, height // 8, 8, width // 8, 8).permute(0, 1, 3, 2, 4)
    spectrum = basis @ blocks @ basis.T
    blocks = basis.T @ (torch.round(spectrum / steps) * steps) @ basis
    return blocks.permute(0, 1, 3, 2, 4).reshape(n, height, width).clamp(0, 1)


def age_planes(planes: Tensor) -> None:
    """Before the planes are joined: tinted and uneven paper, fading and swelling ink. In place."""
    paper, _, cover = planes
    n, size, device = len(paper), paper.shape[-1], paper.device
    clouds = smooth_noise(n, size, 6, device) * _uniform(n, 0, 0.06, device) * _some(n, 0.4, device)
    grain = smooth_noise(n, size, size // 4, device) * _uniform(n, 0, 0.08, device) * _some(n, 0.25, device)
    paper.add_(clouds).add_(grain).clamp_(0, 1)
    cover.copy_(swell(cover, _uniform(n, -0.6, 0.7, device) * _some(n, 0.35, device)))
    blotches = smooth_noise(n, size, 24, device).abs() * _uniform(n, 0, 0.4, device)
    fade = 1 - blotches * _some(n, 0.25, device)
    cover.mul_(fade.clamp(0.3, 1))


def degrade(x: Tensor) -> Tensor:
    """After: resolution, focus, noise, thresholding, JPEG, contrast, polarity."""
    n, device = len(x), x.device
    quarter = max(1, n // 8)
    parts = torch.randperm(n, device=device)[: 3 * quarter].split(quarter)
    for part, factor in zip(parts, (0.62, 0.75, 0.87), strict=False):
        x[part] = resample(x[part], factor)
    x = swell(x, _uniform(n, -0.5, 0.6, device) * _some(n, 0.2, device))
    x = blur(x, _uniform(n, 0.05, 1.1, device) * _some(n, 0.6, device))
    edges = x - blur(x, torch.full((n, 1, 1), 1.0, device=device))
    x = x + edges * _uniform(n, 0, 1.2, device) * _some(n, 0.25, device)
    x = x + torch.randn_like(x) * _uniform(n, 0, 0.08, device) * _some(n, 0.4, device)
    low, high = x.flatten(1).amin(1)[:, None, None], x.flatten(1).amax(1)[:, None, None]
    level, steep = low + (high - low) * _uniform(n, 0.3, 0.7, device), _uniform(n, 6, 40, device)
    x = torch.where(_some(n, 0.2, device), torch.sigmoid((x - level) * steep), x)
    speckle = torch.rand_like(x)
    density = _uniform(n, 0, 0.006, device) * _some(n, 0.2, device)
    x = torch.where(
        speckle < density, torch.ones_like(x), torch.where(speckle > 1 - density, torch.zeros_like(x), x)
    )
    x = torch.where(_some(n, 0.5, device), jpeg(x, _uniform(n, 0.2, 3.5, device)), x.float())
    contrast, lift = _uniform(n, 0.35, 1.0, device), torch.rand(n, 1, 1, device=device)
    x = torch.where(_some(n, 0.35, device), x * contrast + (1 - contrast) * lift, x)
    return torch.where(_some(n, 0.18, device), 1 - x, x).clamp(0, 1)
