"""The text layers' forward pass for encoding, as ``tower`` has it for the vision layers.

The weights are transformers' own; products add to the stream in place, and norms, rotary places and the gate
are one kernel each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from vsplade.encode.modernvbert.devices import kernels_run_on
from vsplade.encode.modernvbert.packed import Packing, attend, can_pack
from vsplade.encode.modernvbert.tower import Norm

FULL = "full_attention"


@dataclass(frozen=True)
class TextLayer:
    kind: str
    """Of attention: all positions, or those near by."""
    before: Norm | None
    qkv: Tensor
    out: Tensor
    between: Norm
    wide: Tensor
    narrow: Tensor


class TextTower:
    """(pages, positions, width) of embeddings to as many hidden states; build it anew when the weights
    change.
    """

    def __init__(self, text: Any) -> None:
        config = text.config
        self.heads: int = config.num_attention_heads
        self.window: int = config.local_attention // 2
        self.turns = text.rotary_emb
        with torch.no_grad():
            self.first, self.last = _norm(text.embeddings.norm), _norm(text.final_norm)
            self.layers = [_layer(layer) for layer in text.layers]

    @staticmethod
    def fits(text: Any) -> bool:
        config = text.config
        return config.hidden_activation == "gelu" and not (config.attention_bias or config.mlp_bias)

    @torch.no_grad()
    def __call__(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        if can_pack(inputs.device, inputs.dtype):
            return self._packed(inputs, mask)
        pages, length, width = inputs.shape
        seen = self._seen(length, mask, inputs.device)
        place = torch.arange(length, device=inputs.device).unsqueeze(0)
        turns = {kind: self.turns(inputs, place, kind) for kind in {layer.kind for layer in self.layers}}
        x = self.first(inputs.reshape(-1, width))
        for layer in self.layers:
            qkv = functional.linear(x if layer.before is None else layer.before(x), layer.qkv)
            cosine, sine = turns[layer.kind]
            rotate(qkv, cosine, sine, self.heads)
            q, k, v = qkv.view(pages, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[layer.kind == FULL])
            x.addmm_(mixed.transpose(1, 2).reshape(-1, width), layer.out)
            x.addmm_(gate(functional.linear(layer.between(x), layer.wide)), layer.narrow)
        return self.last(x).view(pages, length, width)

    def _packed(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        """Without padding, and near positions only where a layer looks at no others."""
        pages, length, _ = inputs.shape
        packing = Packing.of(pages, length, mask, inputs.device)
        place = torch.arange(length, device=inputs.device).unsqueeze(0)
        kinds = {layer.kind for layer in self.layers}
        turns = {kind: [packing.turned(t) for t in self.turns(inputs, place, kind)] for kind in kinds}
        x = self.first(packing.pack(inputs))
        for layer in self.layers:
            qkv = functional.linear(x if layer.before is None else layer.before(x), layer.qkv)
            cosine, sine = turns[layer.kind]
            rotate(qkv, cosine, sine, self.heads)
            mixed, _ = attend(qkv, packing, self.heads, -1 if layer.kind == FULL else self.window)
            x.addmm_(mixed, layer.out)
            x.addmm_(gate(functional.linear(layer.between(x), layer.wide)), layer.narrow)
        return packing.unpack(self.last(x))

    def _seen(self, length: int, mask: Tensor | None, device: torch.device) -> dict[bool, Tensor | None]:
        """Who sees whom: far and near. Padding sees itself, so that it stays a number."""
        place = torch.arange(length, device=device)
        apart = (place[:, None] - place[None]).abs()
        near = (apart <= self.window)[None, None]
        if mask is None:
            return {True: None, False: near}
        there = mask.bool()[:, None, None]
        itself = (apart == 0)[None, None]
        return {True: there | itself, False: (there & near) | itself}


def rotate(qkv: Tensor, cosine: Tensor, sine: Tensor, heads: int) -> None:
    """Turn queries and keys by their places, in place; (rows, 3 * width) and (1, length, head's width)."""
    if kernels_run_on(qkv):
        from vsplade.encode.modernvbert.kernels import rotate_heads

        launch_rotate(rotate_heads, qkv, cosine, sine, heads)
        return
    length, size = cosine.shape[1:]
    turned = qkv.view(-1, length, 3, heads, size)[:, :, :2]
    exact = torch.promote_types(qkv.dtype, torch.float32)
    plain = turned.to(exact, copy=True)
    a, b = plain.chunk(2, -1)
    cosine, sine = cosine[0, :, None, None].to(exact), sine[0, :, None, None].to(exact)
    turned.copy_(plain * cosine + torch.cat([-b, a], -1) * sine)


def gate(both: Tensor) -> Tensor:
    if kernels_run_on(both):
        from vsplade.encode.modernvbert.kernels import gate_rows

        return launch_gate(gate_rows, both)
    value, factor = both.chunk(2, -1)
    return functional.gelu(value) * factor


def launch_rotate(kernel: Any, qkv: Tensor, cosine: Tensor, sine: Tensor, heads: int) -> None:
    length, size = cosine.shape[1:]
    half = size // 2
    blocks = {"H": 1 << (2 * heads - 1).bit_length(), "D": 1 << (half - 1).bit_length()}
    kernel[(len(qkv),)](
        qkv, cosine.contiguous(), sine.contiguous(), length, qkv.shape[1] // 3, heads=2 * heads, half=half,
        **blocks,
    )  # fmt: skip


def launch_gate(kernel: Any, both: Tensor) -> Tensor:
    inner = both.shape[1] // 2
    out = both.new_empty(len(both), inner)
    kernel[(-(-out.numel() // 1024),)](both, out, out.numel(), inner=inner, B=1024)
    return out


def _layer(layer: Any) -> TextLayer:
    identity = isinstance(layer.attn_norm, torch.nn.Identity)
    return TextLayer(
        layer.attention_type,
        None if identity else _norm(layer.attn_norm),
        layer.attn.Wqkv.weight,
        layer.attn.Wo.weight.t(),
        _norm(layer.mlp_norm),
        layer.mlp.Wi.weight,
        layer.mlp.Wo.weight.t(),
    )


def _norm(norm: Any) -> Norm:
    nothing = torch.zeros_like(norm.weight)
    return Norm(norm.weight, nothing if norm.bias is None else norm.bias, norm.eps, nothing.float())
