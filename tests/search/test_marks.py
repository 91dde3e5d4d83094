"""Which words of a page are marked, and which are shown around them."""

from __future__ import annotations

import pytest

from vsplade.search.marks import PageWord, best_place, find_marks, make_snippet, matched_tokens
from vsplade.types import BY_MEANING, Box, TermMatch


def words(text: str) -> list[PageWord]:
    return [PageWord(word, Box(0.1, n / 100, 0.2, n / 100 + 0.005)) for n, word in enumerate(text.split())]


def match(token: str, product: float) -> TermMatch:
    return TermMatch(token, 1, product, 1.0)


def test_words_are_marked_with_case_and_punctuation_around_them() -> None:
    page = words('The "Turbine," of the turbines; turbine-hall.')
    marks = find_marks(page, {"turbine": 2.0})
    assert [mark.text for mark in marks] == ['"Turbine,"', "turbine-hall."]
    assert [mark.box for mark in marks] == [page[1].box, page[5].box]


def test_a_word_of_pieces_is_marked_only_where_all_of_them_matched() -> None:
    page = words("toxicology toxic ecology")
    pieces = {"tox##": 1.0, "##icol##": 1.0, "##logy": 1.0}
    assert [mark.text for mark in find_marks(page, pieces)] == ["toxicology"]
    assert find_marks(page, {"tox##": 1.0}) == []


def test_words_that_were_read_are_known_by_their_terms() -> None:
    page = [PageWord("lighhthouse", Box(0, 0, 1, 1), 0.5, ("ligh##", "##ouse"))]
    assert find_marks(page, {"ligh##": 1.0, "##ouse": 2.0})[0].weight == 3.0
    assert find_marks(page, {"ligh##": 1.0}) == []


def test_pairs_and_light_words_are_left_out() -> None:
    found = matched_tokens(
        [match("text:turbine", 2.0), match("turbine", 3.0), match("the turbine", 9.0), match("the", 0.1)]
    )
    assert found == {"turbine": 5.0}


def test_a_word_that_is_only_meant_does_not_decide_where_to_look() -> None:
    matches = [
        TermMatch("tobacco", 1, 9.0, 0.5),
        TermMatch("meaning", BY_MEANING, 15.0, 0.5, meant_by=(("annual", ("year",)),)),
    ]
    found = matched_tokens(matches)
    assert found == {"tobacco": 4.5, "year": 2.25}
    assert matched_tokens(matches[1:]) == {"year": 7.5}
    page = words("tobacco of this kind " + "and so on " * 20 + "every year")
    assert make_snippet(page, find_marks(page, found), 12).text.startswith("tobacco of this")


def test_tokens_of_other_vocabularies_are_known_by_their_letters() -> None:
    assert [mark.text for mark in find_marks(words("The Turbine ran"), {"Ġturbine": 1.0})] == ["Turbine"]


def test_the_snippet_is_around_the_place_where_most_stands_together() -> None:
    text = "tide " + "x " * 60 + "the tide turns the turbine slowly " + "y " * 60 + "tide"
    page = words(text)
    snippet = make_snippet(page, find_marks(page, {"tide": 1.0, "turbine": 1.0}), 12)
    assert "tide turns the turbine" in snippet.text
    assert snippet.text.startswith("… ")
    assert snippet.text.endswith(" …")
    assert [snippet.text[start:end] for start, end in snippet.marks] == ["tide", "turbine"]


@pytest.mark.parametrize("text", ["", "one", "one two three"])
def test_short_pages_are_shown_whole(text: str) -> None:
    assert make_snippet(words(text), []).text == text
    assert best_place(words(text), []) is None


def test_the_best_place_is_small_enough_to_look_at() -> None:
    page = words("tide a b turbine " + "z " * 20 + "tide")
    place = best_place(page, find_marks(page, {"tide": 1.0, "turbine": 1.0}))
    assert place is not None
    assert place.top == 0
    assert place.bottom == pytest.approx(0.035)
