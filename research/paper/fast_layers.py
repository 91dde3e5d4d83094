"""The text layers' forward pass for training with adapters: the same numbers as transformers', less work.

It can be differentiated and compiled. Frozen weights are cast once, masks are made once a batch, and pages
without padding have none. ``vsplade train`` takes transformers' layers: a folder of one's own PDFs is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from research.paper import fused_text
from research.paper.fused_text import Product
from research.paper.tower_eight import EightBitTower
from vsplade.encode.modernvbert.model import SpladeModel
from vsplade.encode.modernvbert.packed import Packing, can_pack
from vsplade.encode.modernvbert.text_tower import FULL, TextTower
from vsplade.encode.modernvbert.tower import Tower
from vsplade.train.lora import LoraLinear
from vsplade.train.passes import Passes, frozen_eyes

Norm = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Speed:
    """Of a training step; none of it changes what is learned but for rounding."""

    own_passes: bool = True
    """The passes of this module in place of transformers'."""
    own_text: bool = True
    """Without it only a vision tower that does not learn has one: what ``vsplade train`` does."""
    compile: bool = False
    """torch compiles the layers that learn: a minute at the start."""
    kept: int = 0
    """With gradient checkpointing: layers of each tower that keep their activations all the same."""
    fused: bool = True
    """On a GPU in half precision, where only the text layers learn: they go without padding, and with a way
    back of their own."""
    eight_bits: bool = False
    """8-bit products in a vision tower that does not learn."""


def of_text(speed: Speed, frozen_eyes: bool) -> Speed:
    """Where the vision tower learns, too, the way back without padding is not shown to be as exact at full
    size: padding stays (docs/paper-model.md)."""
    return replace(speed, fused=speed.fused and frozen_eyes)


class LearningText:
    """(pages, positions, width) of embeddings to as many hidden states; adapters are read at every call."""

    def __init__(self, text: Any, kind: torch.dtype, speed: Speed, keep: int) -> None:
        config = text.config
        self.text, self.kind, self.keep = text, kind, keep
        self.heads: int = config.num_attention_heads
        self.window: int = config.local_attention // 2
        self.frozen = {
            module: module.base.weight.detach().to(kind)
            for module in text.modules()
            if isinstance(module, LoraLinear)
        }
        self.layer: Callable[..., Tensor] = torch.compile(_layer, dynamic=True) if speed.compile else _layer
        norms = [norm for layer in text.layers for norm in (layer.attn_norm, layer.mlp_norm)]
        without_bias = all(getattr(norm, "bias", None) is None for norm in [*norms, text.final_norm])
        self.fused = speed.fused and not speed.compile and without_bias

    @staticmethod
    def fits(text: Any) -> bool:
        config = text.config
        dropped = (config.attention_dropout, config.mlp_dropout, config.embedding_dropout)
        adapted = all(
            isinstance(module, LoraLinear)
            for layer in text.layers
            for module in (layer.attn.Wqkv, layer.attn.Wo, layer.mlp.Wi, layer.mlp.Wo)
        )
        return TextTower.fits(text) and adapted and not any(dropped)

    def __call__(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        with torch.autocast(inputs.device.type, enabled=False):
            if self.fused and can_pack(inputs.device, self.kind):
                return self._fused_pass(inputs.float(), mask)
            return self._pass(inputs.float(), mask)

    def _fused_pass(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        pages, length, _ = inputs.shape
        packing = Packing.of(pages, length, mask, inputs.device)
        place = torch.arange(length, device=inputs.device).unsqueeze(0)
        kinds = {layer.attention_type for layer in self.text.layers}
        turns = {
            kind: [packing.turned(t) for t in self.text.rotary_emb(inputs, place, kind)] for kind in kinds
        }
        x, y = self.text.embeddings.norm(packing.pack(inputs)), None
        for number, layer in enumerate(self.text.layers):
            kind, norm = layer.attention_type, _norm(layer.attn_norm)
            given = (
                x, y, *turns[kind], packing, -1 if kind == FULL else self.window, norm and norm[0],
                self._product(layer.attn.Wqkv), self._product(layer.attn.Wo), layer.mlp_norm.weight,
                self._product(layer.mlp.Wi), self._product(layer.mlp.Wo), self.heads,
                float(layer.mlp_norm.eps),
            )  # fmt: skip
            if number < self.keep or not torch.is_grad_enabled():
                x, y = fused_text.layer(*given)
            else:
                x, y = checkpoint(fused_text.layer, *given, use_reentrant=False)
        last = self.text.final_norm
        _, rows = fused_text.AddNorm.apply(x, y, last.weight, float(last.eps))
        return packing.unpack(rows)

    def _pass(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        seen = TextTower._seen(self, inputs.shape[1], mask, inputs.device)  # type: ignore[arg-type]
        place = torch.arange(inputs.shape[1], device=inputs.device).unsqueeze(0)
        kinds = {layer.attention_type for layer in self.text.layers}
        turns = {kind: self.text.rotary_emb(inputs, place, kind) for kind in kinds}
        x = self.text.embeddings.norm(inputs)
        for number, layer in enumerate(self.text.layers):
            kind = layer.attention_type
            given = (
                x, *turns[kind], seen[kind == FULL], _norm(layer.attn_norm), self._product(layer.attn.Wqkv),
                self._product(layer.attn.Wo), _norm(layer.mlp_norm), self._product(layer.mlp.Wi),
                self._product(layer.mlp.Wo), self.heads, float(layer.mlp_norm.eps),
            )  # fmt: skip
            # The first layer has no norm before it: not worth a graph of its own.
            run = self.layer if number else _layer
            if number < self.keep or not torch.is_grad_enabled():
                x = run(*given)
            else:
                x = checkpoint(run, *given, use_reentrant=False)
        hidden: Tensor = self.text.final_norm(x)
        return hidden

    def _product(self, module: LoraLinear) -> Product:
        return self.frozen[module], module.down.to(self.kind), (module.up * module.share).to(self.kind)


def fast_passes(
    model: SpladeModel, speed: Speed, kind: torch.dtype, checkpointing: bool, settings: Any
) -> Passes:
    """The passes that a model with adapters can take."""
    vision, text = model.body.vision_model, model.body.text_model
    frozen = not any(parameter.requires_grad for parameter in vision.parameters())
    passes = Passes(model)
    if speed.own_passes:
        passes.eyes = frozen_eyes(model, kind, settings, EightBitTower if speed.eight_bits else Tower)
    if speed.own_passes and speed.own_text and LearningText.fits(text):
        keep = speed.kept if checkpointing else len(text.layers)
        passes.text = LearningText(text, kind, of_text(speed, frozen), keep)
    for layer in vision.encoder.layers[: speed.kept]:
        layer.gradient_checkpointing = False
    if speed.compile and not frozen:
        for layer in vision.encoder.layers:
            layer.compile(dynamic=False)
    return passes


def _layer(
    x: Tensor, cosine: Tensor, sine: Tensor, seen: Tensor | None, before: Norm | None, qkv: Product,
    out: Product, between: Norm, wide: Product, narrow: Product, heads: int, eps: float,
) -> Tensor:  # fmt: skip
    """The stream stays in its own precision, products are in that of their weights."""
    pages, length, width = x.shape
    kind = qkv[0].dtype
    rows = x if before is None else functional.layer_norm(x, (width,), *before, eps)
    seen_here = _multiply(rows.view(-1, width).to(kind), qkv).view(pages, length, 3, heads, -1)
    q, k, v = seen_here.permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(
        _turned(q, cosine, sine), _turned(k, cosine, sine), v, attn_mask=seen
    )
    x = x + _multiply(mixed.transpose(1, 2).reshape(-1, width), out).view_as(x)
    rows = functional.layer_norm(x, (width,), *between, eps).view(-1, width).to(kind)
    value, gate = _multiply(rows, wide).chunk(2, -1)
    return x + _multiply(functional.gelu(value) * gate, narrow).view_as(x)


def _multiply(rows: Tensor, by: Product) -> Tensor:
    weight, down, up = by
    return functional.linear(rows, weight).addmm_(functional.linear(rows, down), up.t())


def _turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary places of (pages, heads, positions, size)."""
    whole = x.float()
    a, b = whole.chunk(2, -1)
    return (whole * cosine[:, None].float() + torch.cat([-b, a], -1) * sine[:, None].float()).to(x.dtype)


def _norm(norm: Any) -> Norm | None:
    return None if isinstance(norm, torch.nn.Identity) else (norm.weight, norm.bias)
