"""Words, numbers and codes as a whole: what stands together, on pages and in texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vsplade.encode import load_encoder
from vsplade.encode.dates import DayTerms, day_of, named_days
from vsplade.encode.hash_bits import CHECK, MASK, followed, follower_bits, split, stamped
from vsplade.encode.reader.bigrams import Neighbours
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import Tokenizer, normalise
from vsplade.encode.units import grouped, readings, ungrouped, units
from vsplade.search.explain import explain
from vsplade.types import Evidence, QueryWord, SparseVector

WORDS = "turbine toxicology xyzzyq harbour H-6927 A12B34 4,077,010.89 25/12/2018 2010–2015 lighthouse zqvx"


def known(run: str) -> bool:
    return Tokenizer.load().term(run) is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("H-6927", [("h", "6927")]),
        ("A12B34", [("a", "12", "b", "34")]),
        ("well-known", [("well",), ("known",)]),
        ("25/12/2018", [("25", "12", "2018")]),
        ("-5 C++ it's", [("5",), ("c",), ("it",), ("s",)]),
        ("12, 34", [("12",), ("34",)]),
        ("", []),
    ],
)
def test_units(text: str, found: list[tuple[str, ...]]) -> None:
    assert list(units(normalise(text))) == found


@given(st.text(alphabet="ab12,.-/ :'", max_size=40))
def test_units_are_the_tokenizers_runs_in_order(text: str) -> None:
    runs = [run for unit in units(text) for run in unit]
    assert "".join(runs) == "".join(char for char in text if char.isalnum())


@given(st.integers(1000, 10**12 - 1))
def test_groups_of_thousands_come_and_go(whole: int) -> None:
    assert ungrouped(f"{whole:,}") == str(whole)
    assert ungrouped(f"{whole:,}.50") == f"{whole}.50"
    assert grouped(str(whole)) == tuple(f"{whole:,}".split(","))


@pytest.mark.parametrize("text", ["1,2,3", "0,92454613", "1.234", "25.12.2018", "192.168.0.1"])
def test_what_only_looks_like_groups_stays(text: str) -> None:
    assert ungrouped(text) == text


@pytest.mark.parametrize(
    ("runs", "day"),
    [
        (("25", "12", "2018"), ("25", "12", "2018")),
        (("5", "mar", "99"), ("05", "03", "1999")),
        (("sept", "5", "2018"), ("05", "09", "2018")),
        (("12", "25", "18"), ("25", "12", "2018")),
        (("04", "03", "2018"), ("04", "03", "2018")),
        (("2018", "12", "25"), ("25", "12", "2018")),
        (("32", "13", "2018"), None),
        (("2018", "25"), None),
        (("1", "2", "3"), None),
        (("25", "decade", "2018"), None),
    ],
)
def test_days(runs: tuple[str, ...], day: tuple[str, ...] | None) -> None:
    assert day_of(runs) == day
    terms = [Tokenizer.load().term(run) for run in runs]
    if len(runs) == 3 and None not in terms:
        columns = DayTerms(Tokenizer.load()).as_days(*(np.array([term]) for term in terms))
        assert tuple(Tokenizer.load().token(int(column[0])) for column in columns) == (day or runs)


@pytest.mark.parametrize("text", ["may 18 people", "18 marches 2018", "in march 2018", "1225 dec 2018x", ""])
def test_what_is_no_day(text: str) -> None:
    assert named_days(text) == []


def test_years_are_not_grouped() -> None:
    assert readings("2018", known) == [[("2018",)]]
    assert readings("40770", known) == [[("40770",)], [("40", "770")]]
    assert readings("H-69270", known) == [[("h", "69270")]], "codes have no groups"


@given(st.lists(st.floats(2**-20, 8, width=32), min_size=1, max_size=20), st.integers(0, MASK))
def test_checks_change_weights_by_less_than_one_in_two_thousand(weights: list[float], check: int) -> None:
    before = np.array(weights, np.float32)
    after = stamped(before, np.full(len(before), check))
    assert (after.view(np.uint32) & MASK == check).all()
    assert (np.abs(after - before) <= before / 2000).all()


@given(st.lists(st.tuples(st.floats(2**-20, 8, width=32), st.integers(0, 255)), min_size=1, max_size=20))
def test_what_follows_changes_weights_by_one_in_sixteen_at_most(given: list[tuple[float, int]]) -> None:
    before, sets = np.array([w for w, _ in given], np.float32), np.array([s for _, s in given])
    after = stamped(followed(before, sets), np.full(len(before), MASK))
    assert (after.view(np.uint32) >> CHECK & 255 == sets).all()
    assert (np.abs(after - before) <= before / 15.9).all()


def test_the_bits_of_what_follows_never_change() -> None:
    bits = follower_bits(np.arange(30_000))
    assert bits[:6].tolist() == [3, 40, 80, 12, 33, 66]
    assert {int(two).bit_count() for two in bits} == {2}
    assert np.unique(bits, return_counts=True)[1].min() > 900, "28 ways, all as often"


@pytest.mark.parametrize("encoder", [TextEncoder(), load_encoder("reader")], ids=["text", "reader"])
class TestBoth:
    """The same for exact texts and for the reader, given a page that was read without error."""

    def page(self, encoder: TextEncoder | ReaderEncoder, text: str) -> dict[int, int]:
        vector = encoder.encode_text(text) if isinstance(encoder, TextEncoder) else encoder.weigh_text(text)
        return vector.weight_bits()

    def status(self, encoder: TextEncoder | ReaderEncoder, word: str, text: str) -> str:
        (found,) = encoder.query_words(word)
        return found.on(self.page(encoder, text))

    @pytest.mark.parametrize("word", WORDS.split())
    def test_a_page_holds_its_words(self, encoder: TextEncoder | ReaderEncoder, word: str) -> None:
        assert self.status(encoder, word, WORDS) == "found"

    @pytest.mark.parametrize(
        ("word", "text", "status"),
        [
            ("toxicology", "toxidrome, serology", "in part"),
            ("25/12/2018", "25/12/2017 and 3/12/2018", "in part"),
            ("H-6927", "H-6928 and K-6927", "in part"),
            ("25-12-2018", "on 25/12/2018", "found"),
            ("4077010.89", "total 4,077,010.89", "found"),
            ("4,077,010.89", "total 4077010.89", "found"),
            ("$4,077,010.89", "total 4077010.89", "found"),
            ("4077010.89", "total $4,077,010.89 in all", "found"),
            ("25/12/2018", "on 25 Dec 2018 at noon", "found"),
            ("25/12/2018", "on December 25th, 2018", "found"),
            ("2018-12-25", "on 25-12-18", "found"),
            ("25Dec2018", "on 25/12/2018", "found"),
            ("5.3.1999", "of 05 March 1999", "found"),
            ("25/12/2018", "25 Nov 2018 and 24 Dec 2018", "in part"),
            ("turbine", "a lighthouse", "not found"),
            ("xyzzyq", "a lighthouse", "not found"),
            ("HARBOUR", "the harbour", "found"),
        ],
    )
    def test_status(self, encoder: TextEncoder | ReaderEncoder, word: str, text: str, status: str) -> None:
        assert self.status(encoder, word, text) == status

    @pytest.mark.parametrize("day", ["25/12/2018", "25 Dec 2018", "Dec. 25, 2018", "25.12.18", "12/25/2018"])
    @pytest.mark.parametrize("asked", ["25-12-2018", "25th of December 2018", "2018-12-25"])
    def test_a_day_is_one_term_however_it_is_written(
        self, encoder: TextEncoder | ReaderEncoder, day: str, asked: str
    ) -> None:
        """Of two pages with the same numbers and months, the one with the day comes first."""
        query = encoder.encode_query(asked)
        terms = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
        scores = [
            sum(terms.get(term, 0.0) * weight for term, weight in self.weights(encoder, text).items())
            for text in (f"paid on {day} in full", "paid 25 december 12 in 18 and 2018 dec full")
        ]
        assert scores[0] > scores[1]

    def test_pages_with_the_whole_word_come_first(self, encoder: TextEncoder | ReaderEncoder) -> None:
        """Also where the others are short and hold every piece."""
        long = "toxicology " + "annual report of the harbour office " * 6
        query = encoder.encode_query("toxicology")
        whole, pieces = (
            sum(
                weight * page.get(term, 0.0)
                for term, weight in zip(query.terms.tolist(), query.weights.tolist(), strict=True)
            )
            for page in (self.weights(encoder, text) for text in (long, "toxidrome, serology, apicology"))
        )
        assert whole > pieces

    def weights(self, encoder: TextEncoder | ReaderEncoder, text: str) -> dict[int, float]:
        vector = encoder.encode_text(text) if isinstance(encoder, TextEncoder) else encoder.weigh_text(text)
        return dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))


def made_up(rng: np.random.Generator) -> str:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return "".join(rng.choice(letters, int(rng.integers(5, 11))))


def test_made_up_words_are_hardly_ever_found() -> None:
    """A thousand words that nobody wrote, on a page with two hundred others. The reader knows words by two or
    three pieces, which for such words are one or two letters each; a text layer has the exact spelling.
    """
    rng = np.random.default_rng(3)
    text = " ".join(made_up(rng) for _ in range(200))
    reader, exact = load_encoder("reader"), TextEncoder()
    assert isinstance(reader, ReaderEncoder)
    pages = ((reader, reader.weigh_text(text), 15), (exact, exact.encode_text(text), 0))
    for encoder, page, most in pages:
        bits, held = page.weight_bits(), set(text.split())
        asked = [word for word in (made_up(rng) for _ in range(1000)) if word not in held]
        found = [word for word in asked if encoder.query_words(word)[0].on(bits) == "found"]
        assert len(found) <= most, found


def test_the_check_tells_apart_what_the_number_does_not() -> None:
    tokenizer = Tokenizer.load()
    neighbours = Neighbours(tokenizer, np.ones(len(tokenizer), bool), 2.8)
    reader = load_encoder("reader")
    assert isinstance(reader, ReaderEncoder)
    (word,) = reader.query_words("toxicology")
    mark = word.wholes[0][-1]
    page: NDArray[np.uint32] = np.array(sorted({*word.parts, mark.term}), np.uint32)
    other = stamped(np.ones(len(page), np.float32), np.full(len(page), (mark.check + 1) & MASK))
    assert word.on(SparseVector(page, other).weight_bits()) == "in part"
    same = stamped(np.ones(len(page), np.float32), np.full(len(page), mark.check))
    assert word.on(SparseVector(page, same).weight_bits()) == "found"
    hashes = np.array(neighbours.whole(word.parts))
    assert (split(hashes)[0] == hashes >> CHECK).all()


def test_a_pair_that_shares_a_hash_is_not_told_as_found() -> None:
    """The page holds another pair with the same number, and neither of the two words."""
    words = [QueryWord("keeper", (1,), ((Evidence(1),),)), QueryWord("lighthouse", (2,), ((Evidence(2),),))]
    names = {1: "keeper", 2: "lighthouse", 9: "keeper lighthouse"}
    asked = SparseVector.from_dict({1: 2.0, 2: 2.0, 9: 1.0})
    (match,) = explain(asked, SparseVector.from_dict({5: 1.0, 9: 0.5}), names.__getitem__, words)
    assert (match.token, match.in_part) == ("keeper lighthouse", True)
    whole = explain(asked, SparseVector.from_dict({1: 1.0, 2: 1.0, 9: 0.5}), names.__getitem__, words)
    assert [found.in_part for found in whole] == [False, False, False]
