"""The reader's network out of its files, what it finds on pages, and the likeliest terms there: for torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.gpu.network import NetworkConfig, Reader, fold_norms
from vsplade.encode.gpu.onnx_weights import unpacked
from vsplade.encode.gpu.transfers import kernels
from vsplade.errors import InputError

GROUPS = 512
"""Terms of which only the best is looked at first: the best few of all are among the best few groups."""


def load_network(folder: Path, config: dict[str, Any]) -> Reader:
    """The network with its norms folded, strictly: every weight must be there."""
    reader: Reader = Reader(NetworkConfig(**config["network"])).eval()
    fold_norms(reader)
    found = {
        name: torch.from_numpy(w)
        for part in ("trunk", "head")
        for name, w in unpacked(folder / f"{part}.onnx").items()
    }
    wanted = {name for name in reader.state_dict() if not name.startswith("characters.")}
    if wanted != found.keys():
        odd = sorted(wanted ^ found.keys())
        raise InputError(f"{folder} does not fit the network; missing or unexpected: {', '.join(odd[:5])}.")
    reader.load_state_dict(found, strict=False)
    return reader


def best_terms(logits: Tensor, best: int) -> tuple[Tensor, Tensor]:
    """Probabilities and terms of the ``best`` likeliest of each row: an exact top-k that sorts little."""
    if logits.is_cuda and kernels() is not None and kernels().fits(logits.shape[1], best):
        found: tuple[Tensor, Tensor] = kernels().best_terms(logits, best)
        return found
    chance = torch.softmax(logits, 1)
    rows, terms = chance.shape
    if terms % GROUPS:
        return tuple(chance.topk(best, 1))
    members = chance.view(rows, terms // GROUPS, GROUPS)  # a group is a column
    chosen = members.amax(1).topk(best, 1).indices
    near = members.gather(2, chosen[:, None, :].expand(-1, terms // GROUPS, -1)).flatten(1)
    values, place = near.topk(best, 1)
    return values, place // best * GROUPS + chosen.gather(1, place % best)


@dataclass
class Found:
    """Cells that hold the middle of a word piece, on the device."""

    page: Tensor
    middle: Tensor
    """(n, 2) x, y in fractions of the page."""
    pixel: Tensor
    """(n, 2) one pixel of the copy it was read on."""
    chance: Tensor
    looked: Tensor
    """What the head sees there."""
    em: Tensor
    copy: Tensor
    """The number of the copy: 0 is the page itself."""

    def only(self, rows: Tensor) -> Found:
        return Found(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))

    @staticmethod
    def join(parts: Sequence[Found]) -> Found:
        return Found(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Found)))
