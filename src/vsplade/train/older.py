"""Checkpoints of the reader, those of an earlier form too.

The first reader looked at the picture by a 5 x 5 convolution of stride 2 and went on by a 3 x 3 of stride 2.
Both are the same sums as two convolutions on the folded picture (encode/network.py), which a CPU does faster:
the four places of a 2 x 2 block become channels. Such a checkpoint is rewritten while it is loaded.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.network import FOLD
from vsplade.errors import InputError
from vsplade.train import checkpoint

STEM, TO_FINE = "model.trunk.stem", "model.trunk.to_fine"


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors in float32 and the header, with the network's configuration under ``network``."""
    tensors, header = checkpoint.load(path)
    if "network" not in header:
        raise InputError(f"{path} is not a checkpoint of the reader: it does not tell its network.")
    tensors = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
    stem = tensors.get(f"{STEM}.0.weight")
    if stem is None or stem.shape[1] != 1:
        return tensors, header
    network = {**header["network"], "stem": 4 * len(stem)}
    return fold_first_layers(tensors, network["hidden"]), {**header, "network": network}


def fold_first_layers(tensors: dict[str, Tensor], hidden: int) -> dict[str, Tensor]:
    """The model's tensors in today's form; the optimizer's state, which no longer fits, is left out."""
    out = {name: t for name, t in tensors.items() if name.startswith("model.")}
    first, second = out[f"{STEM}.0.weight"], out[f"{TO_FINE}.0.weight"]
    channels = len(first)
    stem = torch.zeros(4 * channels, FOLD * FOLD, 3, 3)
    for p, q, u, v in product(range(2), range(2), range(5), range(5)):
        row, column = 2 * p + u - 2, 2 * q + v - 2  # of the pixel, from the corner of its 4 x 4 block
        at = (2 * p + q) * channels
        block = (row // FOLD + 1, column // FOLD + 1)
        stem[at : at + channels, row % FOLD * FOLD + column % FOLD, *block] += first[:, 0, u, v]
    to_fine = torch.zeros(len(second), 4 * channels, 2, 2)
    place = ((0, 1), (1, 0), (1, 1))  # block and phase of the rows above, at and below the middle
    for u, v in product(range(3), range(3)):
        (a, p), (b, q) = place[u], place[v]
        at = (2 * p + q) * channels
        to_fine[:, at : at + channels, a, b] += second[:, :, u, v]
    out |= {f"{STEM}.0.weight": stem, f"{TO_FINE}.0.weight": to_fine}
    for name in ("weight", "bias", "running_mean", "running_var"):
        out[f"{STEM}.1.{name}"] = out[f"{STEM}.1.{name}"].repeat(4)
    # the size of type was not learned then: 16 px, until it is
    out |= {"model.size.weight": torch.zeros(1, hidden), "model.size.bias": torch.full((1,), 4.0)}
    return out
