"""The vision tower's forward pass for encoding: transformers' weights, fewer passes over memory.

A layer is seven kernels: norm, one product for queries, keys and values, attention, product added to the
residual stream in place, norm, product with GELU, product added in place. The biases of what is added are the
same at all positions: they are summed up beforehand and join the stream inside the next norm. Training takes
it, too, while nothing in here learns (``train.passes``).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from vsplade.encode.modernvbert.devices import kernels_run_on

TILES = 208
"""Tiles at a time: 16 A4 pages, large products; 3 GiB in bfloat16."""
TILES_ON_CPU = 16
KERNELS = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)
"""Attention in order of preference. For tiles of 1,024 positions cuDNN's was a third faster than flash."""


@dataclass(frozen=True)
class Norm:
    weight: Tensor
    bias: Tensor
    eps: float
    added: Tensor
    """Biases of all products before it that the stream left out."""

    def __call__(self, x: Tensor) -> Tensor:
        if kernels_run_on(x):
            from vsplade.encode.modernvbert.kernels import norm_rows

            return launch_norm(norm_rows, x, self)
        whole = x + self.added.to(x.dtype)
        return functional.layer_norm(whole, x.shape[-1:], self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Layer:
    before: Norm
    qkv: tuple[Tensor, Tensor]
    out: Tensor
    between: Norm
    wide: tuple[Tensor, Tensor]
    narrow: Tensor


class Tower:
    """Tiles of bytes to (tiles, positions, width); build it anew when the weights change."""

    def __init__(self, vision: Any, mean: float, deviation: float) -> None:
        self.mean, self.deviation = mean, deviation
        self.heads: int = vision.config.num_attention_heads
        patch = vision.embeddings.patch_embedding
        self.patch: int = patch.kernel_size[0]
        with torch.no_grad():
            self.first = patch.weight.flatten(1).t()
            self.places = vision.embeddings.position_embedding.weight + patch.bias
            self.layers, added = _layers(vision)
            self.last = _norm(vision.post_layernorm, added)

    @staticmethod
    def fits(vision: Any) -> bool:
        return (
            vision.config.hidden_act in ("gelu_pytorch_tanh", "gelu_new")
            and vision.config.num_channels == 3
            and vision.config.image_size % vision.config.patch_size == 0
        )

    @torch.no_grad()
    def __call__(self, tiles: Tensor) -> Tensor:
        step = TILES if tiles.is_cuda else TILES_ON_CPU
        parts = [self._see(part) for part in tiles.split(step)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _see(self, tiles: Tensor) -> Tensor:
        positions, width = self.places.shape
        x = self.places.repeat(len(tiles), 1)
        x.addmm_(self._patches(tiles), self.first)
        with attention_order(self._planned(tiles)):
            for layer in self.layers:
                weight, bias = layer.qkv
                qkv = functional.linear(layer.before(x), weight, bias)
                q, k, v = qkv.view(len(tiles), positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
                mixed = functional.scaled_dot_product_attention(q, k, v)
                x.addmm_(mixed.transpose(1, 2).reshape(-1, width), layer.out)
                x.addmm_(_gelu_linear(layer.between(x), *layer.wide), layer.narrow)
        return self.last(x).view(len(tiles), positions, width)

    def _planned(self, tiles: Tensor) -> bool:
        return tiles.is_cuda and len(tiles) == TILES

    def _patches(self, tiles: Tensor) -> Tensor:
        kind, patch, edge = self.first.dtype, self.patch, tiles.shape[-1]
        if kernels_run_on(tiles):
            from vsplade.encode.modernvbert.kernels import patch_rows

            return launch_patches(patch_rows, tiles, patch, self.mean, self.deviation, kind)
        pixels = tiles.float().div_(255).sub_(self.mean).div_(self.deviation).to(kind)
        side = edge // patch
        cut = pixels.view(len(tiles), 3, side, patch, side, patch).permute(0, 2, 4, 1, 3, 5)
        return cut.reshape(-1, 3 * patch * patch)


def launch_norm(kernel: Any, x: Tensor, norm: Norm, rows: int = 4) -> Tensor:
    out = torch.empty_like(x)
    width = x.shape[1]
    block = 1 << (width - 1).bit_length()
    kernel[(-(-len(x) // rows),)](
        x, norm.added, norm.weight, norm.bias, out, len(x), width, norm.eps, R=rows, W=block
    )
    return out


def launch_patches(
    kernel: Any, tiles: Tensor, patch: int, mean: float, deviation: float, kind: torch.dtype
) -> Tensor:
    tiles = tiles.contiguous()
    width = 3 * patch * patch
    out = torch.empty(tiles.numel() // width, width, dtype=kind, device=tiles.device)
    grid = (-(-tiles.numel() // 1024),)
    kernel[grid](tiles, out, tiles.numel(), mean, deviation, edge=tiles.shape[-1], patch=patch, B=1024)
    return out


def attention_order(known: bool) -> AbstractContextManager[Any]:
    """cuDNN plans anew for every number of tiles, and that takes time: it gets whole parts only."""
    if not known:
        return nullcontext()
    try:
        return sdpa_kernel(list(KERNELS), set_priority=True)
    except TypeError:  # torch before 2.6 chooses by itself
        return nullcontext()


def _gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """GELU by its tanh form; on CUDA inside the product (the private function has no other way in)."""
    if x.is_cuda:
        fused: Tensor = torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
        return fused
    return functional.gelu(functional.linear(x, weight, bias), approximate="tanh")


def _layers(vision: Any) -> tuple[list[Layer], Tensor]:
    added = torch.zeros(vision.config.hidden_size, device=vision.post_layernorm.weight.device)
    layers = []
    for layer in vision.encoder.layers:
        attention, mlp = layer.self_attn, layer.mlp
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        between = added + attention.out_proj.bias.float()
        layers.append(
            Layer(
                _norm(layer.layer_norm1, added),
                (torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])),
                attention.out_proj.weight.t(),
                _norm(layer.layer_norm2, between),
                (mlp.fc1.weight, mlp.fc1.bias),
                mlp.fc2.weight.t(),
            )
        )
        added = between + mlp.fc2.bias.float()
    return layers, added


def _norm(norm: Any, added: Tensor) -> Norm:
    return Norm(norm.weight, norm.bias, norm.eps, added)
