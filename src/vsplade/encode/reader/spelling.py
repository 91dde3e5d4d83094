"""Rare words, numbers and codes, letter by letter: a second, smaller network looks at single words in detail.

The reader names words of its vocabulary, and of all others their pieces. What it named in pieces or with
doubt is cut from the page as its file has it (``word_crops``), and spelled. Where the spelling is sure, its
terms take the place of what was read there. All else follows from the terms: whole words, pairs, text, boxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader.boxes import TYPE, width_of
from vsplade.encode.reader.word_crops import GAP, Place, picture_of
from vsplade.encode.tokenizer import GOES_ON, RUNS, Tokenizer, letters_of, normalise

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.encode.reader.detect import Cells

LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789-./,:'()+~"
"""What a picture may show, from number 1 on: 0 is nothing. The last stands for any other mark."""
_ZERO = LETTERS.index("0") + 1
_SAME = str.maketrans({"–": "-", "‐": "-", "‑": "-", "—": "-", "−": "-", "’": "'", "‘": "'"})
LIKELY = 0.12
"""Readings that are less likely are not spelled."""
NUMBER_GAP = 0.42
"""Em between two words, where one is a number: less may stand around its marks."""
CERTAIN, KNOWN = 0.8, 0.6
"""A word is not spelled where whole words are read so surely on so much of its width; whole words
that are less sure are spelled."""
MOST, TRIED = 128, 1500
"""Words of a page that are spelled, and readings that are gone through for them, at most."""
FIRST = 0.6
"""Readings near this chance come first, numbers and pieces before others."""
POWER = 0.4
"""Of a spelling's certainty, the chance that all of it is right: counted on faces and PDFs that were kept out
of training (docs/log.md)."""
SURE = 0.5
"""Spellings that are less likely right change nothing."""
SHARE = 0.6
"""Of that chance, which is taken from what was read at the place: both may be right."""
ROUND, ROUND_DIGITS = "odq", 30.0
"""Letters that look like a zero, and how much more often it is one where a digit stands beside it."""
_ROUND_BESIDE_DIGIT = re.compile(f"[0-9][{ROUND}]|[{ROUND}][0-9]")
AT_ONCE = 4
"""Words that the network sees at a time, of about one width."""
STEP = 2
"""Pixels from one frame of the network to the next."""


def spelled_as(text: str) -> str:
    """A printed text in LETTERS."""
    plain = normalise(text.translate(_SAME))
    return "".join(char if char in LETTERS else "~" for char in plain)


@dataclass(frozen=True)
class Spelling:
    """What a picture says: its letters, the frame where each was seen, and how sure all of them are."""

    letters: str
    frames: Sequence[int]
    certainty: float


@dataclass(frozen=True)
class _Readings:
    """What the cells of a page were read as; lengths in pixels of the page."""

    chance: NDArray[np.float32]
    term: NDArray[np.int32]
    middle: NDArray[np.float32]
    em: NDArray[np.float32]
    width: NDArray[np.float32]


class Speller:
    def __init__(self, session: Any, tokenizer: Tokenizer) -> None:
        """``session`` is onnxruntime's of the network."""
        self._session, self._tokenizer = session, tokenizer
        self.height: int = session.get_inputs()[0].shape[2]
        tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
        self._number = number = np.array([letters_of(token).isdigit() for token in tokens])
        piece = np.array([GOES_ON in token for token in tokens])
        self._in_detail = number | piece | np.array([len(token) == 1 for token in tokens])
        self._width = np.array([width_of(letters_of(token)) for token in tokens], np.float32)
        self._sooner = 0.2 * number + 0.2 * piece

    def look_again(self, grey: Image.Image, cells: Cells) -> Cells:
        """What was read on a page, with what is spelled surely in its place."""
        found = self.places(grey, cells)
        spellings = self.spell([picture_of(grey, place, self.height) for _, place in found])
        return self.replaced(cells, found, spellings, grey.size)

    def places(self, grey: Image.Image, cells: Cells) -> list[tuple[int, Place]]:
        """The words to be spelled: a cell of each, and where it stands."""
        from vsplade.encode.reader.word_ends import words_at  # loads numba, which a search does not wait for

        readings = self._readings(cells, grey.size)
        known = (readings.chance >= CERTAIN) & ~self._in_detail[readings.term]
        tried = self._doubtful(readings, np.flatnonzero(known))
        x, y = readings.middle.T.astype(np.float64)
        gap = np.where(self._number[readings.term], NUMBER_GAP, GAP)
        width = np.where(known, readings.width, 0).astype(np.float64)
        em = readings.em.astype(np.float64)
        rows, places = words_at(np.asarray(grey), tried, x, y, em, gap, width, KNOWN, MOST)
        return list(zip(rows.tolist(), map(tuple, places.tolist()), strict=True))

    def _readings(self, cells: Cells, size: tuple[int, int]) -> _Readings:
        """The likeliest term of every cell, and its place in pixels."""
        term, scale = cells.term[:, 0], np.array(size, np.float32)
        em = np.clip(cells.em, *TYPE) * cells.pixel[:, 1] * scale[1]
        return _Readings(cells.probability[:, 0], term, cells.middle * scale, em, self._width[term] * em)

    def _doubtful(self, readings: _Readings, known: NDArray[np.intp]) -> NDArray[np.intp]:
        """Cells that may be spelled, in the order in which they are tried; none lies on a ``known`` word."""
        chance, detail = readings.chance, self._in_detail[readings.term]
        rows = np.flatnonzero((chance > LIKELY) & (detail | (chance < CERTAIN)))
        order = np.argsort(np.abs(chance[rows] - FIRST) - self._sooner[readings.term[rows]], kind="stable")
        rows = rows[order[:TRIED]]
        there = known[np.argsort(readings.middle[known, 1], kind="stable")]
        x, y = readings.middle[there].T
        wide, high = readings.width[there] / 2, readings.em[there] / 2
        at, most = readings.middle[rows, 1], high.max(initial=0)
        first = np.searchsorted(y, at - most)
        many = np.searchsorted(y, at + most, side="right") - first
        row = np.repeat(np.arange(len(rows)), many)
        one = np.arange(len(row)) - np.repeat(np.cumsum(many) - many - first, many)
        across, down = np.abs(readings.middle[rows[row]].T - (x[one], y[one]))
        on_known = row[(across < wide[one]) & (down < high[one])]
        left: NDArray[np.intp] = np.delete(rows, on_known)
        return left

    def spell(self, pictures: Sequence[NDArray[np.uint8]]) -> list[Spelling]:
        order = sorted(range(len(pictures)), key=lambda number: pictures[number].shape[1])
        spelled: dict[int, Spelling] = {}
        for start in range(0, len(order), AT_ONCE):
            some = order[start : start + AT_ONCE]
            widths = [pictures[number].shape[1] for number in some]
            batch = np.zeros((len(some), 1, self.height, -(-(widths[-1] + 4) // 4) * 4), np.uint8)
            for row, (number, width) in enumerate(zip(some, widths, strict=True)):
                batch[row, 0, :, :width] = pictures[number]
            (chances,) = self._session.run(None, {"pictures": batch * np.float32(1 / 255)})
            frames = [(width + 3) // STEP for width in widths]
            spelled |= dict(zip(some, decoded(chances, frames), strict=True))
        return [spelled[number] for number in range(len(pictures))]

    def replaced(
        self,
        cells: Cells,
        found: Sequence[tuple[int, Place]],
        spellings: Sequence[Spelling],
        size: tuple[int, int],
    ) -> Cells:
        """The cells of a page of this size, with the terms of sure spellings; what was read at their places
        counts by how unsure they are.
        """
        middle, doubt = cells.middle * np.array(size, np.float32), np.ones(len(cells.middle), np.float32)
        new: list[tuple[int, int, float, float, float]] = []  # cell, term, x, y, certainty
        for (row, place), spelling in zip(found, spellings, strict=True):
            chance = spelling.certainty**POWER
            pieces = list(self._pieces(spelling)) if chance > SURE else []
            if not pieces:
                continue
            doubt[_inside(place, middle)] *= 1 - SHARE * chance
            left, top, _, bottom = place
            step = STEP * (bottom - top) / self.height
            new += [
                (row, term, max(0.0, left) + (frame + 0.5) * step, (top + bottom) / 2, chance)
                for term, frame in pieces
            ]
        if not new:
            return cells
        rows, terms, x, y, certainty = map(np.array, zip(*new, strict=True))
        nothing = np.zeros((len(new), cells.term.shape[1] - 1))
        spelled = type(cells)(
            (np.stack([x, y], 1) / size).astype(np.float32),
            cells.pixel[rows],
            np.column_stack([certainty, nothing]).astype(np.float32),
            np.column_stack([terms, nothing]).astype(np.int32),
            cells.em[rows],
            certainty.astype(np.float32),
        )
        return replace(cells, probability=cells.probability * doubt[:, None]).and_(spelled)

    def _pieces(self, spelling: Spelling) -> Iterator[tuple[int, float]]:
        """The terms of a spelling, and the frame in the middle of each."""
        for run in RUNS.finditer(spelling.letters):
            for term, start, end in self._tokenizer.spans(run.group()):
                first, last = spelling.frames[run.start() + start], spelling.frames[run.start() + end - 1]
                yield term, (first + last) / 2


def _inside(place: Place, middle: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which of some places lie on a word."""
    left, top, right, bottom = place
    x, y = middle.T
    inside: NDArray[np.bool_] = (
        (x > left) & (x < right) & (np.abs(y - (top + bottom) / 2) < (bottom - top) / 3)
    )
    return inside


def decoded(chances: NDArray[np.float32], frames: Sequence[int]) -> Iterator[Spelling]:
    """The likeliest letter of every frame, each stretch of one as one: of (words, letters, frames), as many
    frames as each word has.
    """
    best = chances.argmax(axis=1)
    certainty = np.cumprod(np.take_along_axis(chances, best[:, None], axis=1)[:, 0], axis=1)
    before = np.concatenate([np.zeros((len(best), 1), best.dtype), best[:, :-1]], axis=1)
    begins = (best > 0) & (best != before)
    for word, count in enumerate(frames):
        at = np.flatnonzero(begins[word, :count])
        letters = "".join([LETTERS[number - 1] for number in best[word, at].tolist()])
        found = Spelling(letters, at.tolist(), float(certainty[word, count - 1]))
        yield _with_zeros(found, chances[word]) if _ROUND_BESIDE_DIGIT.search(letters) else found


def _with_zeros(found: Spelling, chances: NDArray[np.float32]) -> Spelling:
    """With zeros for round letters beside a digit, where the picture may show one."""
    letters, certainty = list(found.letters), found.certainty
    for at, frame in enumerate(found.frames):
        beside = letters[max(0, at - 1) : at] + letters[at + 1 : at + 2]
        if letters[at] not in ROUND or not any(map(str.isdigit, beside)):
            continue
        letter = float(chances[LETTERS.index(letters[at]) + 1, frame])
        zero = float(chances[_ZERO, frame]) * ROUND_DIGITS
        if zero > letter:
            letters[at] = "0"
            certainty *= zero / (letter + zero) / letter
    return Spelling("".join(letters), found.frames, min(1.0, certainty))
