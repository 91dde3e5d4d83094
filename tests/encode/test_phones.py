"""Telephone numbers, days and sums find each other, however they are written: in texts and from pixels."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reader import page, sheet

from vsplade.encode import load_encoder
from vsplade.encode.phones import joined_phones, other_grouping
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.text import TextEncoder
from vsplade.search.syntax import parse

WAYS = ["(212) 555-0199", "(212)555-0199", "212-555-0199", "212 555 0199", "212.555.0199", "212/555-0199"]
NUMBERS = [
    [*WAYS[1:4], "2125550199"],
    ["25/12/2018", "25-12-2018", "2018-12-25"],
    ["4,077,010.89", "4077010.89", "$4,077,010.89"],
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("country", "left"), [("", ""), ("+1 ", "1 "), ("1-", "1 "), ("+1", "1 ")])
def test_one_way_to_write_them(way: str, country: str, left: str) -> None:
    assert joined_phones(f"call {country}{way}, or not") == f"call {left}212-555-0199, or not"


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("+44 (0)20 7946 0958", "44 20-7946-0958"),
        ("+49 30 901820", "49 30-901820"),
        ("+3 12 34", "+3 12 34"),
        ("200 300 400", "200 300 400"),
        ("3.212.555.0199", "3.212.555.0199"),
        ("1990 1995 2000", "1990 1995 2000"),
    ],
)
def test_other_countries_and_other_numbers(text: str, joined: str) -> None:
    assert joined_phones(text) == joined


@given(st.text(alphabet="125+-. ()x", max_size=40))
def test_digits_stay_in_order_and_once_is_enough(text: str) -> None:
    joined = joined_phones(text)
    assert joined_phones(joined) == joined
    kept = iter(char for char in text if char.isalnum())
    assert all(char in kept for char in joined if char.isalnum())


def test_one_run_or_three() -> None:
    assert other_grouping(("2125550199",)) == ("212", "555", "0199")
    assert other_grouping(("212", "555", "0199")) == ("2125550199",)
    assert other_grouping(("21", "2555", "0199")) is other_grouping(("1125550199",)) is None


def test_its_signs_are_no_operators() -> None:
    parsed = parse("+1 (212) 555-0199")
    assert (parsed.text, parsed.plain, parsed.notes) == ("1 212-555-0199", True, ())
    assert parse("+harbour (212) 555-0199").must == ("harbour",)


@pytest.mark.parametrize(("written", "asked"), product(WAYS, WAYS))
def test_texts_find_each_other(written: str, asked: str) -> None:
    exact, reader = TextEncoder(), load_encoder("reader")
    assert isinstance(reader, ReaderEncoder)
    for encoder, vector in ((exact, exact.encode_text(written)), (reader, reader.weigh_text(written))):
        (word,) = encoder.query_words(asked)
        assert word.on(vector.weight_bits()) == "found"


@pytest.mark.parametrize("written", [way for ways in NUMBERS for way in ways])
def test_pages_are_found_from_pixels(written: str) -> None:
    reader = load_encoder("reader")
    text = f"Please call the harbour office {written} before noon"
    (vector,) = reader.encode_pages([page(sheet(text, 14, 900, 200))])
    for asked in next(ways for ways in NUMBERS if written in ways):
        (word,) = reader.query_words(asked)
        assert word.on(vector.weight_bits()) == "found", asked
