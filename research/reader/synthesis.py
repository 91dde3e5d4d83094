"""Endless labelled windows: scenes, words, fonts, geometry and wear put together, on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor

from research.reader import clutter
from research.reader.degrade import age_planes
from research.reader.draw import compose, draw_boxes, draw_glyphs
from research.reader.kinds import make_scene
from research.reader.scenes import SIZE
from research.reader.typeset import Labels, Typesetter

Ragged = tuple[Tensor, Tensor]  # rows of all scenes, and where each scene begins (one more than scenes)


def make_scenes(
    count: int, workers: int, first_seed: int = 0, plain: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    make = partial(make_scene, plain=plain)
    seeds = range(first_seed, first_seed + count)
    if workers <= 1:
        return [make(seed) for seed in seeds]
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        return list(pool.map(make, seeds, chunksize=256))


def ragged(rows: Sequence[np.ndarray], device: torch.device) -> Ragged:
    starts = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return torch.from_numpy(np.concatenate(rows)).to(device), torch.from_numpy(starts).to(device)


def take(table: Ragged, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the chosen scenes, one scene after the other, and which of ``chosen`` each belongs to."""
    rows, starts = table
    count = starts[chosen + 1] - starts[chosen]
    owner = torch.repeat_interleave(torch.arange(len(chosen), device=chosen.device), count)
    within = torch.arange(len(owner), device=chosen.device) - (torch.cumsum(count, 0) - count)[owner]
    return rows[starts[chosen][owner] + within], owner


def random_affine(n: int, device: torch.device) -> Tensor:
    """(n, 2, 3) scene px to picture px: some scale, skew and shift about the middle; most nearly straight."""

    def rand(low: float, high: float) -> Tensor:
        return torch.rand(n, device=device) * (high - low) + low

    angle = torch.where(rand(0, 1) < 0.45, rand(-0.05, 0.05), rand(-0.004, 0.004))
    # a third is set narrow or wide: condensed type is what real pages have and few of our faces
    scale_x, scale_y = rand(0.85, 1.18), torch.where(rand(0, 1) < 0.3, rand(0.8, 1.35), rand(0.96, 1.04))
    shear = torch.where(rand(0, 1) < 0.15, rand(-0.12, 0.12), torch.zeros(n, device=device))
    cos, sin = torch.cos(angle), torch.sin(angle)
    matrix = torch.stack([cos, -sin + shear, sin, cos], 1).view(n, 2, 2)
    matrix = matrix * torch.stack([scale_x, scale_x * scale_y], 1)[:, None, :]
    middle = torch.full((n, 2, 1), SIZE / 2, device=device)
    shift = middle - matrix @ middle + torch.stack([rand(-24, 24), rand(-24, 24)], 1)[..., None]
    return torch.cat([matrix, shift], 2)


class Synthesis:
    def __init__(
        self, typesetter: Typesetter, scenes: Sequence[tuple[np.ndarray, np.ndarray]], plain: bool = False
    ) -> None:
        self.typesetter, self.device, self.plain = typesetter, typesetter.device, plain
        self.runs = ragged([runs for runs, _ in scenes], self.device)
        self.boxes = ragged([boxes for _, boxes in scenes], self.device)
        self.scenes = len(scenes)

    def windows(self, n: int) -> tuple[Tensor, Labels]:
        """Pictures (n, SIZE, SIZE), not yet degraded, and their labels."""
        chosen = torch.randint(self.scenes, (n,), device=self.device)
        forward = random_affine(n, self.device)
        runs, run_window = take(self.runs, chosen)
        boxes, box_window = take(self.boxes, chosen)
        glyphs, labels = self.typesetter.set(runs, run_window, forward)
        planes = torch.zeros(3, n, SIZE, SIZE, device=self.device)
        if self.plain:
            planes[1] = 1
            draw_glyphs(planes[2], glyphs, self.typesetter.atlas.ink)
            return compose(planes), labels
        tint = torch.rand(n, 1, 1, device=self.device) ** 3 * 0.45
        planes[0] += tint
        planes[1] += tint + (1 - tint) * (1 - 0.6 * torch.rand(n, 1, 1, device=self.device) ** 2)
        draw_boxes(planes, boxes, box_window, forward)
        clutter.back(planes)
        draw_glyphs(planes[2], glyphs, self.typesetter.atlas.ink)
        age_planes(planes)
        return clutter.cover(compose(planes), labels)
