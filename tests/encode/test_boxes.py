"""Boxes of words: drawn text, whose true place Pillow knows."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from vsplade.encode.reader.boxes import box_on_ink
from vsplade.types import Box

SIZE = (900, 300)
Sides = tuple[float, float, float, float]


def line(
    before: str, word: str, after: str, size: float, ink: int = 0, paper: int = 255
) -> tuple[np.ndarray, Sides]:
    """A picture of the three in a row, and where the word is on it."""
    image = Image.new("L", SIZE, paper)
    font, pen = ImageFont.load_default(size), ImageDraw.Draw(image)
    pen.text((60, 100), f"{before} {word} {after}", fill=ink, font=font)
    left = 60 + font.getlength(f"{before} ")
    top, bottom = (100 + edge for edge in pen.textbbox((0, 0), "bgpd", font=font)[1::2])
    return np.asarray(image), (left, top, left + font.getlength(word), bottom)


def overlap(box: Box, true: Sides) -> float:
    """Intersection over union."""
    sides = np.array([box.left, box.top, box.right, box.bottom]) * np.array([*SIZE, *SIZE])
    inner = np.minimum(sides[2:], true[2:]) - np.maximum(sides[:2], true[:2])
    shared = float(np.prod(np.maximum(inner, 0)))
    areas = np.prod(sides[2:] - sides[:2]) + (true[2] - true[0]) * (true[3] - true[1])
    return shared / float(areas - shared)


def boxed(
    picture: np.ndarray, word: str, true: Sides, em: float, off: tuple[float, float], zoom: float = 1
) -> Box:
    """From a middle that is wrong by ``off`` pixels, read on a copy of 1 / ``zoom`` of the size."""
    middle = np.array([(true[0] + true[2]) / 2 + off[0], (true[1] + true[3]) / 2 + off[1]])
    pixel = zoom / np.array(SIZE)
    return box_on_ink(picture, word, middle / np.array(SIZE), pixel, em / zoom)


@pytest.mark.parametrize("word", ["on", "till", "harbour", "lighthouse", "1987", "mammoth"])
@pytest.mark.parametrize("off", [(0, 0), (4, -4), (-4, 4)])
def test_the_ink_corrects_middle_and_width(word: str, off: tuple[float, float]) -> None:
    picture, true = line("every", word, "counted", 22)
    assert overlap(boxed(picture, word, true, 20, off), true) > 0.65


@pytest.mark.parametrize("em", [18.0, 24.0])
def test_the_size_may_be_wrong_by_a_tenth(em: float) -> None:
    picture, true = line("every", "lighthouse", "counted", 22)
    box = boxed(picture, "lighthouse", true, em, (3, -3))
    assert box.left * SIZE[0] == pytest.approx(true[0], abs=3)
    assert box.right * SIZE[0] == pytest.approx(true[2], abs=3)
    assert (box.bottom - box.top) * SIZE[1] == pytest.approx(1.2 * em)


def test_light_on_dark_is_the_same() -> None:
    dark, true = line("every", "lighthouse", "counted", 22, ink=235, paper=30)
    light, _ = line("every", "lighthouse", "counted", 22)
    one, two = (boxed(picture, "lighthouse", true, 20, (4, 4)) for picture in (dark, light))
    for side in ("left", "top", "right", "bottom"):
        assert getattr(one, side) == pytest.approx(getattr(two, side), abs=0.005)


def test_large_type_is_read_on_a_small_copy() -> None:
    picture, true = line("a", "harbour", "x", 80)
    assert overlap(boxed(picture, "harbour", true, 72, (9, -9), zoom=2.5), true) > 0.65


def test_a_piece_within_a_word_is_as_wide_as_its_letters() -> None:
    """There is no gap to end at, so the widths of the letters tell."""
    picture, true = line("", "counterrevolutionaries", "", 22)
    box = boxed(picture, "##nn", true, 20, (0, 0))
    assert 20 < (box.right - box.left) * SIZE[0] < 80
    narrow, wide = (boxed(picture, letters, true, 20, (0, 0)) for letters in ("illi", "mwwm"))
    assert wide.right - wide.left > 2 * (narrow.right - narrow.left)


@pytest.mark.parametrize("middle", [(0.0, 0.0), (1.0, 1.0), (0.5, 0.0)])
def test_boxes_stay_on_the_page(middle: tuple[float, float]) -> None:
    blank = np.full((8, 8), 255, np.uint8)
    box = box_on_ink(blank, "harbour", np.array(middle), np.array([1 / 8, 1 / 8]), 1e6)
    assert 0 <= box.left < box.right <= 1
    assert 0 <= box.top < box.bottom <= 1
