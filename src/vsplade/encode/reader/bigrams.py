"""Words that stand side by side: every two neighbours on a line are one more term of a page.

Single terms cannot tell "interest rate" from a page with the one word at its head and the other at its
foot. Any two terms may be neighbours, also the pieces of a rare word or of a long number, so their numbers
come from a hash and lie behind those of the vocabulary. Two pairs may share a number; a query that asks for
the one hardly ever meets the other (docs/log.md has the loss).

Whole words come from the same neighbours. A rare word or a long number of two pieces is the pair of them. One
of three pieces, and a number or code of several runs (``H-6927``), is known by every three terms that follow
each other closely: a triple has a number of its own, from the same hash. Two pairs that overlap would not do:
a page with ``25/12/2017`` and ``3/12/2018`` does not hold ``25/12/2018``. Three terms that may be a day are
hashed as its day, month and year, however it is written (``dates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.dates import DayTerms
from vsplade.encode.hash_bits import CHECK, DOUBT, follower_bits, split
from vsplade.encode.reader.boxes import TYPE, width_of
from vsplade.encode.reader.ink_windows import CELL
from vsplade.encode.tokenizer import GOES_ON, Tokenizer, letters_of

if TYPE_CHECKING:
    from vsplade.encode.reader.detect import Cells

BITS = 15
PAIRS = 1 << BITS
"""Together with the vocabulary fewer than 65,536: the index stores such terms in 16 bits."""
CANDIDATES = 2
"""Terms of each cell that are looked at: its best ones."""
DOUBTFUL = 0.05
"""Terms that are less likely have no neighbours."""
LINE = 0.6
"""Middles of words on one line are at most so many em above or below each other."""
CLOSEST = -0.5
"""Em from the end of the left term to the beginning of the right one, at least: widths are a guess, so they
may seem to overlap."""
PIECE_OVERLAP, PIECE_GAP = -1.8, 2.0
"""The same from one piece of a word to the next, least and most: the pieces of a short word share letters,
those of a long one leave letters out."""
DIGITS_GAP = 4.6
"""The same, most, inside a number, of which only the first and last digits are read: room for a barcode's."""
TIGHT = 0.9
"""The same, from one run of a number or a code to the next: room for a mark, not for a column's gap."""
SAME_TYPE = 0.5
"""Octaves by which the type of neighbours may differ: more, and the one is a heading or a footnote mark."""
WHOLE = 0.13
"""Whole words are kept from this expected count on."""
TOLD = 0.25
"""From this count on, a search says that they stand on the page."""
DOUBT_SHARED = 0.8
"""The chances of three pieces of one word are multiplied, to this power: so they count nearly as those of two
do. The same for the runs of numbers and codes. So the second best reading of a doubtful one is kept, too
(docs/log.md)."""


@dataclass(frozen=True)
class Pairs:
    """One row for each two cells that may hold neighbours."""

    hash: NDArray[np.int64]
    """``hashed``, or ``hashed_triple`` of whole words of more than two terms."""
    chance: NDArray[np.floating[Any]]
    left: NDArray[np.int64]
    """The row of the left word among the page's cells."""
    right: NDArray[np.int64]

    @property
    def number(self) -> NDArray[np.int64]:
        return split(self.hash)[0]

    def counts(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The pairs of the page, and how often each is expected to stand there."""
        numbers, place = np.unique(self.number, return_inverse=True)
        return numbers, np.bincount(place, self.chance, len(numbers))


@dataclass(frozen=True)
class Links:
    """For each row of ``Pairs``: where its words stand, as numbers of places, and the right one's term."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    term: NDArray[Any]

    def joined(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every two of these rows of which the one ends where the other begins."""
        rows = rows[np.argsort(self.left[rows], kind="stable")]
        left, right = self.left[rows], self.right[rows]
        first = np.searchsorted(left, right)
        many = np.searchsorted(left, right, side="right") - first
        one = np.repeat(np.arange(len(rows)), many)
        before = np.repeat(np.cumsum(many) - many, many)
        return rows[one], rows[np.arange(len(one)) - before + np.repeat(first, many)]


@dataclass(frozen=True)
class Standing:
    """The neighbours of a page: its pairs, and those among its pairs and triples that are whole words."""

    pairs: Pairs
    whole: Pairs
    """``left`` and ``right`` are the first and the last cell."""
    links: Links

    def kept(self, least: float) -> Kept:
        """The pairs with at least this count, and the whole words."""
        chance = np.concatenate([self.pairs.chance, self.whole.chance])
        numbers, checks = split(np.concatenate([self.pairs.hash, self.whole.hash]))
        distinct, place = np.unique(numbers, return_inverse=True)
        here, size = len(self.pairs.chance), len(distinct)
        pairs = np.bincount(place[:here], chance[:here], size)
        whole = np.bincount(place[here:], chance[here:], size)
        check = np.zeros(size, np.int64)
        order = np.argsort(chance, kind="stable")
        check[place[order]] = checks[order]  # of two with one number, the likelier one's
        kept, told = (pairs > least) | (whole > WHOLE), (pairs > least) | (whole > TOLD)
        check ^= np.where(told, 0, DOUBT)
        one, other = self.links.joined(np.flatnonzero(told[place[:here]] & (chance[:here] > DOUBTFUL)))
        follow = np.zeros(size, np.int64)
        np.bitwise_or.at(follow, place[one], follower_bits(self.links.term[other]))
        return Kept(distinct[kept], np.maximum(pairs, whole)[kept], check[kept], follow[kept])


@dataclass(frozen=True)
class Kept:
    """The neighbours that a page's vector has: in the order of their numbers."""

    number: NDArray[np.int64]
    count: NDArray[np.floating[Any]]
    check: NDArray[np.int64]
    follow: NDArray[np.int64] | None = None
    """The terms that follow each (``hash_bits``), where that is known."""


def hashed(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """Of a pair of terms: its number and its check (``checks.split``); part of the index's format, so never
    to be changed.
    """
    key = left.astype(np.uint64) << np.uint64(32) | right.astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = key * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(64 - BITS - CHECK)).astype(np.int64)


def hashed_pair(left: int, right: int) -> int:
    """The same of one pair: a query has so few that arrays would take ten times as long."""
    mixed = (left << 32 | right) * 0x9E3779B97F4A7C15 % (1 << 64)
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 % (1 << 64)
    return mixed >> 64 - BITS - CHECK


def hashed_triple(first: NDArray[Any], second: NDArray[Any], third: NDArray[Any]) -> NDArray[np.int64]:
    """The same of three terms; they take 21 bits each."""
    high = first.astype(np.uint64) << np.uint64(42) | second.astype(np.uint64) << np.uint64(21)
    with np.errstate(over="ignore"):
        mixed = (high | third.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ mixed >> np.uint64(31)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(64 - BITS - CHECK)).astype(np.int64)


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
        self.number = np.array([letters_of(token).isdigit() for token in tokens])
        self.width = np.array([width_of(letters_of(token)) for token in tokens], np.float32)
        self.days = DayTerms(tokenizer)
        self.whole = lru_cache(maxsize=1 << 14)(self._whole)
        self._seen = np.full((PAIRS, 3), -1, np.int32)
        """The last pair or triple of each number, to show people words and not numbers."""

    def in_text(self, terms: Sequence[int]) -> list[int]:
        """The hashes of the pairs of a query's terms, which are in reading order."""
        hashes = set()
        for left, right in pairwise([term for term in terms if self.heavy[term]]):
            hash = hashed_pair(left, right)
            self._seen[hash >> CHECK] = left, right, -1
            hashes.add(hash)
        return sorted(hashes)

    def in_line(self, units: Sequence[tuple[int, ...]], days: Sequence[tuple[int, ...]] = ()) -> Standing:
        """A page of which every word was read without error, as one long line; a unit has its pieces.
        ``days`` are those that several units make.
        """
        row = np.array([piece for unit in units for piece in unit], np.int64)
        row = row[self.heavy[row]]
        whole = np.array([number for unit in (*units, *days) for number in self.whole(unit)], np.int64)
        pairs, words = (_certain(hashes) for hashes in (self._hashed(row[:-1], row[1:]), whole))
        place = np.arange(len(row))
        return Standing(pairs, words, Links(place[:-1], place[1:], row[1:]))

    def _whole(self, pieces: tuple[int, ...]) -> list[int]:
        """The hashes of one word, number or code that has these pieces: a page that has them all holds it.
        None where only one of them is heavy.
        """
        row = np.array(pieces, np.int64)
        row = row[self.heavy[row]]
        hashes = (
            self._hashed(row[:-1], row[1:]) if len(row) < 3 else self._hashed(row[:-2], row[1:-1], row[2:])
        )
        numbers: list[int] = hashes.tolist()
        return numbers

    def on_page(self, cells: Cells) -> Standing:
        """Every two cells of a copy of the page that may hold neighbours, and the whole words among them."""
        from vsplade.encode.reader.page_loops import near_on_line  # here, for it loads numba

        term, chance = cells.term[:, :CANDIDATES], cells.probability[:, :CANDIDATES]
        row, column = np.nonzero((chance > DOUBTFUL) & self.heavy[term])
        term, chance = term[row, column], chance[row, column].astype(np.float64)
        place = (cells.middle[row] / cells.pixel[row]).astype(np.float64)
        em = np.clip(cells.em[row], *TYPE)
        copy = np.unique(cells.pixel[row, 0], return_inverse=True)[1].reshape(-1)
        place[:, 1] += copy * (2 * TYPE[1] + place[:, 1].max(initial=0.0))  # copies below each other
        x = np.ascontiguousarray(place[:, 0])
        widest = float(self.width[term].max(initial=0.0))
        ahead = (max(self.gap, DIGITS_GAP, PIECE_GAP, TIGHT) + widest) * em.astype(
            np.float64
        ) + 1  # and no cell is lost
        left, right = near_on_line(place[:, 1], (LINE * em).astype(np.float64), x, np.zeros(len(x)), ahead)
        gap = (x[right] - x[left]) / em[left]
        gap -= (self.width[term[left]] + self.width[term[right]]) / 2
        inside = self.went_on[term[right]]  # of a word or a long number
        goes_on = self.goes_on[term[left]]
        numbers = self.number[term[left]].astype(np.int8) + self.number[term[right]]
        apart = np.where(numbers == 2, min(TIGHT, self.gap), self.gap)
        farthest = np.where(inside, np.where(goes_on & (numbers == 2), DIGITS_GAP, PIECE_GAP), apart)
        fits = (gap > np.where(inside, PIECE_OVERLAP, CLOSEST)) & (gap < farthest)
        fits &= (goes_on == inside) | (self.digits[term[left]] & inside)
        fits &= np.abs(np.log2(em[right] / em[left])) < SAME_TYPE
        joined = np.where(inside, goes_on & (numbers != 1), (numbers > 0) & (gap < TIGHT))
        left, right, joined = left[fits], right[fits], joined[fits]
        pairs = Pairs(
            self._hashed(term[left], term[right]), chance[left] * chance[right], row[left], row[right]
        )
        whole = self._whole_on_page(term, chance, row, left[joined], right[joined])
        spot = _spots(term, place)
        return Standing(pairs, whole, Links(spot[left], spot[right], term[right]))

    def _whole_on_page(
        self,
        term: NDArray[Any],
        chance: NDArray[Any],
        row: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> Pairs:
        """Beginnings with the ends that follow, two runs of a number or a code, and every three terms that
        follow each other closely; ``left`` and ``right`` are the close pairs.
        """
        number = self.number[term]
        two = (self.went_on[term[right]] | number[left] | number[right]) & ~self.went_on[term[left]]
        two &= ~self.goes_on[term[right]]
        one, other = Links(left, right, term).joined(np.arange(len(left)))
        a, b, c = left[one], right[one], right[other]
        within = self.went_on[term[b]] & self.went_on[term[c]]
        shared = within | number[a] | number[b] | number[c]
        likely = (chance[a] * chance[b] * chance[c]) ** np.where(shared, DOUBT_SHARED, 1.0)
        left, right = left[two], right[two]
        pair = (chance[left] * chance[right]) ** np.where(number[left] | number[right], DOUBT_SHARED, 1.0)
        return Pairs(
            np.concatenate([hashed(term[left], term[right]), self._hashed(term[a], term[b], term[c])]),
            np.concatenate([pair, likely]),
            row[np.concatenate([left, a])],
            row[np.concatenate([right, c])],
        )

    def _hashed(self, *terms: NDArray[Any]) -> NDArray[np.int64]:
        hashes = hashed(*terms) if len(terms) == 2 else hashed_triple(*self.days.as_days(*terms))
        self.note(split(hashes)[0], *terms)
        return hashes

    def note(self, number: NDArray[Any], *terms: NDArray[Any]) -> None:
        """That these pairs or triples came by, for ``shown``."""
        columns = terms if len(terms) == 3 else (*terms, np.full_like(terms[0], -1))
        self._seen[number] = np.stack(columns, 1)

    def shown(self, number: int) -> str | None:
        """The words of a pair, if one with this number came by: the last one."""
        terms = [term for term in self._seen[number].tolist() if term >= 0]
        return " ".join(self._tokenizer.token(term) for term in terms) or None


def _certain(hashes: NDArray[np.int64]) -> Pairs:
    nowhere = np.zeros(len(hashes), np.int64)
    return Pairs(hashes, np.ones(len(hashes)), nowhere, nowhere)


def _spots(term: NDArray[Any], place: NDArray[np.float64]) -> NDArray[np.int64]:
    """A number for each place: the same where cells side by side read the same term, which is one word."""
    order = np.lexsort((place[:, 0], place[:, 1], term))
    apart = (np.abs(np.diff(place[order], axis=0)) > 1.5 * CELL).any(1) | (np.diff(term[order]) != 0)
    spots = np.zeros(len(term), np.int64)
    spots[order[1:]] = np.cumsum(apart)
    return spots
