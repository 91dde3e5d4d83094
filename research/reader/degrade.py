"""What happens to a page on its way to a screen: scanners, copiers, faxes, JPEG, projectors, age.

Each step hits a random share of the windows with random strength. Pictures are darkness (white 0, black 1),
shape (windows, SIZE, SIZE); positions never change here, so labels stay true.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional


def _uniform(n: int, low: float, high: float, device: torch.device) -> Tensor:
    return (torch.rand(n, device=device) * (high - low) + low)[:, None, None]


def _some(n: int, share: float, device: torch.device) -> Tensor:
    """Numbers of a share of the windows; how many is known without asking the GPU."""
    count = int(n * share + float(torch.rand(())))
    return torch.randperm(n, device=device)[:count]


def smooth_noise(n: int, size: int, cells: int, device: torch.device) -> Tensor:
    """Clouds of about ``size / cells`` px, roughly normal."""
    if not n:
        return torch.zeros(0, size, size, device=device)
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


def resample(x: Tensor, down: float, across: float) -> Tensor:
    """To these shares of the sides and back again: a low-resolution scan or screenshot."""
    size = (round(x.shape[-2] * down), round(x.shape[-1] * across))
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
    transform = torch.kron(basis, basis)  # of a block's 64 pixels: two products of the whole picture
    table = torch.tensor(_LUMINANCE, device=x.device, dtype=torch.float32) / 255
    steps = table * strength.view(-1, 1, 1)
    blocks = x.float().view(n, height // 8, 8, width // 8, 8).transpose(2, 3).reshape(n, -1, 64)
    blocks = (torch.round(blocks @ transform.T / steps) * steps) @ transform
    blocks = blocks.view(n, height // 8, width // 8, 8, 8).transpose(2, 3)
    return blocks.reshape(n, height, width).clamp(0, 1)


def age_planes(planes: Tensor) -> None:
    """Before the planes are joined: tinted and uneven paper, fading and swelling ink. In place."""
    paper, _, cover = planes
    n, size, device = len(paper), paper.shape[-1], paper.device
    for share, cells, strength in ((0.4, 6, 0.06), (0.25, size // 4, 0.08)):  # clouds, grain
        part = _some(n, share, device)
        paper[part] += smooth_noise(len(part), size, cells, device) * _uniform(len(part), 0, strength, device)
    paper.clamp_(0, 1)
    part = _some(n, 0.35, device)
    cover[part] = swell(cover[part], _uniform(len(part), -0.6, 0.7, device))
    part = _some(n, 0.25, device)
    blotches = smooth_noise(len(part), size, 24, device).abs() * _uniform(len(part), 0, 0.4, device)
    cover[part] *= (1 - blotches).clamp(0.3, 1)


def sharpen(x: Tensor, amount: Tensor) -> Tensor:
    return x + (x - blur(x, torch.ones(len(x), 1, 1, device=x.device))) * amount


def threshold(x: Tensor, level: Tensor, steep: Tensor) -> Tensor:
    """A copier's black and white, soft or hard, at ``level`` between the darkest and the lightest pixel."""
    low, high = x.flatten(1).amin(1)[:, None, None], x.flatten(1).amax(1)[:, None, None]
    return torch.sigmoid((x - low - (high - low) * level) * steep)


def fax(x: Tensor, level: Tensor, steep: Tensor) -> Tensor:
    """Half as many lines as dots in a line, in black and white."""
    return threshold(resample(x, 0.55, 0.9), level, steep)


def streak(x: Tensor, depth: Tensor, width: Tensor) -> Tensor:
    """A worn print head or roller: columns that print weaker from top to bottom, and pale bands across."""
    n, size = len(x), x.shape[-1]
    fine = torch.rand(n, 1, size, device=x.device) < 0.04  # elements that are dead
    down = functional.interpolate(torch.rand(n, 1, 24, device=x.device), size=size, mode="linear")
    across = functional.interpolate(torch.rand(n, 1, 12, device=x.device), size=size, mode="linear")
    loss = depth * (0.6 * down + 0.4 * across.transpose(1, 2)) + fine * width
    return x * (1 - loss).clamp(0, 1)


def dots(x: Tensor, pitch: Tensor, depth: Tensor) -> Tensor:
    """Print of needles: ink in rows and columns of dots, ``pitch`` px apart."""
    axis = torch.arange(x.shape[-1], device=x.device, dtype=torch.float32)
    wave = 0.5 + 0.5 * torch.cos(axis * (2 * math.pi) / pitch)  # (n, 1, size)
    return x * (1 - depth * (1 - (wave * wave.transpose(1, 2)).sqrt()))


def faint(x: Tensor, contrast: Tensor, lift: Tensor, noise: Tensor) -> Tensor:
    """Next to no contrast, in the noise of a scanner that makes the most of it."""
    return x * contrast + (1 - contrast) * lift + torch.randn_like(x) * noise * contrast


def speckle(x: Tensor, density: Tensor) -> Tensor:
    chance = torch.rand_like(x)
    dark = torch.where(chance < density, torch.ones_like(x), x)
    return torch.where(chance > 1 - density, torch.zeros_like(x), dark)


def degrade(x: Tensor) -> Tensor:
    """After: resolution, focus, noise, thresholding, JPEG, contrast, polarity. In place.

    Every step takes its own share of the windows, so that no work is done on the others.
    """
    n, device = len(x), x.device
    eighth = max(1, n // 8)
    parts = torch.randperm(n, device=device)[: 3 * eighth].split(eighth)
    for part, factor in zip(parts, (0.62, 0.75, 0.87), strict=False):
        x[part] = resample(x[part], factor, factor)
    steps: list[tuple[float, Callable[..., Tensor], tuple[tuple[float, float], ...]]] = [
        (0.06, streak, ((0.2, 0.8), (0.2, 1.0))),
        (0.04, dots, ((1.8, 3.2), (0.4, 1.0))),
        (0.07, fax, ((0.25, 0.55), (8, 40))),
        (0.2, swell, ((-0.5, 0.6),)),
        (0.6, blur, ((0.05, 1.1),)),
        (0.25, sharpen, ((0, 1.2),)),
        (0.4, lambda some, strength: some + torch.randn_like(some) * strength, ((0, 0.08),)),
        (0.2, threshold, ((0.3, 0.7), (6, 40))),
        (0.2, speckle, ((0, 0.006),)),
        (0.5, jpeg, ((0.2, 3.5),)),
        (0.35, lambda some, contrast, lift: some * contrast + (1 - contrast) * lift, ((0.25, 1), (0, 1))),
        (0.06, faint, ((0.12, 0.4), (0, 1), (0, 0.12))),
        (0.18, lambda some: 1 - some, ()),
    ]
    for share, step, ranges in steps:
        part = _some(n, share, device)
        if len(part):
            x[part] = step(x[part], *(_uniform(len(part), low, high, device) for low, high in ranges))
    return x.clamp_(0, 1)
