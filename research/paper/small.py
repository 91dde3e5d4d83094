"""A small sparse model over the reader's cells: the paper's losses and pooling without its backbone.

As in the paper's model, pages and texts pass the same layers and the same head, and the head's own rows are
the frozen embeddings that the query table is computed from. Texts enter as those rows, scaled as if each term
had been read with certainty. The new layers start as the identity: an untrained model is the reader, pooled
by maximum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from vsplade.encode.gpu.network import Head
from vsplade.encode.modernvbert.model import Pooled, QueryTable
from vsplade.encode.modernvbert.pooling import max_logits, sparse_weights
from vsplade.train.lora import LoraLinear
from vsplade.train.training_config import PaperConfig

MARGIN = 4.0
"""Added to log-probabilities: a term weighs something from a probability of e ** -4 on."""
_WAVES = 6
_SPARE = 7
"""Columns of zeros behind the offset's, so that products have sizes a GPU likes."""


class CellLayer(nn.Module):
    """A transformer layer that sees places; it adds nothing before it is trained."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.place = nn.Linear(4 * _WAVES + 2, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for last in (self.out, self.narrow):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)

    def forward(self, x: Tensor, place: Tensor, mask: Tensor) -> Tensor:
        pages, length, width = x.shape
        seen = self.into(self.first_norm(x) + self.place(place))
        q, k, v = seen.view(pages, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        x = x + self.out(mixed.transpose(1, 2).reshape(pages, length, width))
        hidden: Tensor = self.narrow(functional.gelu(self.wide(self.second_norm(x))))
        return x + hidden


@dataclass(frozen=True)
class TextInputs:
    """How every term enters when it is not read but given: as a feature and an offset, like a cell's."""

    features: Tensor
    offset: Tensor


@torch.no_grad()
def text_inputs(head: Head, certain: float) -> TextInputs:
    """For each term a feature whose logit for it is ``certain``, and the highest.

    Its own row alone would do for most terms; what all rows share is taken out of it (whitened), or rare
    terms with short rows would be read as their longer neighbours.
    """
    weight, bias = head.vocabulary.weight, head.vocabulary.bias
    centred = weight - weight.mean(0)
    shared = centred.T @ centred / len(weight)
    shared += 0.01 * shared.diagonal().mean() * torch.eye(len(shared), device=weight.device)
    own = torch.linalg.solve(shared, centred.T).T
    features = own * (certain / (own * weight).sum(1, keepdim=True))
    rows = 2048 if weight.is_cuda else 64  # on a CPU their logits stay in the cache
    total = [torch.logsumexp(functional.linear(part, weight, bias), 1) for part in features.split(rows)]
    return TextInputs(features, -torch.cat(total))


class SmallSplade(nn.Module):
    def __init__(
        self, head: Head, texts: TextInputs, config: PaperConfig, layers: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        named = head.vocabulary
        self.vocabulary, self.width = named.out_features, named.in_features
        self.scale = self.width**-0.25
        torch.manual_seed(config.seed)
        self.layers = nn.ModuleList(CellLayer(self.width, heads) for _ in range(layers))
        generator = torch.Generator().manual_seed(config.seed)
        plain = nn.Linear(self.width, self.vocabulary)
        with torch.no_grad():
            plain.weight.copy_(named.weight)
            plain.bias.copy_(named.bias)
        self.decoder = LoraLinear(plain, config.lora_rank or 32, config.lora_alpha, generator)
        self.query = QueryTable(self.vocabulary, self.width, config.query, config.query_start)
        with torch.no_grad():
            self.query.embeddings.weight.copy_(functional.normalize(named.weight, dim=1) * self.width**0.5)
        if config.query == "one":
            self.query.requires_grad_(False)
        self.register_buffer("text_features", texts.features, persistent=False)
        self.register_buffer("text_offset", texts.offset, persistent=False)

    def forward(self, features: Tensor, offset: Tensor, place: Tensor, mask: Tensor) -> Pooled:
        """``place`` is (pages, cells, 3) as ``PageCells`` has it; see ``read_texts`` for texts."""
        waves = _place_waves(place)
        x = features
        for layer in self.layers:
            x = layer(x, waves, mask)
        # The offset is a column of its own, with weight 1 for every term.
        room = x.new_zeros(*x.shape[:2], _SPARE)
        seen = torch.cat([x, (offset + MARGIN).unsqueeze(-1), room], -1)
        side = x.new_zeros(self.vocabulary, 1 + _SPARE)
        side[:, 0] = 1
        weight = torch.cat([self.decoder.weight, side], 1)
        logits, positions = max_logits(seen, weight, self.decoder.base.bias, mask)
        return Pooled(logits * self.scale, sparse_weights(logits, self.scale), positions)

    def read_texts(self, ids: Tensor, mask: Tensor) -> Pooled:
        """Words of a text stand in one line; where a page has its height and scale, a text has marks."""
        order = torch.arange(ids.shape[1], device=ids.device).float() / 256
        place = torch.stack([order, torch.full_like(order, -1.0), torch.full_like(order, 4.0)], 1)
        offset = self.text_offset[ids]
        return self(self.text_features[ids], offset, place.expand(len(ids), -1, -1), mask)

    def bag_of_words(self, ids: Tensor, mask: Tensor) -> Tensor:
        bags = torch.zeros(len(ids), self.vocabulary, device=ids.device)
        bags.scatter_add_(1, ids, mask.float())
        return (bags > 0).float()

    def encode_queries(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.bag_of_words(ids, mask) * self.query()


def _place_waves(place: Tensor) -> Tensor:
    """(…, 4 * waves + 2): sines and cosines of x and y, the height's sign and the scale."""
    angle = place[..., :2, None] * (torch.pi * 2.0 ** torch.arange(_WAVES, device=place.device))
    waves = torch.cat([angle.sin(), angle.cos()], -1).flatten(-2)
    return torch.cat([waves, place[..., 1:]], -1)
