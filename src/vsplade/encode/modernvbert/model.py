"""ModernVBERT, its masked-language-model head, SPLADE pooling, and the table of query weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vsplade.encode.modernvbert.pooling import max_logits, sparse_weights
from vsplade.encode.modernvbert.query import SPECIAL_TOKENS
from vsplade.encode.modernvbert.text_tower import TextTower
from vsplade.encode.modernvbert.tower import Tower
from vsplade.errors import InputError

ACTIVATIONS = ("softplus", "log1p_relu", "relu", "one")
"""Of the query table: ``softplus`` is the paper's, ``log1p_relu`` its collapsing ablation in the public code,
``one`` a plain bag of words.
"""
_WEIGHS_ONE = {"softplus": math.log(math.e - 1), "log1p_relu": math.e - 1}
"""What each activation makes a weight of 1 of."""


@dataclass(frozen=True)
class Pooled:
    """What a page or a text becomes."""

    logits: Tensor
    """(pages, vocabulary): each term's largest logit, scaled, before ReLU and logarithm."""
    weights: Tensor
    """(pages, vocabulary): the sparse vector, dense."""
    positions: Tensor
    """(pages, vocabulary): where the largest logit was."""


class MlmHead(nn.Module):
    """Dense, activation, norm; the projection to the vocabulary belongs to the pooling."""

    def __init__(self, text: Any, vocabulary: int, dense_bias: bool, norm_bias: bool) -> None:
        super().__init__()
        from transformers.activations import ACT2FN

        width = text.hidden_size
        self.dense = nn.Linear(width, width, bias=dense_bias)
        self.act = ACT2FN[text.classifier_activation]
        self.norm = nn.LayerNorm(width, eps=text.norm_eps, bias=norm_bias)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, hidden: Tensor) -> Tensor:
        features: Tensor = self.norm(self.act(self.dense(hidden)))
        return features


class QueryTable(nn.Module):
    """Li-LSR: a weight for every term from its frozen embedding, ``softplus(e . u + b)``.

    The projection starts so that every term weighs 1, as in a plain bag of words, or at ``random``.
    """

    def __init__(
        self, vocabulary: int, width: int, activation: str = "softplus", start: str = "ones"
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise InputError(
                f"The query table's activation is one of {', '.join(ACTIVATIONS)}, not {activation!r}."
            )
        self.activation = activation
        self.embeddings = nn.Embedding(vocabulary, width)
        self.embeddings.weight.requires_grad_(False)
        self.projection = nn.Linear(width, 1)
        with torch.no_grad():
            if start == "random":  # as torch starts a linear layer
                self.projection.weight.uniform_(-(width**-0.5), width**-0.5)
                self.projection.bias.uniform_(-(width**-0.5), width**-0.5)
            else:
                self.projection.weight.zero_()
                self.projection.bias.fill_(_WEIGHS_ONE.get(activation, 1.0))

    def forward(self) -> Tensor:
        """(vocabulary,): every term's weight."""
        if self.activation == "one":
            return self.embeddings.weight.new_ones(self.embeddings.num_embeddings)
        raw = self.projection(self.embeddings.weight).squeeze(1)
        if self.activation == "softplus":
            return functional.softplus(raw)
        return torch.log1p(torch.relu(raw)) if self.activation == "log1p_relu" else torch.relu(raw)


class FixedTable(nn.Module):
    """Query weights as they are, without the parts they were made from."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(vocabulary), requires_grad=False)

    def forward(self) -> Tensor:
        return self.weight


class SpladeModel(nn.Module):
    """``body`` is transformers' own ModernVBERT; the sizes come from its configuration."""

    def __init__(
        self,
        config: Any,
        vocabulary: int,
        *,
        activation: str = "softplus",
        dense_bias: bool = False,
        norm_bias: bool = False,
        fixed_table: bool = False,
        scale: float | None = None,
        query_start: str = "ones",
    ) -> None:
        super().__init__()
        from transformers import ModernVBertModel

        width = config.text_config.hidden_size
        self.config = config
        self.vocabulary = vocabulary
        self.scale: float = width**-0.25 if scale is None else scale
        self.body = ModernVBertModel(config)
        self.head = MlmHead(config.text_config, vocabulary, dense_bias, norm_bias)
        self.query: QueryTable | FixedTable = (
            FixedTable(vocabulary) if fixed_table else QueryTable(vocabulary, width, activation, query_start)
        )
        self.repeats = "counted"
        """A repeated word of a query adds up (``counted``, as in the release) or not (``once``)."""
        allowed = torch.ones(vocabulary)
        for token in special_tokens(config):
            if token < vocabulary:
                allowed[token] = 0
        self.register_buffer("allowed", allowed, persistent=False)
        self.tower: Callable[[Tensor], Tensor] | None = None
        """The vision tower's forward pass for encoding; it takes tiles of bytes. See ``for_encoding``."""
        self.text_tower: Callable[[Tensor, Tensor | None], Tensor] | None = None

    def hidden_states(
        self, ids: Tensor, mask: Tensor | None, tiles: Tensor | None = None, places: Tensor | None = None
    ) -> Tensor:
        """(pages, positions, width). ``tiles`` are all pages' tiles in the order of their tokens, normalised
        unless ``for_encoding`` was called; ``places`` are the image tokens' numbers among all positions,
        where the caller knows them: looking for them makes a GPU wait. Without ``mask`` all positions count.
        """
        inputs = self.body.get_input_embeddings()(ids)
        if tiles is not None and len(tiles):
            seen = self.see(tiles)
            if places is None:
                places = (ids == self.config.image_token_id).flatten().nonzero().squeeze(1)
            if len(places) != len(seen):
                raise InputError(
                    f"{len(tiles)} tiles make {len(seen)} image tokens, but the prompts hold {len(places)}. "
                    "The processor's settings do not fit this model."
                )
            flat = inputs.flatten(0, 1).index_copy(0, places, seen.to(inputs.dtype))
            inputs = flat.view_as(inputs)
        if self.text_tower is not None:
            return self.text_tower(inputs, mask)
        hidden: Tensor = self.body.text_model(inputs_embeds=inputs, attention_mask=mask).last_hidden_state
        return hidden

    def see(self, tiles: Tensor) -> Tensor:
        """(image tokens of all tiles, width)."""
        if self.tower is not None:
            seen = self.tower(tiles)
        else:
            seen = self.body.vision_model(pixel_values=tiles.to(self.body.dtype)).last_hidden_state
        return self.body.connector(seen).flatten(0, 1)

    def for_encoding(self, mean: float, deviation: float) -> bool:
        """Take the faster forward passes from now on, where they know the layers' kind. Where this says so,
        ``tiles`` are bytes, to be normalised with this mean and deviation. The weights must not change
        any more, nor move.
        """
        if TextTower.fits(self.body.text_model):
            self.text_tower = TextTower(self.body.text_model)
        if Tower.fits(self.body.vision_model):
            self.tower = Tower(self.body.vision_model, mean, deviation)
        return self.tower is not None

    def compile_layers(self) -> None:
        """Have torch fuse the text layers' kernels, instead of ours. The first pages take some ten seconds
        longer.
        """
        self.text_tower = None
        for layer in self.body.text_model.layers:
            layer.compile()

    def forward(
        self, ids: Tensor, mask: Tensor | None, tiles: Tensor | None = None, places: Tensor | None = None
    ) -> Pooled:
        features = self.head(self.hidden_states(ids, mask, tiles, places))
        logits, positions = max_logits(features, self.head.decoder.weight, self.head.decoder.bias, mask)
        logits = logits.float()
        return Pooled(logits * self.scale, sparse_weights(logits, self.scale, self.allowed), positions)

    @property
    def query_activation(self) -> str:
        return self.query.activation if isinstance(self.query, QueryTable) else "fixed"

    def query_table(self) -> Tensor:
        """Every term's query weight, special tokens at 0."""
        return self.query().float() * self.allowed

    def bag_of_words(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(texts, vocabulary): 1 where the text has the term."""
        return (self._counts(ids, mask) > 0).float() * self.allowed

    def _counts(self, ids: Tensor, mask: Tensor) -> Tensor:
        inside = (ids < self.vocabulary) & mask.bool()
        bags = torch.zeros(len(ids), self.vocabulary, device=ids.device)
        return bags.scatter_add_(1, torch.where(inside, ids, 0), inside.float())

    def encode_queries(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Query vectors: the bag of words times the table; ``repeats`` says whether words are counted."""
        bags = self._counts(ids, mask) if self.repeats == "counted" else self.bag_of_words(ids, mask)
        return bags * self.query_table()


def special_tokens(config: Any) -> tuple[int, ...]:
    """Ids that never score: the tokenizer's own five, or those that a smaller configuration names."""
    named = getattr(config, "unscored_token_ids", None)
    return tuple(named) if named is not None else SPECIAL_TOKENS
