"""Pictures of words to learn spelling from: drawn lines and real pages, cut as the reader cuts them.

Both go one way: a page with the place of every character, a place of ink on it, and the word that
``word_crops`` finds there. What stands between its ends is what the picture says.
"""

from __future__ import annotations

import io
import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from research.reader.coined import code, figure, misspelt, till_line
from research.reader.realpages import characters_of, page_jobs
from research.reader.words import LANGUAGES, dressed, made_up
from vsplade.encode.reader.boxes import TYPE
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.spelling import spelled_as
from vsplade.encode.reader.word_crops import Place, picture_of, word_at

LONGEST_LABEL = 32
WIDEST = 320
"""Pixels of a picture, at most."""
LINES = 6
"""Of a drawn strip."""
A_PAGE = 400
"""Places of a real page that are looked at."""
Labelled = tuple[NDArray[np.uint8], str]


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


def word_lists() -> tuple[list[str], list[str]]:
    """Frequent English words, the most frequent first, and rare and foreign ones."""
    from wordfreq import top_n_list

    def plain(language: str, count: int) -> list[str]:
        return [w for w in top_n_list(language, count) if len(w) > 1 and w.isascii() and w.isalpha()]

    english = plain("en", 120_000)
    foreign = {word for language in LANGUAGES for word in plain(language, 15_000)}
    return english[:30_000], english[15_000:] + sorted(foreign)


def printed(rng: random.Random, words: Sequence[str], rare: Sequence[str]) -> str:
    """A word, a number or a code, half of each."""
    chance = rng.random()
    if chance < 0.3:
        return dressed(words[int(len(words) * rng.random() ** 2)], rng)
    if chance < 0.5:
        return dressed(rng.choice(rare), rng)
    if chance < 0.55:
        return dressed(misspelt(rng.choice(words), rng) or "a", rng)
    if chance < 0.92:
        return rng.choice([figure, figure, code, made_up])(rng)
    some = rng.choice(
        [string.ascii_lowercase, string.ascii_uppercase, string.ascii_uppercase + string.digits]
    )
    return "".join(rng.choice(some) for _ in range(rng.randint(2, 10)))


def drawn(
    rng: random.Random, face: Path, words: Sequence[str], rare: Sequence[str]
) -> tuple[Image.Image, list[Line]]:
    """A strip of lines in one face, with its wear."""
    em = min(40.0, 8 + rng.expovariate(1 / 8))
    zoom = rng.choice([1, 2, 3]) if em < 22 else 1
    font = ImageFont.truetype(str(face), round(em * zoom), layout_engine=ImageFont.Layout.BASIC)
    pitch = em * rng.uniform(1.0, 1.7)
    size = round(em * 30), round(pitch * LINES + em)
    page = Image.new("L", (size[0] * zoom, size[1] * zoom), 255)
    draw = ImageDraw.Draw(page)
    lines = []
    for row in range(LINES):
        said = [printed(rng, words, rare) for _ in range(rng.randint(2, 7))]
        base = (row + 0.5) * pitch + em
        line = _set(draw, rng, font, till_line(rare, rng) if rng.random() < 0.12 else said, base, zoom)
        lines.append(line)
        if rng.random() < 0.04:  # a rule below it
            down = (line.y + rng.uniform(0.55, 0.8) * em) * zoom
            draw.line([(0, down), (page.width, down)], 0, max(1, round(em * zoom * 0.06)))
    return worn(page, size, rng, min(1.0, em / 15)), lines


def _set(
    draw: ImageDraw.ImageDraw, rng: random.Random, font: Any, words: list[str], base: float, zoom: int
) -> Line:
    """Draw the words of a line that fit, now and then spaced out."""
    apart = rng.uniform(0, 0.12) * font.size if rng.random() < 0.08 else 0.0
    space = max(font.getlength(" "), 0.3 * font.size) * rng.uniform(0.95, 1.6) + apart
    x = rng.uniform(0.2, 2) * font.size
    text, left, right = "", [], []
    for word in words:
        ends = [x + font.getlength(word[:n]) + n * apart for n in range(len(word) + 1)]
        if ends[-1] > 29 * font.size:
            break
        for at, part in zip(ends, word, strict=False) if apart else [(x, word)]:
            draw.text((at, base * zoom), part, 0, font, anchor="ls")
        text += word + " "
        left += ends
        right += [*ends[1:], ends[-1]]
        x = ends[-1] + space
    middle = base * zoom + font.getbbox("x", anchor="ls")[1] / 2
    return Line(text, np.array(left) / zoom, np.array(right) / zoom, middle / zoom, font.size / zoom)


def worn(page: Image.Image, size: tuple[int, int], rng: random.Random, harm: float) -> Image.Image:
    """At its size, after print, age, a scanner and JPEG; ``harm`` is how much of it type can bear."""
    if rng.random() < 0.2 and page.width > size[0]:
        page = page.filter(rng.choice([ImageFilter.MinFilter(3), ImageFilter.MaxFilter(3)]))
    if page.size != size:
        kinds = [Image.Resampling.BOX, Image.Resampling.BILINEAR, Image.Resampling.LANCZOS]
        page = page.resize(size, rng.choice(kinds))
    if rng.random() < 0.25:  # scanned coarsely, shown larger
        share = 1 - harm * rng.uniform(0.05, 0.4)
        page = page.resize((round(size[0] * share), round(size[1] * share)), Image.Resampling.BILINEAR)
        page = page.resize(size, Image.Resampling.BICUBIC)
    if rng.random() < 0.4:
        page = page.filter(ImageFilter.GaussianBlur(harm * rng.uniform(0.2, 0.9)))
    ink = _worn_ink(1 - np.asarray(page, np.float32) / 255, rng, harm)
    paper = rng.uniform(170, 255) if rng.random() < 0.6 else 255.0
    dark = rng.uniform(0, paper - 50 if rng.random() < 0.3 else 70)
    grey = np.clip(paper + (dark - paper) * np.clip(ink, 0, 1), 0, 255).astype(np.uint8)
    page = Image.fromarray(255 - grey if rng.random() < 0.12 else grey)
    if rng.random() < 0.45:
        buffer = io.BytesIO()
        page.save(buffer, "JPEG", quality=rng.randint(20 + round(30 * (1 - harm)), 90))
        page = Image.open(buffer).convert("L")
    return page


def _worn_ink(ink: NDArray[Any], rng: random.Random, harm: float) -> NDArray[Any]:
    """Uneven, in dots, with noise, in black and white, with specks; each now and then."""
    noise, (height, width) = np.random.default_rng(rng.getrandbits(32)), ink.shape
    worn = ink
    if rng.random() < 0.2:
        cells = [max(2, side // rng.randint(3, 40)) for side in (height, width)]
        clouds = Image.fromarray(noise.random(cells, np.float32)).resize((width, height))
        worn = worn * (1 - np.asarray(clouds) * harm * rng.uniform(0.2, 0.9))
    if rng.random() < 0.04 and harm > 0.7:
        wave = [0.5 + 0.5 * np.cos(np.arange(side) * 2.5) for side in (height, width)]
        worn = worn * (1 - harm * rng.uniform(0.2, 0.8) * (1 - np.sqrt(wave[0][:, None] * wave[1])))
    if rng.random() < 0.5:
        worn = worn + noise.standard_normal(ink.shape, np.float32) * harm * rng.uniform(0, 0.1)
    if rng.random() < 0.25:
        worn = 1 / (1 + np.exp(-(worn - rng.uniform(0.3, 0.6)) * rng.uniform(6, 10 + 30 * harm)))
    if rng.random() < 0.1:
        specks = noise.random(ink.shape, np.float32) < harm * rng.uniform(0, 0.008)
        worn = np.where(specks, rng.random() < 0.6, worn)
    return worn


def drawn_pictures(faces: Sequence[Path], rng: random.Random) -> Iterator[Labelled]:
    """Without end."""
    words, rare = word_lists()
    while True:
        page, lines = drawn(rng, rng.choice(faces), words, rare)
        grey = np.asarray(page)
        for line in lines:
            at = 0
            for word in line.text.split():
                # as the reader tells where a word is: anywhere in it, and its size give or take
                x = rng.uniform(line.left[at], line.right[at + len(word) - 1])
                em = line.em * float(np.exp(rng.gauss(0, 0.1)))
                place = word_at(grey, x, line.y + rng.gauss(0, 0.15) * em, em)
                yield from _labelled(page, place, [line])
                at += len(word) + 1


def _labelled(page: Image.Image, place: Place | None, lines: Sequence[Line]) -> Iterator[Labelled]:
    """The picture of a place with what the one line there says."""
    if place is None:
        return
    left, top, right, bottom = place
    em, y = (bottom - top) / 1.5, (top + bottom) / 2
    here = [line for line in lines if abs(line.y - y) < 0.5 * line.em and 0.6 < line.em / em < 1.6]
    here = [line for line in here if line.left.min() < right and line.right.max() > left]
    label = here[0].says(left, right) if len(here) == 1 else None
    if label and (picture := picture_of(page, place)).shape[1] <= WIDEST:
        yield picture, label


def real_pictures(pdfs: Sequence[Path], per_file: int, rng: random.Random) -> Iterator[Labelled]:
    """Places where the reader saw something, on worn pages; their text layers say what stands there."""
    import pypdfium2

    from vsplade.encode import load_encoder

    reader = load_encoder("reader:meaning=false")
    assert isinstance(reader, ReaderEncoder)
    for path, number, edge in page_jobs(pdfs, per_file, (900, 1536), rng.getrandbits(32)):
        sheet = pypdfium2.PdfDocument(path)[number]
        scale = edge / max(sheet.get_size())
        page = sheet.render(scale=scale, grayscale=True).to_pil().convert("L")
        lines = lines_of(characters_of(sheet, scale))
        if not lines:
            continue
        cells = reader.cells.read(page)
        page = worn(page, page.size, rng, rng.choice([0.3, 0.5, 0.8]))
        grey, seen = np.asarray(page), set()
        rows = np.flatnonzero(cells.probability[:, 0] > 0.1).tolist()
        for row in rng.sample(rows, min(A_PAGE, len(rows))):
            em = float(np.clip(cells.em[row], *TYPE) * cells.pixel[row, 1] * page.height)
            x, y = (cells.middle[row] * page.size).tolist()
            place = word_at(grey, x, y, em)
            ends = place and (round(place[0] / 3), round(place[2] / 3), round(y / em))
            if ends not in seen:
                seen.add(ends)
                yield from _labelled(page, place, lines)


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
