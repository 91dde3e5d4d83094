"""The forward passes of a training step in place of transformers': the same numbers, less work.

Where nothing in the vision tower is learned, its pass for encoding does: that is most of a step's arithmetic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.encode.modernvbert.tower import Tower


class FrozenEyes:
    """Tiles of bytes to what the vision tower sees, outside of autocast, in the precision of products."""

    def __init__(self, vision: Any, kind: torch.dtype, settings: Any, tower: type[Tower] = Tower) -> None:
        same = vision.post_layernorm.weight.dtype == kind
        own = vision if same else copy.deepcopy(vision).to(kind)
        self._tower = tower(own, settings.mean, settings.deviation)

    def __call__(self, tiles: Tensor) -> Tensor:
        with torch.autocast(tiles.device.type, enabled=False):
            return self._tower(tiles)


def frozen_eyes(
    model: SpladeModel, kind: torch.dtype, settings: Any, tower: type[Tower] = Tower
) -> FrozenEyes | None:
    """None where the tower learns, or is of a kind that ``Tower`` does not know."""
    vision = model.body.vision_model
    learns = any(parameter.requires_grad for parameter in vision.parameters())
    return None if learns or not Tower.fits(vision) else FrozenEyes(vision, kind, settings, tower)


@dataclass
class Passes:
    """What a model takes while a step runs; it is left as it is."""

    model: SpladeModel
    eyes: FrozenEyes | None = None
    text: Callable[[Tensor, Tensor | None], Tensor] | None = None
    """Knows by itself what to do without a mask."""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """``tiles`` are bytes where there are ``eyes``."""
        model = self.model
        kept = model.tower, model.text_tower
        model.tower, model.text_tower = self.eyes or kept[0], self.text or kept[1]
        try:
            yield
        finally:
            model.tower, model.text_tower = kept
