"""all-mpnet-base-v2, the better half of the teacher: 110 million weights, far better than MiniLM at questions
in other words, a little worse at questions that use the page's own.

It reads MiniLM's tokens: the vocabulary is the same, only the numbers differ.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from vsplade.encode.meaning.wordpiece import WordPiece

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, HEADS = 768, 12
FIRST_POSITION = 2
BUCKETS, EXACT, FARTHEST = 16, 8, 128
"""Of how far one token stands from another, each way: near ones one by one, far ones by the logarithm."""
NORM = 1e-5
START, END, UNKNOWN = "<s>", "</s>", "[UNK]"


class MPNet:
    def __init__(self, folder: Path, pieces: WordPiece) -> None:
        from safetensors.torch import load_file

        weights = load_file(str(folder / "model.safetensors"), device=DEVICE)
        self._weights = {
            name: value.bfloat16() for name, value in weights.items() if value.is_floating_point()
        }
        names = (folder / "vocab.txt").read_text("utf-8").split("\n")
        numbers = {name: number for number, name in enumerate(names)}
        own = [numbers.get(pieces.token(n), numbers[UNKNOWN]) for n in range(len(pieces))]
        own[pieces.start], own[pieces.end] = numbers[START], numbers[END]
        self._numbers = torch.tensor(own, device=DEVICE)
        self._layers = 1 + max(int(k.split(".")[2]) for k in self._weights if k.startswith("encoder.layer."))
        self._biases: dict[int, Tensor] = {}

    def _part(self, name: str) -> tuple[Tensor, Tensor]:
        return self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]

    @torch.inference_mode()
    def read(self, tokens: Tensor) -> Tensor:
        """Texts of one length, as MiniLM's tokens, to vectors of length 1."""
        tokens = self._numbers[tokens]
        count, size = tokens.shape
        x = F.embedding(tokens, self._weights["embeddings.word_embeddings.weight"])
        places = self._weights["embeddings.position_embeddings.weight"]
        x = x + places[FIRST_POSITION : FIRST_POSITION + size]
        x = F.layer_norm(x, (WIDTH,), *self._part("embeddings.LayerNorm"), NORM)
        for number in range(self._layers):
            name = f"encoder.layer.{number}"
            q, k, v = (
                F.linear(x, *self._part(f"{name}.attention.attn.{letter}"))
                .view(count, size, HEADS, WIDTH // HEADS)
                .transpose(1, 2)
                for letter in "qkv"
            )
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=self._bias(size))
            mixed = mixed.transpose(1, 2).reshape(count, size, WIDTH)
            mixed = F.linear(mixed, *self._part(f"{name}.attention.attn.o"))
            x = F.layer_norm(x + mixed, (WIDTH,), *self._part(f"{name}.attention.LayerNorm"), NORM)
            wide = F.gelu(F.linear(x, *self._part(f"{name}.intermediate.dense")))
            wide = F.linear(wide, *self._part(f"{name}.output.dense"))
            x = F.layer_norm(x + wide, (WIDTH,), *self._part(f"{name}.output.LayerNorm"), NORM)
        return F.normalize(x.float().mean(1), dim=-1)

    def _bias(self, size: int) -> Tensor:
        """What a token's attention to another gains by how far, and on which side, that one stands."""
        if size not in self._biases:
            places = torch.arange(size, device=DEVICE)
            back = places[:, None] - places[None, :]
            far = back.abs()
            grown = torch.log(far.float().clamp(min=1) / EXACT) / math.log(FARTHEST / EXACT)
            bucket = torch.where(
                far < EXACT, far, (EXACT + (grown * (BUCKETS - EXACT)).long()).clamp(max=BUCKETS - 1)
            )
            table = self._weights["encoder.relative_attention_bias.weight"]
            self._biases[size] = F.embedding(bucket + BUCKETS * (back < 0), table).permute(2, 0, 1)[None]
        return self._biases[size]
