"""Low-rank adapters on linear layers, and folding them back into plain weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from vsplade.encode.modernvbert.model import QueryTable, SpladeModel
from vsplade.errors import InputError

_BEFORE_ADAPTERS = ("layer_norm1", "layer_norm2", "attn_norm", "mlp_norm")
"""Norms in the layers of both towers whose output goes to adapted linear layers and nowhere else."""


class LoraLinear(nn.Module):
    """``base`` is frozen; ``down`` and ``up`` are learned. ``up`` starts at 0, so nothing changes at
    first.
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        bound = math.sqrt(3 / base.in_features)
        with torch.no_grad():
            self.down.uniform_(-bound, bound, generator=generator)
        self.share = alpha / rank

    @property
    def weight(self) -> Tensor:
        """The adapted weight, for the pooling that projects by itself."""
        return self.base.weight + self.share * (self.up @ self.down)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """One cast of the input under autocast, and the low-rank part added in place: kept for the way back
        are the input and ``rank`` numbers a row, nothing of the output's size.
        """
        kind = self._kind(inputs)
        rows = inputs.flatten(0, -2).to(kind)
        bias = self.base.bias
        wide = nn.functional.linear(rows, self.base.weight.to(kind), None if bias is None else bias.to(kind))
        low = nn.functional.linear(rows, self.down.to(kind))
        wide.addmm_(low, self.up.to(kind).t(), alpha=self.share)
        return wide.view(*inputs.shape[:-1], -1)

    @staticmethod
    def _kind(inputs: Tensor) -> torch.dtype:
        device = inputs.device.type
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype

    def merged(self) -> nn.Linear:
        with torch.no_grad():
            self.base.weight.copy_(self.weight)
        return self.base


def adapt(model: SpladeModel, rank: int, alpha: float, vision: bool, seed: int) -> None:
    """Freeze the model but for adapters on text layers and head, and the query table's projection; with
    ``vision`` also on the vision tower and the connector.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    parts: list[nn.Module] = [model.body.text_model, model.head]
    if vision:
        parts += [model.body.connector, model.body.vision_model.encoder]
    for part in parts:
        for parent in list(part.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(parent, name, LoraLinear(child, rank, alpha, generator))
                elif name in _BEFORE_ADAPTERS:
                    child.register_forward_hook(_cast_once)
    unfreeze_query(model)


def _cast_once(_: nn.Module, __: object, output: Tensor) -> Tensor:
    """Autocast leaves a norm's output in float32; queries, keys and values would keep a cast copy each."""
    return output.to(LoraLinear._kind(output))


def unfreeze_query(model: SpladeModel) -> None:
    if not isinstance(model.query, QueryTable):
        raise InputError("This model has a fixed query table; training needs the parts it was made from.")
    model.query.requires_grad_(False)
    if model.query.activation != "one":
        model.query.projection.requires_grad_(True)


def merge(model: SpladeModel) -> None:
    """Adapters become part of the weights: the model is a plain one again."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, LoraLinear):
                setattr(parent, name, child.merged())
