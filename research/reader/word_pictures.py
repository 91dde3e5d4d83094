"""Pictures of words to learn spelling from: drawn lines and real pages, cut as the reader cuts them.

Both go one way: a page with the place of every character, a place of ink on it, and the word that
``word_crops`` finds there. What stands between its ends is what the picture says.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from research.reader.coined import till_line
from research.reader.text_layers import characters_of, page_jobs
from research.reader.word_texts import printed
from research.reader.word_wear import dotted, worn
from vsplade.encode.reader.spelling import NUMBER_GAP, spelled_as
from vsplade.encode.reader.word_crops import GAP, HEIGHT, Place, picture_of
from vsplade.encode.reader.word_ends import word_at

LONGEST_LABEL = 32
WIDEST = 320
"""Pixels of a picture, at most, of one that is HEIGHT high."""
LINES = 6
"""Of a drawn strip."""
WIDE = 30
"""Em of a drawn strip."""
MACHINE = 0.35
"""Share of the strips that are in faces whose letters are all of one width."""
A_PAGE = 300
"""Words of a real page that are looked at."""
Labelled = tuple[NDArray[np.uint8], str]
Lists = tuple[Sequence[str], Sequence[str]]
"""Frequent words, and rare ones."""


@dataclass
class Line:
    """Characters with their ends in pixels, spaces too; the middle of the line and the size of its type."""

    text: str
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    y: float
    em: float

    def says(self, left: float, right: float) -> str | None:
        """Between two places; None where a character is cut in two there, or nothing stands."""
        middle, inner = (self.left + self.right) / 2, 0.3 * self.em
        cut = [(self.left + inner < end) & (self.right - inner > end) for end in (left, right)]
        text = "".join(self.text[at] for at in np.flatnonzero((middle > left) & (middle < right)))
        label = spelled_as(text.strip())
        sound = label.strip("~") and len(label) <= LONGEST_LABEL and not np.any(cut)
        return label if sound else None


class Faces:
    """Those to draw with; typewriters and tills have letters of one width."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.all = list(paths)
        self.machine = []
        for path in self.all:
            face = ImageFont.truetype(str(path), 40, layout_engine=ImageFont.Layout.BASIC)
            if abs(face.getlength("i") - face.getlength("M")) < 1:
                self.machine.append(path)

    def one(self, rng: random.Random) -> tuple[Path, bool]:
        """A face, and whether it is a machine's."""
        machine = bool(self.machine) and rng.random() < MACHINE
        face = rng.choice(self.machine if machine else self.all)
        return face, machine


@dataclass(frozen=True)
class Hand:
    """How letters are set: so far apart, and how unevenly, in px of the strip."""

    apart: float = 0.0
    shaken: float = 0.0
    faint: float = 0.0

    @classmethod
    def of(cls, rng: random.Random, size: float, machine: bool) -> Hand:
        if machine and rng.random() < 0.4:
            return cls(0.0, rng.uniform(0, 0.05) * size, rng.choice([0.0, rng.uniform(0, 110)]))
        return cls(rng.uniform(0, 0.12) * size) if rng.random() < 0.08 else cls()


def drawn(rng: random.Random, faces: Faces, lists: Lists) -> tuple[Image.Image, list[Line]]:
    """A strip of lines in one face, with its wear."""
    face, machine = faces.one(rng)
    em = min(40.0, 8 + rng.expovariate(1 / 8))
    zoom = rng.choice([1, 2, 2, 3]) if em < 26 else 1
    font = ImageFont.truetype(str(face), round(em * zoom), layout_engine=ImageFont.Layout.BASIC)
    pitch = em * rng.uniform(1.0, 1.7)
    size = round(em * WIDE), round(pitch * LINES + em)
    page = Image.new("L", (size[0] * zoom, size[1] * zoom), 255)
    draw, hand = ImageDraw.Draw(page), Hand.of(rng, font.size, machine)
    lines = []
    for row in range(LINES):
        said = [printed(rng, *lists) for _ in range(rng.randint(3, 8))]
        if rng.random() < 0.12:
            said = till_line(lists[1], rng)
        line = _set(draw, rng, font, said, (row + 0.5) * pitch + em, zoom, hand)
        lines.append(line)
        if rng.random() < 0.05:  # a rule below it
            down = (line.y + rng.uniform(0.5, 0.8) * em) * zoom
            draw.line([(0, down), (page.width, down)], 0, max(1, round(em * zoom * 0.06)))
    if machine and zoom > 1 and rng.random() < 0.15:
        page = dotted(page, zoom, em, rng)
    return worn(page, size, rng, min(1.0, em / 15)), lines


def _set(
    draw: ImageDraw.ImageDraw,
    rng: random.Random,
    font: Any,
    words: list[str],
    base: float,
    zoom: int,
    hand: Hand,
) -> Line:
    """Draw the words of a line that fit."""
    space = max(font.getlength(" "), 0.3 * font.size) * rng.uniform(0.95, 1.6) + hand.apart
    x = rng.uniform(0.2, 2) * font.size
    text, left, right = "", [], []
    wide = {char: font.getlength(char) + hand.apart for char in {*"".join(words)}}  # faces have no kerning
    for word in words:
        ends = list(accumulate((wide[char] for char in word), initial=x))
        if ends[-1] > (WIDE - 1) * font.size:
            break
        by_letter = hand.apart or hand.shaken or hand.faint
        for at, part in zip(ends, word, strict=False) if by_letter else [(x, word)]:
            shift = [rng.gauss(0, hand.shaken) if hand.shaken else 0.0 for _ in range(2)]
            level = int(rng.uniform(0, hand.faint)) if hand.faint else 0
            draw.text((at + shift[0] / 2, base * zoom + shift[1]), part, level, font, anchor="ls")
        text += word + " "
        left += ends
        right += [*ends[1:], ends[-1]]
        x = ends[-1] + space
    middle = base * zoom + font.getbbox("x", anchor="ls")[1] / 2
    return Line(text, np.array(left) / zoom, np.array(right) / zoom, middle / zoom, font.size / zoom)


def drawn_pictures(
    faces: Sequence[Path], rng: random.Random, lists: Lists, height: int = HEIGHT
) -> Iterator[Labelled]:
    """Without end."""
    known = Faces(faces)
    while True:
        page, lines = drawn(rng, known, lists)
        grey = np.asarray(page)
        for line in lines:
            at = 0
            for word in line.text.split(" "):
                if word:
                    x = rng.uniform(line.left[at], line.right[at + len(word) - 1])
                    place = _told(grey, x, line, word, rng)
                    yield from _labelled(page, place, [line], height)
                at += len(word) + 1


def _told(grey: NDArray[np.uint8], x: float, line: Line, word: str, rng: random.Random) -> Place | None:
    """A place as the reader tells it: anywhere in the word, and its size give or take."""
    em = line.em * math.exp(rng.gauss(0, 0.1))
    has_digits = any(char.isdigit() for char in word)
    gap = NUMBER_GAP if has_digits and rng.random() < 0.7 else GAP
    return word_at(grey, x, line.y + rng.gauss(0, 0.15) * em, em, gap)


def _labelled(
    page: Image.Image, place: Place | None, lines: Sequence[Line], height: int
) -> Iterator[Labelled]:
    """The picture of a place with what the one line there says."""
    if place is None:
        return
    left, top, right, bottom = place
    em, y = (bottom - top) / 1.5, (top + bottom) / 2
    here = [line for line in lines if abs(line.y - y) < 0.5 * line.em and 0.6 < line.em / em < 1.6]
    here = [line for line in here if line.left.min() < right and line.right.max() > left]
    label = here[0].says(left, right) if len(here) == 1 else None
    if label and (picture := picture_of(page, place, height)).shape[1] <= WIDEST * height / HEIGHT:
        yield picture, label


def real_pictures(
    pdfs: Sequence[Path], per_file: int, rng: random.Random, height: int = HEIGHT
) -> Iterator[Labelled]:
    """Words of worn pages; their text layers say where, and what stands there."""
    import pypdfium2

    for path, number, edge in page_jobs(pdfs, per_file, (900, 1536), rng.getrandbits(32)):
        document = pypdfium2.PdfDocument(path)
        sheet = document[number]
        scale, zoom = edge / max(sheet.get_size()), 2 if rng.random() < 0.3 else 1
        page = sheet.render(scale=scale * zoom, grayscale=True).to_pil().convert("L")
        lines = lines_of(characters_of(sheet, scale))
        document.close()
        if not lines or min(page.size) < 300:
            continue
        size = (round(page.width / zoom), round(page.height / zoom))
        page = worn(page, size, rng, rng.choice([0.3, 0.5, 0.8]))
        grey = np.asarray(page)
        words = [found for line in lines for found in _words_of(line, rng)]
        for line, at, word in rng.sample(words, min(A_PAGE, len(words))):
            x = rng.uniform(line.left[at], line.right[at + len(word) - 1])
            yield from _labelled(page, _told(grey, x, line, word, rng), _beside(lines, line), height)


def _words_of(line: Line, rng: random.Random) -> Iterator[tuple[Line, int, str]]:
    """Its words and where they begin: all with digits or capitals, some of the others."""
    at = 0
    for word in line.text.split(" "):
        if word and (
            not word.islower() or not word.isalpha() or rng.random() < (0.4 if len(word) > 5 else 0.1)
        ):
            yield line, at, word
        at += len(word) + 1


def _beside(lines: Sequence[Line], line: Line) -> list[Line]:
    return [other for other in lines if abs(other.y - line.y) < 2 * line.em]


def lines_of(characters: Iterator[tuple[str, float, float, float, float]]) -> list[Line]:
    """Of a text layer: a new one begins at another height, further left, or in other type."""
    rows: list[list[tuple[str, float, float, float, float]]] = [[]]
    for char, left, right, y, em in characters:
        row = rows[-1]
        if char == " ":
            if row:
                row.append((" ", row[-1][2], row[-1][2], row[-1][3], row[-1][4]))
            continue
        if row and (
            abs(y - row[-1][3]) > 0.5 * row[-1][4]
            or left < row[-1][1] - 0.3 * em
            or not 0.8 < (em + 0.1) / (row[-1][4] + 0.1) < 1.25
        ):
            row = []
            rows.append(row)
        row.append((char, left, right, y, em))
    lines = []
    for row in rows:
        if len(row) > 1:
            text, lefts, rights, heights, ems = zip(*row, strict=True)
            line = Line("".join(text), np.array(lefts), np.array(rights), np.median(heights), np.median(ems))
            lines.append(line)
    return [line for line in lines if line.em > 4]
