"""What searchers type, and which pages it leaves: against a search of all pages, one by one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vsplade.encode import load_encoder
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.text import TextEncoder
from vsplade.errors import InputError
from vsplade.ingest.job import index_paths
from vsplade.search.index import Index
from vsplade.search.summary import what_is_missing, why_nothing
from vsplade.search.syntax import ParsedQuery, parse
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("interest rate", ParsedQuery(("interest rate",))),
        ('"interest rate" bank', ParsedQuery(("bank",), ("interest rate",))),
        ("“interest rate”", ParsedQuery((), ("interest rate",))),
        ("+bank -rate fund", ParsedQuery(("fund",), (), ("bank",), ("rate",))),
        ('fund -"interest rate"', ParsedQuery(("fund",), must_not_phrases=("interest rate",))),
        ("harb*", ParsedQuery(beginnings=("harb",))),
        ("harb* tid* harb*", ParsedQuery(beginnings=("harb", "tid"))),
        ("well-known C++ a - b -- + x", ParsedQuery(("well-known", "C++", "a", "-", "b", "--", "+", "x"))),
        ("8:03 http://a.org/b", ParsedQuery(("8:03", "http://a.org/b"))),
        ("", ParsedQuery(("",))),
    ],
)
def test_parsed(typed: str, parsed: ParsedQuery) -> None:
    assert parse(typed) == parsed


@pytest.mark.parametrize(
    ("typed", "word", "words"),
    [
        ("cats AND dogs", "AND", ("cats", "AND", "dogs")),
        ("author:smith report", "author=smith", ("author:smith", "report")),
        ("(cats dogs)", "Brackets", ("(cats", "dogs)")),
        ('say "cheese', "quote", ("say", "cheese")),
        ("rate -5", '-"5"', ("rate", "-5")),
        ("roam~ rate^2", "~ and ^", ("roam~", "rate^2")),
        ("a* report", "at least 2", ("a", "report")),
        ("te*t", "at the end", ("te*t",)),
    ],
)
def test_what_is_no_operator_is_explained(typed: str, word: str, words: tuple[str, ...]) -> None:
    parsed = parse(typed)
    assert any(word in note for note in parsed.notes)
    assert parsed.words == words
    assert parsed.plain


def test_a_query_of_exclusions_only_is_explained() -> None:
    assert "Add a word" in parse("-rate").notes[0]


@given(st.text(max_size=60))
def test_any_text_can_be_typed(typed: str) -> None:
    """No letter or digit is lost, whatever signs stand around it."""
    parsed = parse(typed)
    kept = " ".join((parsed.text, *parsed.must_not, *parsed.must_not_phrases, *parsed.beginnings))
    assert sorted(filter(str.isalnum, kept)) == sorted(filter(str.isalnum, typed))


WORDS = [
    "harbour",
    "lighthouse",
    "keeper",
    "turbine",
    "xyzzyq",
    "toxicology",
    "H-6927",
    "12.5",
    "report",
    "rate",
]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=8)
QUERIES = st.lists(
    st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from(WORDS).map("+{}".format),
        st.sampled_from(WORDS).map('-"{}"'.format),
        st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(lambda some: f'"{" ".join(some)}"'),
        st.sampled_from(["harb*", "tur*", "re*"]),
    ),
    min_size=1,
    max_size=4,
).map(" ".join)
READER, TEXT = load_encoder("reader"), TextEncoder()
assert isinstance(READER, ReaderEncoder)


def rows(words: list[str], many: int) -> set[tuple[str, ...]]:
    """Every so many words that follow each other."""
    return {tuple(words[at : at + many]) for at in range(len(words) - many + 1)}


def allowed(query: str, text: str, order: int) -> bool:
    """The conditions of a query, on the text of a page: by plain comparison of words. A phrase is checked so
    many words at a time (docs/cli.md)."""
    held = text.split()
    for sign, phrase, word in re.findall(r'([+-]?)"([^"]*)"|(\+\S+)', query):
        wanted = [word[1:]] if word else phrase.split()
        holds = all(rows(wanted, many) <= rows(held, many) for many in range(1, order + 1))
        if holds == (sign == "-"):
            return False
    return True


@pytest.mark.parametrize("encoder", [TEXT, READER], ids=["text", "reader"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, queries=st.lists(QUERIES, min_size=1, max_size=4))
def test_searches_are_those_of_a_search_page_by_page(
    tmp_path_factory: pytest.TempPathFactory,
    encoder: TextEncoder | ReaderEncoder,
    texts: list[str],
    queries: list[str],
) -> None:
    index, vectors = indexed(tmp_path_factory.mktemp("index"), encoder, texts)
    for query, batch in zip(queries, index.search_batch(queries, k=50), strict=True):
        weights = index.encode_query(query)
        scores = {id: dot(weights, vector) for id, vector in vectors.items()}
        order = (2, 3) if encoder is READER else (1, 1)
        lax, strict = (
            {id for id, score in scores.items() if score > 0 and allowed(query, texts[int(id)], words)}
            for words in order
        )
        hits = index.search(query, k=50)
        right = {hit.id for hit in hits}
        assert lax & strict <= right <= lax | strict, "a row of three is told by bits that others may share"
        assert [hit.id for hit in batch] == [hit.id for hit in hits]
        assert [hit.score for hit in hits] == pytest.approx([scores[hit.id] for hit in hits], rel=1e-5)
        if hits:
            least = hits[len(hits) // 2].score
            best = index.search(query, k=50, min_score=least)
            assert [hit.id for hit in best] == [hit.id for hit in hits if hit.score >= least]
            filtered = index.search(query, k=50, filter={"even": True})
            assert {hit.id for hit in filtered} == {id for id in right if int(id) % 2 == 0}


def indexed(
    folder: Path, encoder: TextEncoder | ReaderEncoder, texts: list[str]
) -> tuple[Index, dict[str, SparseVector]]:
    vectors = {
        str(n): encoder.encode_text(text) if isinstance(encoder, TextEncoder) else encoder.weigh_text(text)
        for n, text in enumerate(texts)
    }
    with IndexWriter(folder, encoder) as writer:
        for id, vector in vectors.items():
            writer.add(id, vector, {"even": int(id) % 2 == 0})
        writer.commit()
    return Index.open(folder, encoder), vectors


def dot(query: SparseVector, page: SparseVector) -> float:
    """A hashed term counts where the last 11 bits of the page's weight are those of its check: two pairs of
    ``WORDS`` share their number with another."""
    held = dict(zip(page.terms.tolist(), page.weights, strict=True))
    checks = getattr(query, "checks", None)
    checks = [-1] * len(query) if checks is None else checks.tolist()
    total = 0.0
    for term, weight, check in zip(query.terms.tolist(), query.weights.tolist(), checks, strict=True):
        found = held.get(term, np.float32(0))
        if check < 0 or (int(found.view(np.uint32)) ^ check) & 0x7FF == 0:
            total += weight * float(found)
    return total


@pytest.mark.parametrize("encoder", [TEXT, READER], ids=["text", "reader"])
def test_hits_say_what_they_hold(encoder: TextEncoder | ReaderEncoder, tmp_path: Path) -> None:
    index, _ = indexed(tmp_path / "index", encoder, ["toxicology report", "toxidrome serology", "rate"])
    hits = {hit.id: hit for hit in index.search("toxicology rate")}
    said = {id: [word.status for word in hit.words] for id, hit in hits.items()}
    assert said == {
        "0": ["found", "not found"], "1": ["in part", "not found"], "2": ["not found", "found"]
    }  # fmt: skip
    assert all(match.in_part for match in hits["1"].explain())
    assert not any(match.in_part for match in hits["2"].explain())
    looked = {word.word: word.status for word in index.look_up("toxicology toxidromic zebra +rate")}
    assert looked == {"toxicology": "found", "toxidromic": "in part", "zebra": "not found", "rate": "found"}
    only = index.look_up("toxicology", filter={"even": False})
    assert [word.status for word in only] == ["in part"]
    assert not index.search(index.encode_query("rate"))[0].words, "a vector has no words"
    assert bool(index.notes('"toxicology report"')) == (encoder is TEXT), "no order is kept"


@pytest.mark.parametrize("name", ["reader", "text", "reader+text"])
def test_a_word_in_letters_that_are_not_known_is_on_no_page(name: str, tmp_path: Path) -> None:
    """It is not passed over: what asks for it finds nothing, and what does not is told that it is missing."""
    encoder = load_encoder(name)
    with IndexWriter(tmp_path / "index", encoder) as writer:
        known = encoder.query_words("turbine")[0].terms  # type: ignore[attr-defined]
        writer.add("page", SparseVector.from_dict(dict.fromkeys(known, 0.5)))
    index = Index.open(tmp_path / "index", encoder)
    for query in ("+лампа turbine", 'turbine "лампа"', '"turbine лампа"', "+turbine +中文", "中文*"):
        assert not index.search(query), query
        assert "not found" in {word.status for word in index.look_up(query)}, query
    for query in ("turbine -лампа", 'turbine -"turbine лампа"'):
        assert index.search(query), query
    (hit,) = index.search("turbine лампа", words_only=True)
    assert [(word.word, word.status) for word in hit.words] == [("turbine", "found"), ("лампа", "not found")]
    assert not index.look_up("– ; …"), "marks are no words"
    mixed = "turbine лампа"
    assert what_is_missing(index, mixed, index.look_up(mixed)).startswith("No page holds 'лампа'")


def test_words_that_are_not_searched_for_are_no_find(tmp_path: Path) -> None:
    """Every page holds "of the"; a query of which only these are found has nothing found."""
    encoder = load_encoder("reader")
    with IndexWriter(tmp_path, encoder) as writer:
        known = [word.terms for word in encoder.query_words("the turbine of")]  # type: ignore[attr-defined]
        writer.add("page", SparseVector.from_dict(dict.fromkeys(set().union(*known), 0.5)))
    index = Index.open(tmp_path, encoder)

    def said(query: str, words_only: bool = False) -> str:
        return what_is_missing(index, query, index.look_up(query), words_only)

    assert said("the turbine") == ""
    assert said("the lamp of the turbine").startswith("No page holds 'lamp'. These hold other words")
    assert said("the lamp of the keeper").startswith("Nothing found: no page holds 'lamp' or 'keeper'.")
    assert "something near" in said("lamp")
    assert "something near" not in said("lamp turbine", words_only=True) + said("lamp", words_only=True)


def test_a_least_score_that_is_no_score(tmp_path: Path) -> None:
    index, _ = indexed(tmp_path / "index", READER, [APART])
    assert index.search("turbine", min_score=-1.0)
    assert index.search("turbine", min_score=1e300) == []
    with pytest.raises(InputError, match="min_score is not a number"):
        index.search("turbine", min_score=float("nan"))


APART = "turbine report fund interest report rate"


def test_three_words_of_a_phrase_stand_in_a_row(tmp_path: Path) -> None:
    """A page with its two pairs in two places does not hold it; a rare word may be one of the three."""
    pages = [
        APART,
        "turbine report rate",
        "fund toxicology interest",
        "fund toxicology rate toxicology interest",
    ]
    index, _ = indexed(tmp_path / "index", READER, pages)
    assert {hit.id for hit in index.search('"turbine report rate"')} == {"1"}
    assert {hit.id for hit in index.search('fund -"turbine report rate"')} == {"0", "2", "3"}
    assert not index.notes('"turbine report rate"')
    (note,) = index.notes('"turbine report rate fund"')
    assert '"turbine report rate fund" was matched three words at a time' in note
    assert not index.notes('"turbine of the report"'), "of two words that count"


def test_an_index_made_before_matches_pairs_and_says_so(tmp_path: Path) -> None:
    reader = load_encoder("reader:meaning=false")
    assert isinstance(reader, ReaderEncoder)
    *_, former = reader.former()
    assert former.fingerprint != reader.fingerprint
    indexed(tmp_path / "index", former, [APART, "turbine report rate"])
    for encoder in (None, reader):
        index = Index.open(tmp_path / "index", encoder)
        assert {hit.id for hit in index.search('"turbine report rate"')} == {"0", "1"}
        for query in ('"turbine report rate"', 'fund -"turbine report rate"'):
            (note,) = index.notes(query)
            assert '"turbine report rate" was matched two words at a time' in note
        assert not index.notes('"turbine report"'), "two words are one pair"
        assert not index.notes("turbine report rate")
    table = Path(__file__).parents[2] / "examples" / "table.pdf"
    index_paths([table], tmp_path / "index", "reader:meaning=false")
    assert len(Index.open(tmp_path / "index")) > 2


def test_where_signs_left_nothing_the_way_out_is_told(tmp_path: Path) -> None:
    """A title in quotes that no page holds to the letter; the words without the quotes are found."""
    index_paths([EXAMPLES / "scan.pdf"], tmp_path, "reader")
    index = Index.open(tmp_path)
    query = 'who wrote "the lighthouse of the keeper"'
    assert index.search(query) == []
    said = why_nothing(index, query)
    assert said.endswith("Search for: who wrote the lighthouse of the keeper")
    assert index.search(said.split("Search for: ")[1])
    assert "Try other words" in why_nothing(index, '"xyzzyq"')
