"""Cells and pixels to text for people: blocks, lines and words, each word with its place on the ink.

``page_text`` is quick and knows the cells only; it serves meaning. Here the ink corrects where a reading
lies. So two cells that saw one word fall on one place, and a word is as wide as it is printed. On each line
the readings that fit beside each other are chosen together: those that explain most letters most surely.
Blocks whose lines stand at the same heights and are short are a table, and are read row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.boxes import TYPE, ends_on_ink
from vsplade.encode.reader.page_text import (
    LEAST,
    PIECE_GAP,
    SAME_PLACE,
    SAME_TYPE,
    Block,
    PageText,
    Pieces,
    Word,
    column_order,
    find_blocks,
    surest,
)
from vsplade.encode.tokenizer import LONG_WORD, LONGEST_PIECE, Tokenizer

if TYPE_CHECKING:
    from vsplade.encode.reader.detect import Cells

CANDIDATES = 2
"""Terms of a cell that are looked at."""
DOUBTFUL = 0.08
"""Readings that are less likely are not."""
PRICE = 0.15
"""A reading counts by how much more likely than this it is, times its letters."""
BROKEN = 0.6
"""What it costs, in letters, that a piece of a word lacks its other side."""
OVERLAP = -1.8
"""Em between two pieces of one word, at least: those of short words share letters."""
LETTERS_BETWEEN = 0.2
"""What an em between two pieces costs: letters that nobody read."""
TWICE = 0.12
"""Em between two short readings of the same letters: nearer ones are one."""
ON_LINE = 0.4
"""Em above or below a line's words that a reading may lie, to belong to it."""
BESIDE = 1.0
"""Em from the line's nearest word, at most."""
SURE, FEWEST_SURE = 0.7, 3
"""Words that tell how wide the type is: how sure, and how many."""
UNREAD = "…"
"""Stands for digits or letters that are there and were not read."""
MISSING_DIGITS, MISSING_LETTERS = 0.75, 2.5
"""More than so many, by the width that is printed."""
RIGHT = {
    "whole": (
        (0.26, 0.36, 0.47, 0.56, 0.66, 0.76, 0.85, 0.94, 1),
        (0.28, 0.3, 0.72, 0.74, 0.92, 0.98, 0.985, 0.995, 1),
    ),
    "short": (
        (0.25, 0.35, 0.45, 0.55, 0.65, 0.76, 0.86, 0.94, 1),
        (0.33, 0.4, 0.45, 0.73, 0.88, 0.94, 0.97, 0.985, 1),
    ),
    "spelled": ((0.14, 0.24, 0.55), (0.04, 0.21, 0.26)),
}
"""How often words are right, by the chance of their doubtful piece: words that are one term, those of one or
two characters, and those that are spelled from pieces. Counted on report pages (docs/model-card.md).
"""
CELL_WORDS = 3
"""Words in a table's cell, in most of them."""
ALIGNED, AT_ONE_HEIGHT = 0.7, 0.35
"""Share of the lines of a column that stand beside one of its neighbour, and the em that they may differ."""


class SpelledText(PageText):
    """The words of a page as blocks of lines."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self._is_word = np.array([letters.isalpha() for letters in self._letters])
        self._count = np.array([len(letters) for letters in self._letters])

    def blocks(self, cells: Cells, grey: NDArray[np.uint8]) -> list[list[list[Word]]]:
        """Words by line and by block, in reading order; ``grey`` is the page that was read, in any size."""
        readings, ratio = self._on_ink(cells, grey)
        sure = readings.only(readings.chance > LEAST)
        sure = sure.only(surest(sure))
        lines = self._lines(sure)
        chosen = [self._chosen(readings, rows) for rows in _by_line(readings, sure, lines)]
        blocks = find_blocks(readings, [row for row in chosen if row])
        found = column_order(tables_joined(readings, blocks, self._is_word))
        return [[self._words(readings, line, ratio) for line in block.lines] for block in found]

    def _on_ink(self, cells: Cells, grey: NDArray[np.uint8]) -> tuple[Pieces, float]:
        """The likeliest readings of all cells, where their ink lies; and the page's width over its height."""
        height, width = grey.shape
        row, column = np.nonzero(cells.probability[:, :CANDIDATES] > DOUBTFUL)
        term = cells.term[row, column].astype(np.int64)
        em = (np.clip(cells.em[row], *TYPE) * cells.pixel[row, 1]).astype(np.float64)
        places = np.array(
            [
                ends_on_ink(grey, float(width_), cells.middle[cell], cells.pixel[cell], float(cells.em[cell]))
                for cell, width_ in zip(row.tolist(), self._width[term], strict=True)
            ]
        ).reshape(-1, 3)
        left, right, middle = places.T / height
        chance = cells.probability[row, column].astype(np.float64)
        wide = right - left
        scale = self._scale(term, chance, wide / em)
        return Pieces(term, chance, (left + right) / 2, middle, em, wide, scale), width / height

    def _spelled(self, pieces: Pieces, rows: list[int], wide: float) -> str:
        """By the width that is printed; with a mark for digits or letters that no piece shows."""
        terms = [int(term) for term in pieces.term[rows]]
        each = sum(self._width[term] for term in terms) / sum(len(self._letters[term]) for term in terms)
        expected = wide / each / pieces.scale
        if len(terms) > 2:  # a word has one middle, and only a long one has
            middle = max(rows[1:-1], key=lambda row: float(pieces.chance[row]))
            between = [int(pieces.term[middle])] if expected >= LONG_WORD - 0.6 else []
            terms = [terms[0], *between, terms[-1]]
        word = self._at_length(terms, expected)
        first, last = self._letters[terms[0]], self._letters[terms[-1]]
        if len(terms) != 2 or word != first + last:
            return word
        least = MISSING_DIGITS if word.isdigit() else MISSING_LETTERS
        # capitals are wide: of a short word its width does not tell
        certain = word.isdigit() or min(len(first), len(last)) >= LONGEST_PIECE - 1
        return f"{first}{UNREAD}{last}" if certain and expected - len(word) > least else word

    def _word(self, pieces: Pieces, rows: list[int], ratio: float) -> Word:
        """With a certainty that says how often such words are right."""
        word = super()._word(pieces, rows, ratio)
        first, last = word.terms[0], word.terms[-1]
        spelled = len(rows) > 1 or bool(self._went_on[first] or self._goes_on[last])
        kind = "spelled" if spelled else "short" if self._count[first] <= 2 else "whole"
        return replace(word, certainty=float(np.interp(word.certainty, *RIGHT[kind])))

    def _scale(
        self, term: NDArray[np.int64], chance: NDArray[np.float64], wide: NDArray[np.float64]
    ) -> float:
        """Of the page's type, by the words that are read surely; ``wide`` is in em."""
        whole = (chance > SURE) & ~self._goes_on[term] & ~self._went_on[term] & (self._count[term] > 2)
        if whole.sum() < FEWEST_SURE:
            return 1.0
        return float(np.clip(np.median(wide[whole] / self._width[term[whole]]), 0.7, 1.5))

    def _chosen(self, readings: Pieces, rows: list[int]) -> list[int]:
        """Of the readings on a line those that fit beside each other and explain the most."""
        rows = sorted(rows, key=lambda row: float(readings.x[row]))
        term = readings.term[rows]
        left, right = (readings.x[rows] + side * readings.width[rows] / 2 for side in (-1, 1))
        goes_on, went_on = self._goes_on[term], self._went_on[term]
        gain = (readings.chance[rows] - PRICE) * self._count[term] - BROKEN * went_on
        letters = [self._letters[number] for number in term]
        total, before = gain.copy(), np.full(len(rows), -1)
        for at in range(1, len(rows)):
            em, width = readings.em[rows[at]], readings.width[rows]
            gap = (left[at] - right[:at]) / em
            apart = gap * em >= -SAME_PLACE * np.minimum(width[:at], width[at])
            for near in np.flatnonzero(apart & (gap <= TWICE)).tolist():
                apart[near] = not _same_end(letters[near], letters[at])
            inside = goes_on[:at] & went_on[at] & (gap > OVERLAP) & (gap < PIECE_GAP + 0.8)
            value = total[:at] + gain[at] - BROKEN * goes_on[:at]
            whole = total[:at] + gain[at] + BROKEN - LETTERS_BETWEEN * np.maximum(gap, 0)
            value = np.where(inside, whole, np.where(apart, value, -np.inf))
            value[readings.x[rows[at]] - readings.x[rows[:at]] < 0.05 * em] = -np.inf
            best = int(value.argmax())
            if value[best] > total[at]:
                total[at], before[at] = value[best], best
        return _way_back(rows, total - BROKEN * goes_on, before)


def _same_end(one: str, other: str) -> bool:
    """Whether the second may be the first, seen again: ``02`` and ``2``, ``of`` and ``of``."""
    return min(len(one), len(other)) <= 2 and (one.endswith(other) or other.startswith(one))


def _way_back(rows: Sequence[int], total: NDArray[np.float64], before: NDArray[np.int64]) -> list[int]:
    """The rows that lead to the best end; none where nothing is gained."""
    at = int(total.argmax()) if len(rows) and total.max() > 0 else -1
    chosen = []
    while at >= 0:
        chosen.append(rows[at])
        at = int(before[at])
    return chosen[::-1]


def _by_line(readings: Pieces, sure: Pieces, lines: list[list[int]]) -> list[list[int]]:
    """The readings that lie on each line, which is made of the sure ones."""
    owner = np.full(len(sure.x), -1)
    for number, line in enumerate(lines):
        owner[line] = number
    rows: list[list[int]] = [[] for _ in lines]
    order = np.argsort(sure.y, kind="stable")
    heights, largest = sure.y[order], float(sure.em.max(initial=0.0))
    for row in range(len(readings.x)):
        reach = ON_LINE * largest
        first, last = np.searchsorted(heights, (readings.y[row] - reach, readings.y[row] + reach))
        near = order[first:last]
        beside = np.maximum(0, np.abs(sure.x[near] - readings.x[row]) - sure.width[near] / 2)
        off = np.abs(sure.y[near] - readings.y[row])
        fits = (off < ON_LINE * sure.em[near]) & (beside < BESIDE * sure.em[near])
        fits &= np.abs(np.log2(sure.em[near] / readings.em[row])) < SAME_TYPE
        if fits.any():
            nearest = np.flatnonzero(fits)[(beside + 2 * off)[fits].argmin()]
            rows[owner[near[nearest]]].append(row)
    return rows


def tables_joined(pieces: Pieces, blocks: list[Block], is_word: NDArray[np.bool_]) -> list[Block]:
    """Blocks, those that are columns of one table as one: its rows are lines."""
    joined: list[Block] = []
    for block in sorted(blocks, key=lambda block: -len(block.lines)):
        cell_like = np.median([is_word[pieces.term[line]].sum() for line in block.lines]) <= CELL_WORDS
        hosts = [other for other in joined if other.is_table and _is_column(pieces, other, block)]
        if cell_like and hosts:
            _add_column(hosts[0], block)
        else:
            block.is_table = bool(cell_like)
            joined.append(block)
    for block in joined:
        block.lines = _rows(pieces, block)
    return joined


def _heights(pieces: Pieces, block: Block) -> NDArray[np.float64]:
    return np.array([float(pieces.y[line].mean()) for line in block.lines])


def _is_column(pieces: Pieces, table: Block, block: Block) -> bool:
    """Whether a block stands beside the rows of another."""
    if abs(np.log2(block.em / table.em)) > SAME_TYPE:
        return False
    apart = np.abs(_heights(pieces, block)[:, None] - _heights(pieces, table)[None])
    return float((apart.min(axis=1) < AT_ONE_HEIGHT * block.em).mean()) >= ALIGNED


def _add_column(table: Block, block: Block) -> None:
    table.lines += block.lines
    table.left, table.right = min(table.left, block.left), max(table.right, block.right)
    table.top, table.bottom = min(table.top, block.top), max(table.bottom, block.bottom)


def _rows(pieces: Pieces, block: Block) -> list[list[int]]:
    """The lines of a block from top to bottom, those at one height as one, from left to right."""
    order = np.argsort(_heights(pieces, block), kind="stable")
    rows: list[list[int]] = []
    last = -np.inf
    for line in (block.lines[number] for number in order):
        height = float(pieces.y[line].mean())
        if height - last < AT_ONE_HEIGHT * float(pieces.em[line].mean()):
            rows[-1] += line
        else:
            rows.append(list(line))
            last = height
    return [sorted(row, key=lambda piece: float(pieces.x[piece])) for row in rows]
