"""Words that stand side by side: every two neighbours on a line are one more term of a page.

Single terms cannot tell "interest rate" from a page with the one word at its head and the other at its
foot. Any two terms may be neighbours, also the pieces of a rare word or of a long number, so their numbers
come from a hash and lie behind those of the vocabulary. Two pairs may share a number; a query that asks for
the one hardly ever meets the other (docs/log.md has the loss).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.boxes import TYPE, width_of
from vsplade.encode.tokenizer import GOES_ON, Tokenizer

if TYPE_CHECKING:
    from vsplade.encode.cells import Cells

BITS = 15
PAIRS = 1 << BITS
"""Together with the vocabulary fewer than 65,536: the index stores such terms in 16 bits."""
CANDIDATES = 2
"""Terms of each cell that are looked at: its best ones."""
DOUBTFUL = 0.05
"""Terms that are less likely have no neighbours."""
LINE = 0.6
"""Middles of words on one line are at most so many em above or below each other."""
CLOSEST, PIECE_GAP = -0.5, 2.0
"""Em from the end of the left term to the beginning of the right one: widths are a guess, so they may seem to
overlap; the pieces of a word leave letters out between them.
"""
SAME_TYPE = 0.5
"""Octaves by which the type of neighbours may differ: more, and the one is a heading or a footnote mark."""
AT_ONCE = 1024
"""Terms whose surroundings are gone through at a time: bounds the memory on a page full of noise."""


@dataclass(frozen=True)
class Pairs:
    """One row for each two cells that may hold neighbours."""

    number: NDArray[np.int64]
    chance: NDArray[np.floating[Any]]
    left: NDArray[np.int64]
    """The row of the left word among the page's cells."""
    right: NDArray[np.int64]

    def counts(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The pairs of the page, and how often each is expected to stand there."""
        numbers, place = np.unique(self.number, return_inverse=True)
        return numbers, np.bincount(place, self.chance, len(numbers))


def hashed(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """The number of a pair of terms; part of the index's format, so never to be changed."""
    key = left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = key * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(64 - BITS)).astype(np.int64)


class Neighbours:
    """Pairs of the terms that are ``heavy`` enough to be asked for; what is light may stand between them.

    ``gap`` is the widest between two words, in em: room for one that is light, and short.
    """

    def __init__(self, tokenizer: Tokenizer, heavy: NDArray[np.bool_], gap: float) -> None:
        self._tokenizer, self.heavy, self.gap = tokenizer, heavy, gap
        tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
        self.goes_on = np.array([token.endswith(GOES_ON) for token in tokens])
        self.went_on = np.array([token.startswith(GOES_ON) for token in tokens])
        self.digits = np.array([token.isdigit() for token in tokens])
        self.width = np.array([width_of(token.strip("#")) for token in tokens], np.float32)
        self._seen = np.full((PAIRS, 2), -1, np.int32)
        """The last pair of each number, to show people words and not numbers."""

    def in_text(self, terms: Sequence[int]) -> list[int]:
        """The pairs of a query's terms, which are in reading order."""
        numbers: list[int] = self.counted(terms)[0].tolist()
        return numbers

    def counted(self, terms: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs of a text's terms, and how often each stands there."""
        row = np.array(terms, np.int64)
        row = row[self.heavy[row]]
        return np.unique(self._number(row[:-1], row[1:]), return_counts=True)

    def on_page(self, cells: Cells) -> Pairs:
        """Every two cells of a copy of the page that may hold neighbours."""
        term, chance = cells.term[:, :CANDIDATES], cells.probability[:, :CANDIDATES]
        row, column = np.nonzero((chance > DOUBTFUL) & self.heavy[term])
        term, chance = term[row, column], chance[row, column].astype(np.float64)
        place = (cells.middle[row] / cells.pixel[row]).astype(np.float64)
        em = np.clip(cells.em[row], *TYPE)
        copy = np.unique(cells.pixel[row, 0], return_inverse=True)[1].reshape(-1)
        place[:, 1] += copy * (2 * TYPE[1] + place[:, 1].max(initial=0.0))  # copies below each other
        lefts, rights = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for left, right in on_one_line(place[:, 1], em):
            gap = (place[right, 0] - place[left, 0]) / em[left]
            ahead = gap > 0
            gap -= (self.width[term[left]] + self.width[term[right]]) / 2
            inside = self.went_on[term[right]]  # of a word or a long number
            fits = ahead & (gap > CLOSEST) & (gap < np.where(inside, PIECE_GAP, self.gap))
            fits &= (self.goes_on[term[left]] == inside) | (self.digits[term[left]] & inside)
            fits &= np.abs(np.log2(em[right] / em[left])) < SAME_TYPE
            lefts.append(left[fits])
            rights.append(right[fits])
        left, right = np.concatenate(lefts), np.concatenate(rights)
        number = self._number(term[left], term[right])
        return Pairs(number, chance[left] * chance[right], row[left], row[right])

    def _number(self, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
        number = hashed(left, right)
        self.note(number, left, right)
        return number

    def note(self, number: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> None:
        """That these pairs came by, for ``shown``."""
        self._seen[number] = np.stack([left, right], 1)

    def shown(self, number: int) -> str | None:
        """The words of a pair, if one with this number came by: the last one."""
        left, right = self._seen[number].tolist()
        return f"{self._tokenizer.token(left)} {self._tokenizer.token(right)}" if left >= 0 else None


def on_one_line(
    height: NDArray[np.float64], em: NDArray[np.float32] | NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Every two places that are at one height, give or take: rows of the one and of the other."""
    order = np.argsort(height, kind="stable")
    height, reach = height[order], LINE * em[order]
    first = np.searchsorted(height, height - reach)
    count = np.searchsorted(height, height + reach, side="right") - first
    for start in range(0, len(order), AT_ONCE):
        many = count[start : start + AT_ONCE]
        one = np.repeat(np.arange(start, start + len(many)), many)
        before = np.repeat(np.cumsum(many) - many, many)
        other = np.arange(len(one)) - before + np.repeat(first[start : start + AT_ONCE], many)
        yield order[one], order[other]
