"""What lies on pages and is not text: photographs, halftones, and text on end.

Some windows get a patch. A *backing* patch lies under the text, as a picture on a slide does, and keeps the
ink readable; a *cover* patch lies over it, and what it hides is no longer asked for. The reader learns from
them to stay silent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from research.reader.degrade import smooth_noise
from research.reader.scenes import SIZE
from research.reader.typeset import Labels

BACKED, COVERED = 0.08, 0.22
"""Share of the windows that get patches under or over their text."""
STRIP = 0.35
"""Share of the patches that are narrow strips, as the titles of axes are."""


@dataclass(frozen=True)
class Patches:
    window: Tensor
    box: Tensor  # (n, 4) left, top, right, bottom in px

    def mask(self) -> Tensor:
        """(n, SIZE, SIZE), where each patch lies."""
        axis = torch.arange(SIZE, device=self.box.device)
        left, top, right, bottom = (side[:, None] for side in self.box.unbind(1))
        across, down = (axis >= left) & (axis < right), (axis >= top) & (axis < bottom)
        return down[:, :, None] & across[:, None, :]


def random_patches(windows: int, share: float, device: torch.device) -> Patches:
    """One patch in a share of the windows, every window at most once."""
    count = max(1, int(windows * share))

    def rand(low: float, high: float) -> Tensor:
        return torch.rand(count, device=device) * (high - low) + low

    width, height = torch.exp(rand(4.0, 6.2)), torch.exp(rand(3.5, 6.2))
    strip = rand(0, 1) < STRIP
    width = torch.where(strip, rand(14, 44), width)
    height = torch.where(strip, rand(100, 480), height)
    left, top = rand(-0.2, 0.9) * SIZE, rand(-0.2, 0.9) * SIZE
    box = torch.stack([left, top, left + width, top + height], 1).round().long()
    return Patches(torch.randperm(windows, device=device)[:count], box)


def photographs(n: int, device: torch.device) -> Tensor:
    """(n, SIZE, SIZE) in 0 to 1: clouds of all sizes with hard edges, some of them as a printer's dots."""
    picture = torch.zeros(n, SIZE, SIZE, device=device)
    for cells, strength in ((3, 1.0), (9, 0.6), (28, 0.35), (90, 0.22), (256, 0.12)):
        picture += smooth_noise(n, SIZE, cells, device) * strength * torch.rand(n, 1, 1, device=device)
    edge = smooth_noise(n, SIZE, 5, device) > 0.4
    picture += edge * torch.randn(n, 1, 1, device=device)
    picture = torch.sigmoid(picture * (1 + 2 * torch.rand(n, 1, 1, device=device)))
    axis = torch.arange(SIZE, device=device, dtype=torch.float32)
    pitch = 2.5 + 5 * torch.rand(n, 1, 1, device=device)
    waves = torch.sin(axis / pitch * 3.1416), torch.sin((axis + 1.7) / pitch * 3.1416)
    dots = (waves[0] * waves[1].transpose(1, 2) + 1) / 2
    screened = torch.sigmoid((picture - dots) * 12)
    return torch.where(torch.rand(n, 1, 1, device=device) < 0.3, screened, picture)


def back(planes: Tensor) -> None:
    """Photographs under the text of some windows, in place; the ink there is far from the mean tone."""
    paper, ink, _ = planes
    patches = random_patches(len(paper), BACKED, paper.device)
    picture, mask = photographs(len(patches.window), paper.device), patches.mask()
    mean = torch.rand(len(picture), 1, 1, device=paper.device)
    picture = mean + (picture - 0.5) * 0.5
    tone = torch.where(mean > 0.5, mean * 0.15, 1 - (1 - mean) * 0.15)
    paper[patches.window] = torch.where(mask, picture, paper[patches.window]).clamp(0, 1)
    ink[patches.window] = torch.where(mask, tone, ink[patches.window])


def cover(pictures: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Photographs, or other windows set on end, over parts of some windows; hidden labels go."""
    patches = random_patches(len(pictures), COVERED, pictures.device)
    count = len(patches.window)
    texture = photographs(count, pictures.device)
    turned = pictures[torch.randint(len(pictures), (count,), device=pictures.device)].transpose(1, 2)
    turned = torch.where(
        torch.rand(count, 1, 1, device=pictures.device) < 0.7, turned.flip(1), turned.flip(2)
    )
    narrow = (patches.box[:, 2] - patches.box[:, 0] < 48)[:, None, None]
    on_end = torch.rand(count, 1, 1, device=pictures.device) < torch.where(narrow, 0.9, 0.35)
    texture = torch.where(on_end, turned, texture)
    pictures[patches.window] = torch.where(patches.mask(), texture, pictures[patches.window])
    return pictures, hide(labels, patches, len(pictures))


def hide(labels: Labels, patches: Patches, windows: int) -> Labels:
    """Without what lies under a patch; words that only touch one are no longer whole."""
    box = torch.full((windows, 4), -(10.0**6), device=patches.box.device)
    box[patches.window] = patches.box.float()

    def inside(window: Tensor, xy: Tensor, margin: Tensor) -> Tensor:
        left, top, right, bottom = box[window].unbind(1)
        x, y = xy.unbind(1)
        return (
            (x > left - margin)
            & (x < right + margin)
            & (y > top - 0.4 * margin)
            & (y < bottom + 0.4 * margin)
        )

    none = torch.zeros((), device=box.device)
    piece = ~inside(labels.piece_window, labels.piece_xy, none)
    near = inside(labels.piece_window, labels.piece_xy, 1.5 * labels.piece_em)
    letter = ~inside(labels.character_window, labels.character_xy, none)
    kept = {
        name: getattr(labels, name)[piece if name.startswith("piece") else letter]
        for name in Labels.__dataclass_fields__
    }
    return replace(labels, **{**kept, "piece_whole": (labels.piece_whole & ~near)[piece]})
