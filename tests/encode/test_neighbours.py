"""Words that stand side by side, in queries and on pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from vsplade.encode import load_encoder
from vsplade.encode.hash_bits import CHECK
from vsplade.encode.reader.bigrams import PAIRS, Neighbours, hashed, hashed_pair
from vsplade.encode.reader.detect import Cells
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.search.hashed_search import word_score
from vsplade.types import FOUND, IN_PART, NOT_FOUND, Page, SparseVector, shown

TOKENIZER = Tokenizer.load()
EM = 12.0


@pytest.fixture(scope="module")
def neighbours() -> Neighbours:
    return Neighbours(TOKENIZER, np.ones(len(TOKENIZER), bool), 1.3)


def word(text: str) -> int:
    (term,) = TOKENIZER.encode(text)
    return term


def cells(*words: tuple[str, float, float], em: float = EM, pixel: float = 1e-3) -> Cells:
    """One cell for each (word, x, y in px), read for certain."""
    middle = np.array([(x * pixel, y * pixel) for _, x, y in words], np.float32).reshape(-1, 2)
    terms = np.array([[word(text), 0] for text, _, _ in words], np.int32).reshape(-1, 2)
    chance = np.tile(np.array([[1.0, 0.0]], np.float32), (len(words), 1))
    ones = np.ones(len(words), np.float32)
    return Cells(middle, np.full((len(words), 2), pixel, np.float32), chance, terms, ones * np.float32(em))


def found(neighbours: Neighbours, page: Cells) -> set[str]:
    return {str(neighbours.shown(int(number))) for number in neighbours.on_page(page).pairs.number}


@pytest.mark.parametrize(("digits", "is_whole"), [(4, True), (9, True), (13, True), (18, False)])
def test_a_long_number_is_whole_though_its_middle_is_not_read(
    neighbours: Neighbours, digits: int, is_whole: bool
) -> None:
    number = "12345678901234567890"[:digits]
    pieces = tuple(TOKENIZER.encode(number))
    page = cells(("of", 60, 30), ("of", 60 + 0.634 * EM * (digits - min(3, digits // 2)), 30))
    page.term[:, 0] = pieces
    (hash,) = neighbours.whole(pieces)
    assert (hash in neighbours.on_page(page).whole.hash) == is_whole


def test_the_numbers_of_pairs_never_change() -> None:
    numbers = hashed(np.array([1, 2, 30_719, 5]), np.array([2, 1, 30_719, 5]))
    assert (numbers >> CHECK).tolist() == [23174, 26718, 8606, 8101]


@given(st.lists(st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)), min_size=1, max_size=50))
def test_numbers_lie_behind_the_vocabulary(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs).T
    numbers = hashed(left, right)
    assert ((numbers >> CHECK >= 0) & (numbers >> CHECK < PAIRS)).all()
    assert numbers.tolist() == [hashed_pair(*pair) for pair in pairs]


def test_pairs_spread_over_all_numbers() -> None:
    left, right = np.divmod(np.arange(200_000), 447)
    counts = np.bincount(hashed(left, right) >> CHECK, minlength=PAIRS)
    assert counts.max() < 25, "200,000 pairs, 6 a number"
    assert (counts == 0).mean() < 0.01


def test_a_line_of_words_has_pairs_of_neighbours_only(neighbours: Neighbours) -> None:
    page = cells(("interest", 30, 50), ("rate", 70, 50), ("policy", 105, 50))
    assert found(neighbours, page) == {"interest rate", "rate policy"}


@pytest.mark.parametrize("place", [(70, 62), (170, 50), (70, 38), (-20, 50)])
def test_no_pair_across_lines_or_columns_or_backwards(
    neighbours: Neighbours, place: tuple[float, float]
) -> None:
    page = cells(("interest", 30, 50), ("rate", *place))
    assert "interest rate" not in found(neighbours, page)


def columns(page: Cells) -> list[np.ndarray]:
    """Those that are there: whether a word stands at all is not kept here."""
    return [column for column in vars(page).values() if column is not None]


def test_no_pair_of_a_heading_and_small_type(neighbours: Neighbours) -> None:
    large, small = cells(("interest", 30, 50), em=24), cells(("rate", 80, 50), em=12)
    page = Cells(*(np.concatenate(both) for both in zip(columns(large), columns(small), strict=True)))
    assert not found(neighbours, page)


def test_no_pair_across_copies_of_the_page(neighbours: Neighbours) -> None:
    one, other = cells(("interest", 30, 50)), cells(("rate", 70, 50), pixel=2e-3)
    page = Cells(*(np.concatenate(both) for both in zip(columns(one), columns(other), strict=True)))
    assert not found(neighbours, page)


def test_chances_multiply_and_add_up(neighbours: Neighbours) -> None:
    page = cells(("interest", 30, 50), ("rate", 70, 50), ("interest", 30, 90), ("rate", 70, 90))
    page.probability[:] *= np.array([[0.5], [0.8], [1.0], [0.3]], np.float32)
    numbers, counts = neighbours.on_page(page).pairs.counts()
    assert len(numbers) == 1
    assert counts[0] == pytest.approx(0.5 * 0.8 + 0.3, rel=1e-5)


def test_pieces_go_with_pieces(neighbours: Neighbours) -> None:
    """The end of a word is a neighbour of its beginning, and not of a whole word before it."""
    begin, end = (TOKENIZER.term(token) for token in ("tox##", "##logy"))
    assert begin is not None
    assert end is not None
    page = cells(("rate", 20, 50), ("rate", 50, 50), ("rate", 85, 50))
    page.term[1, 0], page.term[2, 0] = begin, end
    assert found(neighbours, page) == {"rate tox##", "tox## ##logy"}


def test_an_empty_page_has_none(neighbours: Neighbours) -> None:
    assert len(neighbours.on_page(cells()).pairs.number) == 0


@pytest.mark.parametrize(("gap", "together"), [(1.3, False), (2.8, True)])
def test_a_short_word_may_stand_between(gap: float, together: bool) -> None:
    some = Neighbours(TOKENIZER, np.ones(len(TOKENIZER), bool), gap)
    page = cells(("interest", 30, 50), ("in", 70, 50), ("rate", 96, 50))
    assert ("interest rate" in found(some, page)) == together


def test_light_words_have_no_neighbours() -> None:
    heavy = np.ones(len(TOKENIZER), bool)
    heavy[word("the")] = False
    some = Neighbours(TOKENIZER, heavy, 1.3)
    for text in ("the interest rate", "interest the rate"):
        (hash,) = some.in_text(TOKENIZER.encode(text))
        assert some.shown(hash >> CHECK) == "interest rate"
    assert not some.in_text(TOKENIZER.encode("the interest"))
    assert not some.in_text([])


def test_a_page_full_of_noise_is_gone_through_in_parts(neighbours: Neighbours) -> None:
    """As many cells as a page can have, each with two terms: time and memory stay in bounds."""
    columns, rows = np.meshgrid(np.arange(192), np.arange(192))
    middle = np.stack([columns.ravel() * 8 + 4, rows.ravel() * 8 + 4], 1) / np.float32(1536)
    n = len(middle)
    terms = np.random.default_rng(0).integers(0, len(TOKENIZER), (n, 4)).astype(np.int32)
    pixel = np.full((n, 2), 1 / 1536, np.float32)
    page = Cells(
        middle.astype(np.float32), pixel, np.full((n, 4), 0.2, np.float32), terms, np.full(n, 8.0, np.float32)
    )
    assert len(neighbours.on_page(page).pairs.number) > n


@pytest.fixture(scope="module")
def reader() -> ReaderEncoder:
    encoder = load_encoder("reader")
    assert isinstance(encoder, ReaderEncoder)
    return encoder


def picture(*lines: str) -> Page:
    image = Image.new("L", (800, 400), 255)
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((40, 40 + 60 * row), line, 0, font=ImageFont.load_default(22))
    return Page("page", image, "page.png", 1)


def test_side_by_side_scores_higher_than_apart(reader: ReaderEncoder) -> None:
    query = reader.encode_query("interest rate")
    asked = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
    together, apart = reader.encode_pages(
        [picture("The interest rate", "rose last year"), picture("The interest rose", "last year rate")]
    )

    def score(page: SparseVector) -> float:
        return sum(
            w * asked.get(t, 0.0) for t, w in zip(page.terms.tolist(), page.weights.tolist(), strict=True)
        )

    assert score(together) > 1.15 * score(apart)


def test_the_heaviest_terms_of_a_page_are_single_words(reader: ReaderEncoder) -> None:
    (vector,) = reader.encode_pages([picture("The interest rate of central banks", "rose sharply last year")])
    words = vector.terms < len(TOKENIZER)
    assert (~words).any()
    sure = vector.weights[words] > 0.4
    assert sure.sum() >= 8
    assert vector.weights[~words].max() < vector.weights[words][sure].min()


def test_the_efficient_point_has_no_pairs() -> None:
    (vector,) = load_encoder("reader:point=efficient").encode_pages([picture("The interest rate of banks")])
    assert len(vector)
    assert (vector.terms < len(TOKENIZER)).all()


def test_a_pair_has_a_name_and_a_place_around_both_words(reader: ReaderEncoder) -> None:
    vector, boxes = reader.encode_with_places(picture("interest rate"))
    assert len(boxes) == len(vector)
    named = {shown(reader.vocabulary, int(term)): box for term, box in zip(vector.terms, boxes, strict=True)}
    both, left, right = named["interest rate"], named["interest"], named["rate"]
    assert both == left.around(right)
    (pair,) = (int(term) for term in vector.terms if shown(reader.vocabulary, int(term)) == "interest rate")
    assert reader.vocabulary.token(pair) == f"~{pair - len(TOKENIZER)}", (
        "a name for files does not depend on what came by"
    )


@pytest.mark.parametrize(("chance", "status"), [(0.9, FOUND), (0.42, IN_PART), (0.2, NOT_FOUND)])
def test_a_doubtful_number_counts_and_is_not_told_as_found(chance: float, status: str) -> None:
    encoder = load_encoder("reader:meaning=false")
    assert isinstance(encoder, ReaderEncoder)
    page = cells(("14", 30, 50), ("58", 46, 50))
    page = Cells(page.middle, page.pixel, page.probability * np.float32(chance), page.term, page.em)
    vector, query = encoder._pool(page), encoder.encode_query("14/58")
    (asked,) = encoder.query_words("14/58")
    (mark,) = (mark for mark in asked.wholes[0] if mark.mask)
    assert (mark.term in vector.terms) == (status != NOT_FOUND)
    assert (word_score(query, vector) > 10) == (status != NOT_FOUND)
    if status != NOT_FOUND:
        assert asked.on(vector.weight_bits()) == status
