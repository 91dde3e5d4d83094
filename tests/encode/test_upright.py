"""Pages that lie on their side, upside down or askew are read as if they did not."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from test_reader import PROSE, WORDS, page, share_read, sheet

from vsplade.encode import load_encoder
from vsplade.encode.reader.orientation import (
    AS_IT_IS,
    TOLERATED,
    Pose,
    Reading,
    WordPlaces,
    find_pose,
    is_askew,
    line_skew,
)
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import ReaderOptions
from vsplade.types import Box, SparseVector

TURNS = {1: Image.Transpose.ROTATE_270, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_90}
"""Quarters that bring a page upright again, and how it was turned."""


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    return ReaderEncoder(ReaderOptions())


def letter() -> Image.Image:
    return sheet(PROSE, 20, width=800, height=1000)


def leaning(angle: float) -> Image.Image:
    """A page with wide margins, as a scanner sees it that was fed askew."""
    whole = Image.new("L", (1000, 1000), 255)
    whole.paste(sheet(PROSE, 20, width=760, height=620), (120, 190))
    return whole.rotate(angle, Image.Resampling.BICUBIC, fillcolor=255)


def cosine(a: SparseVector, b: SparseVector) -> float:
    _, i, j = np.intersect1d(a.terms, b.terms, return_indices=True)
    return float(a.weights[i] @ b.weights[j] / (np.linalg.norm(a.weights) * np.linalg.norm(b.weights)))


@pytest.mark.parametrize("quarters", TURNS)
def test_a_turned_page_has_the_vector_of_the_upright_one(reader: ReaderEncoder, quarters: int) -> None:
    turned = letter().transpose(TURNS[quarters])
    pose, _ = reader.read_upright(turned)
    assert pose == Pose(quarters)
    upright, again = reader.encode_pages([page(letter()), page(turned)])
    assert np.array_equal(upright.terms, again.terms)
    assert np.array_equal(upright.weights, again.weights)


def test_large_type_is_turned_too(reader: ReaderEncoder) -> None:
    poster = sheet("harbour traffic report lighthouse keeper", 80, width=1000, height=700)
    assert reader.read_upright(poster.transpose(Image.Transpose.ROTATE_90))[0] == Pose(3)


@pytest.mark.parametrize(
    "image",
    [letter(), sheet(WORDS), sheet("harbour", 40), Image.new("L", (600, 800), 255)],
    ids=["letter", "lines", "word", "blank"],
)
def test_an_upright_page_is_not_looked_at_twice(
    reader: ReaderEncoder, monkeypatch: pytest.MonkeyPatch, image: Image.Image
) -> None:
    monkeypatch.setattr(ReaderEncoder, "_read_samples", lambda *_: 1 / 0)
    assert reader.read_upright(image)[0] == AS_IT_IS


def test_a_picture_without_words_stays_as_it_is(reader: ReaderEncoder) -> None:
    noise = np.random.default_rng(0).normal(128, 60, (90, 120)).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(noise).resize((960, 720), Image.Resampling.BICUBIC)
    assert reader.read_upright(picture)[0] == AS_IT_IS


def test_a_page_must_gain_by_a_turn() -> None:
    """As surely read, or less, in every other direction: it stays, however doubtful."""
    as_it_is = Reading(100, 30.0, 9.0, 15.0)
    assert as_it_is.may_be_turned

    def same(pictures: object) -> list[Reading]:
        return [Reading(20, 6.0, 1.8, 3.0)] * len(pictures)  # type: ignore[arg-type]

    def better(pictures: object) -> list[Reading]:
        return [Reading(20, 6.0, 1.8 if n < 2 else 4.2, 5.0) for n in range(len(pictures))]  # type: ignore[arg-type]

    words = WordPlaces(np.full((100, 2), 0.5), np.full(100, 0.3))
    assert find_pose(letter(), as_it_is, words, 1024, same) == AS_IT_IS
    assert find_pose(letter(), as_it_is, words, 1024, better) == Pose(2)


def test_doubt_about_which_word_it_is_may_come_from_a_turn() -> None:
    """And not doubt about whether words stand there: faint words, and pictures."""
    which, whether = Reading(100, 30.0, 9.0, 15.0), Reading(100, 30.0, 9.0, 9.5)
    assert which.is_doubtful
    assert whether.is_doubtful
    assert (which.may_be_turned, whether.may_be_turned) == (True, False)


def test_a_part_with_words_is_looked_at_and_not_a_photograph() -> None:
    picture = sheet("harbour", 20, width=1024, height=768)
    noise = np.random.default_rng(0).integers(0, 256, (400, 400), np.uint8)
    picture.paste(Image.fromarray(noise), (600, 300))
    seen: list[Sequence[Image.Image]] = []

    def read(pictures: Sequence[Image.Image]) -> list[Reading]:
        seen.append(pictures)
        return [Reading(9, 6.0, 5.0, 5.2), *[Reading(9, 1.0, 0.1, 0.3)] * (len(pictures) - 1)]

    words = WordPlaces(np.full((9, 2), 0.1), np.full(9, 0.3))
    assert find_pose(picture, Reading(9, 3.0, 0.9, 1.5), words, 1024, read) == AS_IT_IS
    (parts,) = seen
    assert all(np.asarray(part).mean() > 200 for part in parts)


@pytest.mark.parametrize("angle", [-15, -10, -7, 6, 9, 12, 15])
def test_the_angle_of_lines(angle: float) -> None:
    assert line_skew(leaning(angle), "across") == pytest.approx(angle, abs=0.5)
    on_its_side = leaning(angle).transpose(Image.Transpose.ROTATE_90)
    assert line_skew(on_its_side, "across", "down") == pytest.approx(angle, abs=0.5)
    assert is_askew(leaning(angle))


@pytest.mark.parametrize("angle", [-TOLERATED + 1, 0, TOLERATED - 1])
def test_lines_that_are_straight_enough(angle: float) -> None:
    assert not is_askew(leaning(angle))


@pytest.mark.parametrize("angle", [2, 5, -7, -10, 15])
def test_a_page_that_is_askew_loses_at_most_a_tenth(reader: ReaderEncoder, angle: float) -> None:
    straight = share_read(reader, leaning(0), PROSE)
    assert share_read(reader, leaning(angle), PROSE) >= 0.9 * straight


def test_on_its_side_and_askew(reader: ReaderEncoder) -> None:
    image = leaning(10).transpose(Image.Transpose.ROTATE_90)
    pose, _ = reader.read_upright(image)
    assert pose.quarters == 3
    assert pose.skew == pytest.approx(-10, abs=0.5)
    assert share_read(reader, image, PROSE) >= 0.85


@pytest.mark.parametrize(("quarters", "angle"), [(0, 0), (1, 0), (2, 0), (3, 0), (0, 10), (3, -8)])
def test_boxes_lie_on_the_page_as_it_is_shown(reader: ReaderEncoder, quarters: int, angle: float) -> None:
    image = leaning(0)
    font = ImageFont.load_default(28)
    ImageDraw.Draw(image).text((300, 720), "telephone", fill=0, font=font)
    mark = Image.new("L", image.size, 0)
    ImageDraw.Draw(mark).rectangle((300, 720, 440, 755), fill=255)
    if angle:
        image, mark = (
            one.rotate(angle, Image.Resampling.BICUBIC, fillcolor=paper)
            for one, paper in ((image, 255), (mark, 0))
        )
    if quarters:
        image, mark = (one.transpose(TURNS[quarters]) for one in (image, mark))
    image, mark = (one.crop((0, 60, 1000, 1000)) for one in (image, mark))  # not a square
    left, top, right, bottom = mark.getbbox() or (0, 0, 0, 0)
    vector, boxes = reader.encode_with_places(page(image))
    words = [reader.vocabulary.token(int(term)) for term in vector.terms]
    box = boxes[words.index("telephone")]
    assert box.left * image.width == pytest.approx(left, abs=16)
    assert box.right * image.width == pytest.approx(right, abs=16)
    assert box.top * image.height == pytest.approx(top, abs=16)
    assert box.bottom * image.height == pytest.approx(bottom, abs=16)


def test_a_box_turned_back_four_times_is_the_same() -> None:
    box = Box(0.1, 0.2, 0.4, 0.3)
    turned = box
    for _ in range(4):
        turned = Pose(1).box_on_page(turned, (300, 200))
    assert [turned.left, turned.top, turned.right, turned.bottom] == pytest.approx([0.1, 0.2, 0.4, 0.3])
    assert AS_IT_IS.box_on_page(box, (300, 200)) is box


def test_a_mixed_folder_is_found_whichever_way_its_pages_lie(tmp_path: Path) -> None:
    from vsplade.ingest import index_paths
    from vsplade.search.index import Index

    words = ["volcano", "mountain", "telephone", "orchestra", "bicycle"]
    folder = tmp_path / "scans"
    folder.mkdir()
    for number, word in enumerate(words):  # upright, three turned, one askew
        image = sheet(f"{word} {PROSE}", 18, height=400)
        if number in TURNS:
            image = image.transpose(TURNS[number])
        elif number:
            image = image.rotate(6, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
        image.save(folder / f"{word}.png")
    index_paths([folder], tmp_path / "index")
    index = Index.open(tmp_path / "index")
    for word in words:
        assert word in [hit.id for hit in index.search(word, k=1)], word


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_the_gpu_path_turns_the_same_pages() -> None:
    through_torch = load_encoder("reader:device=cpu:0,longest_edge=512")  # small, because it is slow here
    letter, askew = sheet(PROSE, 16, width=420, height=512), leaning(12).resize((512, 512))
    images = [letter, *(letter.transpose(turn) for turn in TURNS.values()), askew]
    upright, *turned, leant, blank = through_torch.encode_pages(
        [page(image) for image in (*images, Image.new("L", (300, 200), 255))]
    )
    assert len(upright) > 30
    for vector in turned:
        assert cosine(upright, vector) > 0.999
    assert len(leant) > 30
    assert len(blank) == 0
    poses = [through_torch.read_upright(image)[0] for image in images[2:]]  # type: ignore[attr-defined]
    assert [pose.quarters for pose in poses] == [2, 3, 0]
    assert poses[2].skew == pytest.approx(-12, abs=0.5)
