"""``Neighbours.on_page`` for the pages of a batch at once, on the device: the same pairs and whole words,
already counted.

On the host it took 2 ms a page, six times what all of the network's kernels take.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vsplade.encode.gpu.pipeline import Steps
from vsplade.encode.gpu.transfers import fetch, rows_of
from vsplade.encode.hash_bits import CHECK
from vsplade.encode.reader.bigrams import (
    BITS,
    CLOSEST,
    DIGITS_GAP,
    DOUBT_SHARED,
    DOUBTFUL,
    LINE,
    PAIRS,
    PIECE_GAP,
    PIECE_OVERLAP,
    SAME_TYPE,
    TIGHT,
    Neighbours,
)
from vsplade.encode.reader.boxes import TYPE

COPY = 1 << 17
"""Pixels from the head of one copy of a page to that of the next: they stand below each other."""


_FIRST, _SECOND = 0x9E3779B97F4A7C15 - (1 << 64), 0xBF58476D1CE4E5B9 - (1 << 64)


def hashed(left: Tensor, right: Tensor) -> Tensor:
    """As ``neighbours.hashed`` has it; torch has only signed numbers of 64 bits."""
    mixed = (left << 32 | right) * _FIRST
    mixed = (mixed ^ (mixed >> 29 & (1 << 35) - 1)) * _SECOND
    return mixed >> 64 - BITS - CHECK & (PAIRS << CHECK) - 1


def hashed_triple(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """As ``neighbours.hashed_triple`` has it."""
    mixed = (first << 42 | second << 21 | third) * _FIRST
    mixed = (mixed ^ (mixed >> 29 & (1 << 35) - 1)) * _SECOND
    mixed = (mixed ^ (mixed >> 31 & (1 << 33) - 1)) * _FIRST
    return mixed >> 64 - BITS - CHECK & (PAIRS << CHECK) - 1


@dataclass(frozen=True)
class BatchStanding:
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
        self._number = here("number")
        self._days = neighbours.days.moved(lambda values: torch.from_numpy(values).to(device))

    def counted(
        self, standing: BatchStanding, copies: int, pages: int
    ) -> Steps[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """(pages, PAIRS) how often each pair is expected to stand on each page; the same of whole words; the
        check of one that has the number; and the terms of a pair that has it, left * 2^32 + right.
        """
        left, right = yield from self._on_one_line(standing)
        fits, joined = self._fits(standing, left, right)
        chance = (standing.chance[left] * standing.chance[right]) * fits
        terms = standing.term[left], standing.term[right]
        hashes = hashed(*terms)
        at = standing.sheet[left] // copies * PAIRS + (hashes >> CHECK)
        counts = torch.zeros(pages * PAIRS, device=chance.device)
        counts.index_add_(0, at, chance)
        # pairs that do not fit write behind the end
        seen = torch.zeros(pages * PAIRS + 1, dtype=torch.int64, device=chance.device)
        fitting = torch.where(fits, at, pages * PAIRS)
        seen[fitting] = terms[0] << 32 | terms[1]
        checks = torch.zeros_like(seen)
        checks[fitting] = hashes & (1 << CHECK) - 1
        number = self._number[terms[0]] | self._number[terms[1]]
        two = joined & (self._went_on[terms[1]] | number)
        two &= ~self._went_on[terms[0]] & ~self._goes_on[terms[1]]
        whole = torch.zeros(pages * PAIRS, device=chance.device)
        whole.index_add_(0, at, torch.where(number, chance**DOUBT_SHARED, chance) * two)
        at, chance, hashes = yield from self._triples(standing, left, right, joined, copies)
        whole.index_add_(0, at, chance)
        checks[at] = hashes & (1 << CHECK) - 1
        return tuple(column.view(pages, PAIRS) for column in (counts, whole, checks[:-1], seen[:-1]))

    def _triples(
        self, standing: BatchStanding, left: Tensor, right: Tensor, joined: Tensor, copies: int
    ) -> Steps[tuple[Tensor, Tensor, Tensor]]:
        """Where each three terms count that follow each other closely, their chance and their hash."""
        (close,) = yield from fetch(joined.sum()[None])
        rows = rows_of(joined, int(close[0]))
        left, order = left[rows].sort(stable=True)
        right = right[rows][order]
        first = torch.searchsorted(left, right)
        many = torch.searchsorted(left, right, right=True) - first
        ends = many.cumsum(0)
        (total,) = yield from fetch(ends[-1:])
        triples = int(total[0]) if len(total) else 0
        one = torch.arange(len(left), device=left.device).repeat_interleave(many, output_size=triples)
        other = first[one] + torch.arange(triples, device=left.device) - (ends - many)[one]
        three = left[one], right[one], right[other]
        hashes = hashed_triple(*self._days.as_days(*(standing.term[row] for row in three)))
        chance = standing.chance[three[0]] * standing.chance[three[1]] * standing.chance[three[2]]
        within = self._went_on[standing.term[three[1]]] & self._went_on[standing.term[three[2]]]
        number = self._number[standing.term[torch.stack(three)]].any(0)
        chance = torch.where(within | number, chance**DOUBT_SHARED, chance)
        return standing.sheet[three[0]] // copies * PAIRS + (hashes >> CHECK), chance, hashes

    def _on_one_line(self, standing: BatchStanding) -> Steps[tuple[Tensor, Tensor]]:
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

    def _fits(self, standing: BatchStanding, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the right one follows the left one, and so closely that they may be of one word, number or
        code; by the rules of ``Neighbours.on_page``.
        """
        em, term = standing.em.clamp(*TYPE), standing.term
        gap = (standing.place[right, 0] - standing.place[left, 0]) / em[left]
        ahead = gap > 0
        gap -= (self._width[term[left]] + self._width[term[right]]) / 2
        inside, goes_on = self._went_on[term[right]], self._goes_on[term[left]]
        number = self._number[term[left]], self._number[term[right]]
        apart = torch.where(number[0] & number[1], min(TIGHT, self._gap), self._gap)
        fits = ahead & (gap > torch.where(inside, PIECE_OVERLAP, CLOSEST))
        longest = torch.where(goes_on & number[0] & number[1], DIGITS_GAP, PIECE_GAP)
        fits &= gap < torch.where(inside, longest, apart)
        fits &= (goes_on == inside) | (self._digits[term[left]] & inside)
        fits &= (em[right] / em[left]).log2().abs() < SAME_TYPE
        of_one_kind = goes_on & (number[0] == number[1])
        joined = torch.where(inside, of_one_kind, (number[0] | number[1]) & (gap < TIGHT))
        return fits, fits & joined
