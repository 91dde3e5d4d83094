"""Passages as the reader might have read them: words lost and mistaken, blocks in another order, cut."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from research.meaning.query_words import LAST_SPECIAL
from vsplade.encode.meaning.wordpiece import WordPiece

LOST, MISTAKEN, RARE_MISTAKEN = 0.08, 0.04, 0.12
"""Shares of words on a page that is read as usual; pages differ, up to twice as much. Rare words, which are
read piece by piece, are mistaken more often by so much."""
TURNED, CUT = 0.25, 0.25
"""Shares of passages whose two parts change places, and of which a part is left out: up to half."""


@dataclass(frozen=True)
class Wear:
    """``continues`` marks tokens inside of words; the padding is the number behind the last token."""

    continues: Tensor
    start: int
    end: int

    @classmethod
    def of(cls, pieces: WordPiece) -> Wear:
        inside = [pieces.token(n).startswith("##") for n in range(len(pieces))]
        return cls(torch.tensor([*inside, False]), pieces.start, pieces.end)

    def to(self, device: str) -> Wear:
        return Wear(self.continues.to(device), self.start, self.end)

    def __call__(self, tokens: Tensor, much: float = 1.0) -> Tensor:
        """Between the tokens of a start and an end; 0 stands for no token in what is given."""
        padding = len(self.continues) - 1
        if much:
            tokens = _moved(tokens)
        there, chance = tokens != 0, torch.rand(tokens.shape, device=tokens.device)
        level = 2 * much * torch.rand(len(tokens), 1, device=tokens.device)
        rare = self.continues[tokens]
        rare[:, :-1] |= self.continues[tokens[:, 1:]]
        wrong = there & (chance < (MISTAKEN + RARE_MISTAKEN * rare) * level)
        lost = ~there | (~wrong & (chance > 1 - LOST * level))
        tokens = torch.where(wrong, torch.randint_like(tokens, LAST_SPECIAL + 1, padding), tokens)
        order = torch.argsort(lost.to(torch.int8), dim=1, stable=True)  # what is lost leaves no gap
        tokens = torch.where(lost, padding, tokens).gather(1, order)
        ends = (tokens != padding).sum(1, keepdim=True) + 1
        out = torch.nn.functional.pad(tokens, (1, 1), value=padding)
        out[:, 0] = self.start
        return out.scatter_(1, ends, self.end)


def _moved(tokens: Tensor) -> Tensor:
    """Some passages begin somewhere in the middle, and some of those end there as well."""
    count, width = tokens.shape
    sizes = (tokens != 0).sum(1, keepdim=True)
    chance = torch.rand(count, 1, device=tokens.device)
    at = (torch.rand(count, 1, device=tokens.device) * sizes).long()
    at = torch.where(chance < TURNED + CUT, at, 0)
    place = torch.arange(width, device=tokens.device)[None]
    turned = torch.where(place < sizes, (place + at) % sizes.clamp(min=1), place)
    moved = tokens.gather(1, turned)
    kept = torch.where(chance < CUT, sizes - torch.minimum(at, sizes // 2), sizes)
    return torch.where(place < kept, moved, 0)
