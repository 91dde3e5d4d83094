"""``Neighbours.on_page`` for the pages of a batch at once, on the device: the same pairs, already counted.

On the host it took 2 ms a page, six times what all of the network's kernels take.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vsplade.encode.boxes import TYPE
from vsplade.encode.neighbours import BITS, CLOSEST, DOUBTFUL, LINE, PAIRS, PIECE_GAP, SAME_TYPE, Neighbours
from vsplade.encode.on_device import fetch
from vsplade.encode.turns import Steps

COPY = 1 << 17
"""Pixels from the head of one copy of a page to that of the next: they stand below each other."""


def hashed(left: Tensor, right: Tensor) -> Tensor:
    """The number of a pair, as ``neighbours.hashed`` has it: torch has only signed numbers of 64 bits."""
    mixed = (left << 32 | right) * (0x9E3779B97F4A7C15 - (1 << 64))
    mixed = (mixed ^ (mixed >> 29 & (1 << 35) - 1)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    return mixed >> 64 - BITS & PAIRS - 1


@dataclass(frozen=True)
class Standing:
    """Terms and where they stand, one row each."""

    sheet: Tensor
    """Number of the copy of a page, over all pages and copies of the batch."""
    place: Tensor
    """(n, 2) x, y in pixels of the copy."""
    em: Tensor
    term: Tensor
    chance: Tensor


class NeighboursOnDevice:
    def __init__(self, neighbours: Neighbours, device: torch.device) -> None:
        def here(name: str) -> Tensor:
            return torch.from_numpy(getattr(neighbours, name)).to(device)

        self._gap = neighbours.gap
        self._heavy, self._width = here("heavy"), here("width")
        self._goes_on, self._went_on, self._digits = here("goes_on"), here("went_on"), here("digits")

    def counted(self, standing: Standing, copies: int, pages: int) -> Steps[tuple[Tensor, Tensor]]:
        """(pages, PAIRS) how often each pair is expected to stand on each page; and the terms of a pair that
        has the number, left * 2^32 + right.
        """
        left, right = yield from self._on_one_line(standing)
        fits = self._fits(standing, left, right)
        chance = (standing.chance[left] * standing.chance[right]) * fits
        terms = standing.term[left], standing.term[right]
        at = standing.sheet[left] // copies * PAIRS + hashed(*terms)
        counts = torch.zeros(pages * PAIRS, device=chance.device)
        counts.index_add_(0, at, chance)
        # pairs that do not fit write behind the end
        seen = torch.zeros(pages * PAIRS + 1, dtype=torch.int64, device=chance.device)
        seen[torch.where(fits, at, pages * PAIRS)] = terms[0] << 32 | terms[1]
        return counts.view(pages, PAIRS), seen[:-1].view(pages, PAIRS)

    def _on_one_line(self, standing: Standing) -> Steps[tuple[Tensor, Tensor]]:
        """Every two rows that are at one height of one copy, give or take."""
        asked = (standing.chance > DOUBTFUL) & self._heavy[standing.term]
        height = (standing.sheet * COPY + standing.place[:, 1]).masked_fill(~asked, torch.inf)
        height, order = height.sort(stable=True)
        reach = LINE * standing.em[order].clamp(*TYPE)
        first = torch.searchsorted(height, height - reach)
        count = torch.searchsorted(height, height + reach, right=True) - first
        count = count.masked_fill(height.isinf(), 0)
        ends = count.cumsum(0)
        (total,) = yield from fetch(ends[-1:])
        pairs = int(total[0]) if len(total) else 0
        row = torch.arange(len(order), device=order.device)
        one = row.repeat_interleave(count, output_size=pairs)
        within = torch.arange(pairs, device=order.device) - (ends - count)[one]
        return order[one], order[first[one] + within]

    def _fits(self, standing: Standing, left: Tensor, right: Tensor) -> Tensor:
        """Whether the right one follows the left one, by the rules of ``Neighbours.on_page``."""
        em, term = standing.em.clamp(*TYPE), standing.term
        gap = (standing.place[right, 0] - standing.place[left, 0]) / em[left]
        ahead = gap > 0
        gap -= (self._width[term[left]] + self._width[term[right]]) / 2
        inside = self._went_on[term[right]]
        widest = torch.where(inside, PIECE_GAP, self._gap)
        fits = ahead & (gap > CLOSEST) & (gap < widest)
        fits &= (self._goes_on[term[left]] == inside) | (self._digits[term[left]] & inside)
        return fits & ((em[right] / em[left]).log2().abs() < SAME_TYPE)
