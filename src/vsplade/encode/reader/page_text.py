"""Cells to text: the words that the reader saw, in reading order, each with its place and its certainty.

Neighbouring cells often see the same word, and so do the copies of a page: of several that lie on one place
the surest stays. Words at one height that stand close together make a line; lines below each other make a
block; blocks are read column by column. A rare word is read in pieces (its beginning, middle and end), which
are joined here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.bigrams import LINE
from vsplade.encode.reader.boxes import ABOVE, BELOW, TYPE, width_of
from vsplade.encode.tokenizer import GOES_ON, Tokenizer, letters_of
from vsplade.types import Box

if TYPE_CHECKING:
    from vsplade.encode.reader.detect import Cells

LEAST = 0.2
"""Words that are less likely than this are not read out."""
SAME_PLACE = 0.35
"""Two readings lie on one place if they share so much of the width of the narrower one."""
SAME_WORD = 0.7
"""The same term twice is one reading up to so many em apart, and a third of its width.

Middles are not exact.
"""
WORD_GAP = 1.6
"""Em between two words of a line, at most; a wider gap is another column or table cell."""
PIECE_GAP = 1.2
"""Em between two pieces of one word, at most: letters may stand between them."""
SAME_TYPE = 0.6
"""Octaves by which the type of one line may differ."""
FARTHEST = 2.0
"""Em between two pieces that are looked at together, at most: more than any of the gaps here."""
LINE_GAP = 1.9
"""Em from one line of a block to the next, at most."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a page: what was read, where, and how sure the reader is of it."""

    text: str
    box: Box
    certainty: float
    terms: tuple[int, ...]
    """As the tokenizer would split it; more than one for a rare word."""


@dataclass(frozen=True)
class Pieces:
    """What stays of the cells: one row a piece of a word, in fractions of the page's height."""

    term: NDArray[np.int64]
    chance: NDArray[np.float64]
    x: NDArray[np.float64]  # the middle
    y: NDArray[np.float64]
    em: NDArray[np.float64]
    width: NDArray[np.float64]
    scale: float = 1.0
    """Of the page's type: its widths over those that ``boxes`` expects."""

    def only(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Pieces:
        x, y, em, width = (column[rows] for column in (self.x, self.y, self.em, self.width))
        return Pieces(self.term[rows], self.chance[rows], x, y, em, width, self.scale)


class PageText:
    """Puts the words of a page's cells in order."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
        self._letters = [letters_of(token) for token in tokens]
        self._goes_on = np.array([token.endswith(GOES_ON) for token in tokens])
        self._went_on = np.array([token.startswith(GOES_ON) for token in tokens])
        self._width = np.array([width_of(letters) for letters in self._letters])

    def texts(self, cells: Cells) -> list[str]:
        """The page's words in reading order, without their places."""
        pieces, _ = self._pieces(cells)
        lines = in_order(pieces, self._lines(pieces))
        return [self._text(pieces, rows) for line in lines for rows in self._by_word(pieces, line)]

    def terms(self, cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The terms of the page in reading order, and how sure each is."""
        pieces, _ = self._pieces(cells)
        order = [row for line in in_order(pieces, self._lines(pieces)) for row in line]
        return pieces.term[order], pieces.chance[order]

    def _pieces(self, cells: Cells) -> tuple[Pieces, float]:
        """The surest reading of every place; and the page's width over its height."""
        ratio = float(cells.pixel[0, 1] / cells.pixel[0, 0]) if len(cells.pixel) else 1.0
        em = np.clip(cells.em, *TYPE) * cells.pixel[:, 1]
        term = cells.term[:, 0].astype(np.int64)
        x, y = cells.middle[:, 0].astype(np.float64) * ratio, cells.middle[:, 1].astype(np.float64)
        chance = cells.probability[:, 0].astype(np.float64)
        found = Pieces(term, chance, x, y, em.astype(np.float64), self._width[term] * em)
        found = found.only(found.chance > LEAST)
        return found.only(surest(found)), ratio

    def _lines(self, pieces: Pieces) -> list[list[int]]:
        """Rows of pieces that follow one another on a line, from left to right."""
        after, before = [-1] * len(pieces.x), [-1] * len(pieces.x)
        from vsplade.encode.reader.page_loops import near_on_line

        half = pieces.width / 2
        ahead = half + half.max(initial=0.0) + FARTHEST * pieces.em
        left, right = near_on_line(pieces.y, LINE * pieces.em, pieces.x, np.zeros(len(half)), ahead)
        apart = pieces.x[right] - pieces.x[left]
        gap = (apart - (pieces.width[left] + pieces.width[right]) / 2) / pieces.em[left]
        inside = self._goes_on[pieces.term[left]] & self._went_on[pieces.term[right]]
        fits = gap < np.where(inside, PIECE_GAP, WORD_GAP)
        fits &= np.abs(np.log2(pieces.em[right] / pieces.em[left])) < SAME_TYPE
        rows = np.flatnonzero(fits)
        nearest = rows[np.argsort(apart[rows], kind="stable")]  # the nearest neighbours find each other first
        for one, other in zip(left[nearest].tolist(), right[nearest].tolist(), strict=True):
            if after[one] < 0 and before[other] < 0:
                after[one], before[other] = other, one
        return [list(_follow(first, after)) for first, left_of in enumerate(before) if left_of < 0]

    def _words(self, pieces: Pieces, line: Sequence[int], ratio: float) -> list[Word]:
        return [self._word(pieces, rows, ratio) for rows in self._by_word(pieces, line)]

    def _by_word(self, pieces: Pieces, line: Sequence[int]) -> list[list[int]]:
        """The rows of a line, those of one word together."""
        terms = pieces.term[line]
        joined = self._went_on[terms[1:]] & self._goes_on[terms[:-1]]
        words = [[line[0]]]
        for row, is_same_word in zip(line[1:], joined.tolist(), strict=True):
            if is_same_word:
                words[-1].append(row)
            else:
                words.append([row])
        return words

    def _word(self, pieces: Pieces, rows: list[int], ratio: float) -> Word:
        left, right = _ends(pieces, rows)
        em, middle = float(pieces.em[rows].mean()), float(pieces.y[rows].mean())
        text, terms = self._text(pieces, rows), tuple(pieces.term[rows].tolist())
        sides = (left / ratio, middle - ABOVE * em, right / ratio, middle + BELOW * em)
        box = Box(*(min(1.0, max(0.0, float(side))) for side in sides))
        return Word(text, box, float(pieces.chance[rows].min()), terms)

    def _text(self, pieces: Pieces, rows: list[int]) -> str:
        if len(rows) == 1:
            return self._letters[int(pieces.term[rows[0]])]
        left, right = _ends(pieces, rows)
        return self._spelled(pieces, rows, (right - left) / float(pieces.em[rows].mean()))

    def _spelled(self, pieces: Pieces, rows: list[int], wide: float) -> str:
        """The letters of a word of several pieces, which is so many em wide."""
        span = float(pieces.x[rows[-1]] - pieces.x[rows[0]]) / float(pieces.em[rows].mean())
        return self._joined([int(term) for term in pieces.term[rows]], span)

    def _joined(self, terms: Sequence[int], span: float) -> str:
        """The word of these pieces: the length at which they agree where they overlap.

        ``span`` is from the middle of the first to the middle of the last, in em. Letters that no piece shows
        are left out.
        """
        first, last = self._letters[terms[0]], self._letters[terms[-1]]
        each = (self._width[terms[0]] + self._width[terms[-1]]) / (len(first) + len(last))
        expected = span / each + (len(first) + len(last)) / 2
        return self._at_length(terms, expected)

    def _at_length(self, terms: Sequence[int], expected: float) -> str:
        parts = [self._letters[term] for term in terms]
        middle = parts[1] if len(parts) == 3 else ""
        fitting = [
            (abs(size - expected), word)
            for size in range(max(map(len, parts)), 25)
            if (word := _placed(parts[0], middle, parts[-1], size)) is not None
        ]
        return min(fitting)[1] if fitting else "".join(parts)


def _placed(first: str, middle: str, last: str, size: int) -> str | None:
    """A word of ``size`` letters that begins, goes on and ends so; None where the three contradict."""
    letters: list[str] = [""] * size
    for part, start in ((first, 0), (middle, (size - len(middle)) // 2), (last, size - len(last))):
        for place, letter in enumerate(part, start):
            if not 0 <= place < size or (letters[place] and letters[place] != letter):
                return None
            letters[place] = letter
    return "".join(letters)


def surest(pieces: Pieces) -> NDArray[np.int64]:
    """Rows of pieces that no surer one lies on, in the order of their certainty."""
    from vsplade.encode.reader.page_loops import near_on_line

    half = pieces.width / 2
    around = np.maximum(half + half.max(initial=0.0), FARTHEST * pieces.em + pieces.width)
    one, other = near_on_line(pieces.y, LINE * pieces.em, pieces.x, around, around)
    apart = np.abs(pieces.x[one] - pieces.x[other])
    narrow = np.minimum(pieces.width[one], pieces.width[other])
    near = (pieces.width[one] + pieces.width[other]) / 2 - apart > SAME_PLACE * narrow
    same = pieces.term[one] == pieces.term[other]
    near |= same & (apart < SAME_WORD * pieces.em[one] + pieces.width[one] / 3)
    surer = pieces.chance[one] > pieces.chance[other]
    surer |= (pieces.chance[one] == pieces.chance[other]) & (one < other)
    sure, less = one[near & surer], other[near & surer]
    order = np.lexsort((less, -pieces.chance[sure]))
    hidden = [False] * len(pieces.x)
    for row, below in zip(sure[order].tolist(), less[order].tolist(), strict=True):
        if not hidden[row]:
            hidden[below] = True
    return np.flatnonzero(~np.array(hidden, np.bool_))


def _ends(pieces: Pieces, rows: list[int]) -> tuple[float, float]:
    """The left and the right end of a word."""
    middle, half = pieces.x[rows], pieces.width[rows] / 2
    return float((middle - half).min()), float((middle + half).max())


def _follow(row: int, after: Sequence[int]) -> Iterator[int]:
    while row >= 0:
        yield row
        row = after[row]


@dataclass
class Block:
    """Lines below each other; places in fractions of the page's height."""

    left: float
    top: float
    right: float
    bottom: float
    em: float
    lines: list[list[int]]
    is_table: bool = False


def find_blocks(pieces: Pieces, lines: list[list[int]]) -> list[Block]:
    """Lines below each other in one size of type are a block."""
    blocks: list[Block] = []
    middles = [float(pieces.y[line].mean()) for line in lines]
    for number in sorted(range(len(lines)), key=middles.__getitem__):
        line, middle = lines[number], middles[number]
        left = float(pieces.x[line[0]] - pieces.width[line[0]] / 2)
        right = float(pieces.x[line[-1]] + pieces.width[line[-1]] / 2)
        em = float(pieces.em[line].mean())
        block = next(
            (last for last in reversed(blocks) if _goes_on_with(last, left, right, middle, em)), None
        )
        if block is None:
            blocks.append(Block(left, middle, right, middle, em, [line]))
        else:
            block.left, block.right = min(block.left, left), max(block.right, right)
            block.bottom = middle
            block.em = em
            block.lines.append(line)
    return blocks


def _goes_on_with(block: Block, left: float, right: float, middle: float, em: float) -> bool:
    """Whether a line is a block's next one."""
    if not 0 < middle - block.bottom < LINE_GAP * max(em, block.em):
        return False
    overlap = min(right, block.right) - max(left, block.left)
    alike = abs(math.log2(em / block.em)) < SAME_TYPE
    return alike and overlap > 0.3 * min(right - left, block.right - block.left)


def in_order(pieces: Pieces, lines: list[list[int]]) -> list[list[int]]:
    """Lines in reading order: down each block; of two blocks side by side the left one first."""
    return [line for block in column_order(find_blocks(pieces, lines)) for line in block.lines]


def column_order(blocks: list[Block]) -> list[Block]:
    """Top to bottom; a block waits for those on its left that begin before it ends."""
    rest = sorted(blocks, key=lambda block: (block.top, block.left))
    ordered: list[Block] = []
    while rest:
        pick = rest[0]
        for block in rest[1:]:
            beside = block.right <= pick.left and block.top < pick.bottom + pick.em
            if beside:
                pick = block
        ordered.append(pick)
        rest.remove(pick)
    return ordered
