"""Rare words, numbers and codes: cut from the page, spelled, and put in the place of what was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, ImageOps

from vsplade.encode import load_encoder
from vsplade.encode.reader.detect import Cells
from vsplade.encode.reader.reader import OTHER_SPELLER, SPELLED, ReaderEncoder
from vsplade.encode.reader.reader_queries import ReaderOptions
from vsplade.encode.reader.spelling import LETTERS, Speller, decoded, spelled_as
from vsplade.encode.reader.word_crops import HEIGHT, picture_of
from vsplade.encode.reader.word_ends import word_at
from vsplade.encode.tokenizer import Tokenizer
from vsplade.types import FOUND, Page

LINE = "Order KX-4821 of Zembrawick and Sons, 17,305.60 paid"
TOKENIZER = Tokenizer.load()


def line(text: str, size: int = 22, width: int = 900) -> Image.Image:
    page = Image.new("L", (width, 120), 255)
    ImageDraw.Draw(page).text((30, 40), text, 0, ImageFont.load_default(size))
    return page


def ends(text: str, word: str, size: int = 22) -> tuple[float, float]:
    font = ImageFont.load_default(size)
    left = 30 + font.getlength(text[: text.index(word)])
    return left, left + font.getlength(word)


class Says:
    """A network that reads the same from every picture, so surely."""

    def __init__(self, text: str, chance: float = 1.0) -> None:
        self.numbers, self.chance = [LETTERS.index(letter) + 1 for letter in text], chance

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(shape=["words", 1, HEIGHT, "width"])]

    def run(self, _: None, given: dict[str, NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        words, _, height, width = given["pictures"].shape
        assert height == HEIGHT
        assert given["pictures"].max() <= 1
        chances = np.zeros((words, len(LETTERS) + 1, width // 2), np.float32)
        chances[:, 0] = 1.0
        for frame, number in enumerate(self.numbers):
            chances[:, :, 2 * frame] = 0.0
            chances[:, number, 2 * frame] = self.chance
        return [chances]


def cells(*read: tuple[str, float, float], size: tuple[int, int] = (900, 120)) -> Cells:
    """Terms with the places of their middles on a line, and their chances."""
    pixel = np.array([[1 / size[0], 1 / size[1]]] * len(read), np.float32)
    middle = np.array([(x, 53) for _, x, _ in read], np.float32) * pixel
    terms = [TOKENIZER.term(token) for token, _, _ in read]
    chance = np.array([[chance, 0] for _, _, chance in read], np.float32)
    em = np.full(len(read), 20, np.float32)
    return Cells(middle, pixel, chance, np.array([[term, 0] for term in terms], np.int32), em, chance[:, 0])


def counts(read: Cells) -> dict[str, float]:
    found = np.bincount(read.term.ravel(), read.probability.ravel(), len(TOKENIZER))
    return {TOKENIZER.token(term): round(float(found[term]), 3) for term in np.flatnonzero(found).tolist()}


@pytest.mark.parametrize("word", ["KX-4821", "Zembrawick", "17,305.60"])
@pytest.mark.parametrize("invert", [False, True])
def test_a_word_is_cut_at_the_gaps_around_it(word: str, invert: bool) -> None:
    page = ImageOps.invert(line(LINE)) if invert else line(LINE)
    left, right = ends(LINE, word)
    place = word_at(np.asarray(page), (left + right) / 2 + 8, 57, 22)
    assert place is not None
    assert abs(place[0] - left) < 6
    assert abs(place[2] - right) < 6
    picture = picture_of(page, place)
    assert len(picture) == HEIGHT
    assert picture.max() == 255  # ink, whatever its colour was
    assert np.median(picture) == 0


def test_where_no_ink_or_no_gap_is_there_is_no_word() -> None:
    assert word_at(np.full((90, 400), 255, np.uint8), 200, 45, 20) is None
    assert word_at(np.asarray(line("m" * 60)), 400, 53, 22) is None
    assert word_at(np.asarray(line("word")), 5000, 53, 22) is None


def test_a_word_at_the_edge_is_filled_up_with_paper() -> None:
    page = line("KX-4821").crop((28, 48, 140, 62))
    assert picture_of(page, (-4.0, -8.0, 110.0, 22.0)).shape[0] == HEIGHT


def test_print_in_letters() -> None:
    assert spelled_as("Café 7 – H’s (20%)") == "cafe 7 - h's (20~)"


def test_a_letter_counts_once_however_many_frames_it_has() -> None:
    chances = np.full((2, len(LETTERS) + 1, 9), 0.001, np.float32)
    chances[:, 4, 7:] = 0.5  # beyond the picture
    for frame, number in enumerate([0, 2, 2, 0, 2, 3, 3]):
        chances[:, number, frame] = 0.9
    for found, letters, count in zip(decoded(chances, [7, 4]), ["aab", "a"], [7, 4], strict=True):
        assert found.letters == letters
        assert list(found.frames) == [1, 4, 5][: len(letters)]
        assert found.certainty == pytest.approx(0.9**count)


@pytest.mark.parametrize(
    ("letters", "zero", "said"),
    [
        ("st0oo14", 0.05, "st00014"),
        ("9d/oq", 0.05, "90/oq"),
        ("st0oo14", 0.01, "st0oo14"),
        ("odd", 0.3, "odd"),
    ],
)
def test_a_round_letter_beside_a_digit_is_a_zero_if_it_may_be_one(
    letters: str, zero: float, said: str
) -> None:
    chances = np.zeros((1, len(LETTERS) + 1, 2 * len(letters)), np.float32)
    chances[:, 0] = 1.0
    for at, letter in enumerate(letters):
        chances[0, [0, LETTERS.index("0") + 1, LETTERS.index(letter) + 1], 2 * at] = 0, zero, 0.6
    (found,) = decoded(chances, [chances.shape[2]])
    assert found.letters == said
    assert list(found.frames) == list(range(0, chances.shape[2], 2))
    changed = sum(new != old for new, old in zip(said, letters, strict=True))
    odds = 30 * zero
    assert found.certainty == pytest.approx(
        0.6 ** (len(letters) - changed) * (odds / (odds + 0.6)) ** changed
    )


def test_each_word_is_cut_once_and_no_more_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    speller = Speller(Says("camry"), TOKENIZER)
    words = ["KX-4821", "Zembrawick", "17,305.60"]
    middles = [sum(ends(LINE, word)) / 2 + shift for word in words for shift in (-6, 6)]
    doubtful = cells(*(("canary", x, 0.5 + 0.01 * at) for at, x in enumerate(middles)))
    found = speller.places(line(LINE), doubtful)
    assert sorted(round(sum(place[::2]) / 2, -1) for _, place in found) == sorted(
        round(sum(ends(LINE, word)) / 2, -1) for word in words
    )
    monkeypatch.setattr("vsplade.encode.reader.spelling.MOST", 2)
    assert speller.places(line(LINE), doubtful) == found[:2]


def test_numbers_that_are_none_are_no_place() -> None:
    page = np.asarray(line(LINE))
    for x, y, em in [(np.nan, 53, 20), (60, np.inf, 20), (60, 53, np.nan), (-1e300, 53, 20), (60, 53, 1e300)]:
        assert word_at(page, x, y, em) is None


def test_a_sure_spelling_takes_the_place_of_what_was_read() -> None:
    middle = sum(ends(LINE, "Zembrawick")) / 2
    before = cells(("canary", middle, 0.4), ("order", 60, 0.95))
    after = counts(Speller(Says("camry"), TOKENIZER).look_again(line(LINE), before))
    assert after["cam##"] == after["##ry"] == 1
    assert after["canary"] < 0.4
    assert after["order"] == pytest.approx(0.95)


@pytest.mark.parametrize("network", [Says("camry", 0.5), Says("~"), Says("")])
def test_an_unsure_or_empty_one_changes_nothing(network: Any) -> None:
    before = cells(("canary", sum(ends(LINE, "Zembrawick")) / 2, 0.4))
    assert counts(Speller(network, TOKENIZER).look_again(line(LINE), before)) == counts(before)


def test_sure_words_are_not_looked_at_again() -> None:
    speller = Speller(Says("camry"), TOKENIZER)
    sure = cells(("canary", sum(ends(LINE, "Zembrawick")) / 2, 0.9))
    assert speller.places(line(LINE), sure) == []
    assert speller.look_again(line(LINE), sure) is sure


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    return ReaderEncoder(ReaderOptions(meaning=False))


@pytest.mark.parametrize("word", ["KX-4821", "Zembrawick", "17,305.60"])
def test_the_page_then_holds_the_whole_word(reader: ReaderEncoder, word: str) -> None:
    (vector,) = reader.encode_pages([Page(id="p", image=line(LINE), path="p.png")])
    (asked,) = reader.query_words(word)
    assert asked.on(vector.weight_bits()) == FOUND


def test_what_cannot_be_read_is_not_spelled(reader: ReaderEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReaderEncoder, "_is_legible", lambda *_: False)
    monkeypatch.setattr(Speller, "look_again", lambda *_: pytest.fail("was spelled"))
    reader.read(line(LINE))


def test_an_index_made_before_gets_pages_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = load_encoder("reader:meaning=false")
    assert isinstance(reader, ReaderEncoder)
    former = next(one for one in reader.former() if one.revision < SPELLED)
    assert former.fingerprint != reader.fingerprint
    monkeypatch.setattr(Speller, "look_again", lambda *_: pytest.fail("was spelled"))
    former.read(line(LINE))


@pytest.mark.parametrize("point", ["quality", "efficient"])
def test_an_index_that_another_speller_filled_is_still_known(point: str) -> None:
    former = ReaderEncoder(ReaderOptions(point=point, meaning=False)).former()
    known = {one.revision: one.fingerprint for one in former}
    assert len(set(known.values())) == len(known)
    for revision, names in OTHER_SPELLER.items():
        assert known[revision] in names.values()


def test_places_anywhere_are_cut_or_passed_over() -> None:
    """Also beside the page, at its edges, and for type that is larger than the page."""
    rng = np.random.default_rng(0)
    grey = Image.fromarray(rng.integers(0, 256, (37, 53), dtype=np.uint8))
    pixels, cut = np.asarray(grey), 0
    for _ in range(1000):
        x, y, em = rng.uniform(-5, 60), rng.uniform(-5, 45), float(rng.choice([0.5, 2, 8, 30, 200]))
        place = word_at(pixels, x, y, em)
        if place is not None:
            cut += 1
            assert picture_of(grey, place).shape[0] == HEIGHT
    assert 100 < cut < 1000
