"""The page encoder for meaning, in torch: MiniLM, and a linear layer that makes its vectors shorter.

It can be told how sure the reader was of each word (`doubt`); what ships was not trained with that.
`export.py` writes it for onnxruntime.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HIDDEN, HEADS, LAYERS, FEED = 384, 12, 6, 1536


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.up = nn.Linear(HIDDEN, FEED)
        self.down = nn.Linear(FEED, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        n, length, _ = x.shape
        qkv = self.qkv(x).view(n, length, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=bias)
        x = self.norm1(x + self.out(mixed.transpose(1, 2).reshape(n, length, HIDDEN)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Tokens to hidden states. ``padding`` is the number of the token that is none."""

    def __init__(self, vocabulary: int, padding: int, layers: int = LAYERS, positions: int = 512) -> None:
        super().__init__()
        self.padding = padding
        self.words = nn.Embedding(vocabulary, HIDDEN)
        self.positions = nn.Embedding(positions, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, tokens: Tensor, extra: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Hidden states, and which of them are of tokens that are there."""
        there = tokens != self.padding
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        x = self.norm(x if extra is None else x + extra)
        bias = torch.zeros_like(there, dtype=x.dtype).masked_fill(~there, -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        return x, there


def mean(hidden: Tensor, there: Tensor) -> Tensor:
    weight = there.to(hidden.dtype)[..., None]
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def load_minilm(folder: Path) -> Bert:
    """MiniLM as it was published: the teacher, and the start."""
    from safetensors.torch import load_file

    raw = {
        k.removeprefix("bert."): v.float() for k, v in load_file(str(folder / "model.safetensors")).items()
    }
    model = Bert(raw["embeddings.word_embeddings.weight"].shape[0], padding=0)
    state = {
        "words.weight": raw["embeddings.word_embeddings.weight"],
        "positions.weight": raw["embeddings.position_embeddings.weight"]
        + raw["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": raw["embeddings.LayerNorm.weight"],
        "norm.bias": raw["embeddings.LayerNorm.bias"],
    }
    for n in range(LAYERS):
        old, new = f"encoder.layer.{n}.", f"layers.{n}."
        for kind in ("weight", "bias"):
            parts = [raw[f"{old}attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            state[f"{new}qkv.{kind}"] = torch.cat(parts)
            state[f"{new}out.{kind}"] = raw[f"{old}attention.output.dense.{kind}"]
            state[f"{new}norm1.{kind}"] = raw[f"{old}attention.output.LayerNorm.{kind}"]
            state[f"{new}up.{kind}"] = raw[f"{old}intermediate.dense.{kind}"]
            state[f"{new}down.{kind}"] = raw[f"{old}output.dense.{kind}"]
            state[f"{new}norm2.{kind}"] = raw[f"{old}output.LayerNorm.{kind}"]
    model.load_state_dict(state)
    return model


def page_encoder(minilm: Bert, head: Tensor) -> PageEncoder:
    """MiniLM as it is, over its own tokens, and then ``head`` (dimensions, 384); the padding is a token of
    its own, the last."""
    terms = len(minilm.words.weight)
    page = PageEncoder(terms, len(head), len(minilm.layers)).eval()
    state = {f"bert.{key}": value for key, value in minilm.state_dict().items()}
    state["bert.words.weight"] = torch.cat([minilm.words.weight, torch.zeros(1, HIDDEN)])
    page.load_state_dict(state | {"doubt": torch.zeros(HIDDEN), "head.weight": head})
    return page


def unit(x: Tensor) -> Tensor:
    """Of length 1. The gradient stays finite where all words of a window were lost."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


class PageEncoder(nn.Module):
    """A window of a page's terms to one vector of length 1."""

    def __init__(self, terms: int, dimensions: int, layers: int = LAYERS) -> None:
        super().__init__()
        self.bert = Bert(terms + 1, padding=terms, layers=layers)
        self.doubt = nn.Parameter(torch.zeros(HIDDEN))
        """Added to a token in proportion to the reader's doubt of it."""
        self.head = nn.Linear(HIDDEN, dimensions, bias=False)

    def forward(self, tokens: Tensor, certainty: Tensor) -> Tensor:
        hidden, there = self.bert(tokens, (1 - certainty)[..., None] * self.doubt)
        return unit(self.head(mean(hidden, there)))
