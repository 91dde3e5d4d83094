"""Parts that are looked at again: words on end, tiny type beside larger type, type in next to no contrast."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from test_reader import WORDS, page, share_read, sheet

from vsplade.encode import load_encoder
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.second_look import part_of, stretched

LABEL = "copper kettle"


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    encoder = load_encoder("reader:meaning=false")
    assert isinstance(encoder, ReaderEncoder)
    return encoder


@pytest.mark.parametrize("turn", [Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270])
def test_words_on_end_are_read_where_they_stand(reader: ReaderEncoder, turn: Image.Transpose) -> None:
    picture = Image.new("L", (1000, 900), 255)
    picture.paste(sheet(WORDS, 20, 800, 300), (180, 0))
    label = sheet(LABEL, 20, 300, 100).crop((30, 30, 260, 80)).transpose(turn)
    picture.paste(label, (60, 500))
    vector, boxes = reader.encode_with_places(page(picture))
    for word in LABEL.split():
        (term,) = reader.vocabulary.encode(word)  # type: ignore[attr-defined]
        box = boxes[vector.terms.tolist().index(term)]
        middle = (box.left + box.right) / 2 * 1000, (box.top + box.bottom) / 2 * 900
        assert 60 <= middle[0] <= 60 + label.width
        assert 500 <= middle[1] <= 500 + label.height


def test_a_page_on_its_side_is_still_turned(reader: ReaderEncoder) -> None:
    """Its single lines are narrow parts, too."""
    upright = sheet("\n".join(WORDS.split()[:12]), 22, 500, 700)
    whole = reader.encode_with_places(page(upright))[0]
    turned = reader.encode_with_places(page(upright.transpose(Image.Transpose.ROTATE_90)))[0]
    assert len(set(whole.terms.tolist()) & set(turned.terms.tolist())) > 0.8 * len(whole.terms)


def test_tiny_type_below_larger_type(reader: ReaderEncoder) -> None:
    small = "sturdy copper kettle beside wooden garden bridge under silver winter morning"
    picture = Image.new("L", (1300, 1300), 255)
    picture.paste(sheet(WORDS, 24, 1200, 500), (50, 0))
    picture.paste(sheet(small, 9, 500, 100), (50, 1000))
    assert share_read(reader, picture, small) > 0.9
    assert share_read(reader, picture, WORDS) > 0.9


@pytest.mark.parametrize(("ink", "paper"), [(215, 230), (140, 124)])
def test_next_to_no_contrast(reader: ReaderEncoder, ink: int, paper: int) -> None:
    assert share_read(reader, sheet(WORDS, 18, ink=ink, paper=paper), WORDS) > 0.9


def test_only_pages_in_next_to_no_contrast_are_stretched() -> None:
    for plain in (sheet(WORDS), Image.new("L", (50, 50), 200), Image.new("L", (1, 1), 0)):
        assert stretched(plain) is plain
    faint = sheet(WORDS, ink=200, paper=230)
    levels = np.asarray(stretched(faint))
    assert (levels.max(), levels.min()) == (255, 135)


def test_a_look_at_some_rows_tells_the_same_as_all_of_them() -> None:
    """Dark and light specks in rows that are not looked at first count, too."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = sorted(rng.integers(0, 256, 2).tolist())
        pixels = rng.integers(low, high + 1, (80, 60)).astype(np.uint8)
        for level in rng.integers(0, 256, 3):
            pixels[rng.integers(0, 80), : rng.integers(0, 60)] = level
        few = 0.0002 * pixels.size
        least = next(level for level in range(256) if (pixels <= level).sum() > few)
        most = next(level for level in range(256) if (pixels > level).sum() <= few)
        picture = Image.fromarray(pixels)
        assert (stretched(picture) is picture) == (not 0 < most - least < 64)


def test_a_part_has_the_detail_of_the_picture() -> None:
    picture = Image.effect_noise((2000, 1000), 50)
    part, begin = part_of(picture, (1000, 500), (2, 4, 10, 200), 1.5)
    assert begin == (48, 24)
    assert part.size == ((1000 - 32) * 1.5, 64 * 1.5)
    expected = picture.crop((64, 32, 2000, 160)).resize(part.size, Image.Resampling.LANCZOS)
    assert np.abs(np.asarray(part, float) - np.asarray(expected, float)).mean() < 2
