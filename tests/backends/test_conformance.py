"""One suite for every place that an index can be in: each behaves as the index in a folder does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.places import PLACES, where

from vsplade.backends.open_writer import open_writer, stored_encoder
from vsplade.encode.text import TextEncoder
from vsplade.errors import IndexFormatError, InputError, ModelMismatchError
from vsplade.search.collection_index import CollectionIndex
from vsplade.search.fused_search import fused_search, whole
from vsplade.search.hits import Hit
from vsplade.search.index import Index
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Direction, Page, SparseVector, Windows

TERMS, DIMENSIONS, CLUSTERS, PAGES = 60, 16, 8, 150
IDENTITY = EncoderIdentity("test", "f1", TERMS)
OTHERS = [place for place in PLACES if place != "folder"]


class Corpus:
    """Random pages: some without words, some without windows, metadata of every kind."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.normal(size=(CLUSTERS, DIMENSIONS)).astype(np.float32)

    def vector(self, meaning: bool = True) -> SparseVector:
        terms = np.sort(self.rng.choice(TERMS, int(self.rng.integers(0, 15)), replace=False))
        weights = self.rng.uniform(0.05, 2, len(terms)).astype(np.float32)
        windows = self._windows(int(self.rng.integers(0, 4))) if meaning else None
        return SparseVector(terms.astype(np.uint32), weights, windows)

    def _windows(self, count: int) -> Windows | None:
        codes = self.rng.integers(-127, 128, size=(count, DIMENSIONS)).astype(np.int8)
        codes[:, 0] |= 1  # no window without a direction
        clusters = (codes.astype(np.float32) @ self.centres.T).argmax(axis=1).astype(np.uint16)
        return Windows(codes, clusters) if count else None

    def query(self, meaning: bool) -> SparseVector:
        terms = np.sort(self.rng.choice(TERMS, 5, replace=False)).astype(np.uint32)
        weights = self.rng.uniform(0.5, 4, 5).astype(np.float32)
        direction = self.rng.normal(size=DIMENSIONS).astype(np.float32)
        direction /= np.linalg.norm(direction)
        near = np.argsort(-(self.centres @ direction)).astype(np.uint16)
        return SparseVector(terms, weights, Direction(direction, near) if meaning else None)

    def metadata(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = {"path": f"/files/{number % 7}/a_{number}.pdf", "page_num": number}
        found |= {"doc_id": f"a_{number % 40}", "pages": number % 40 // 4}
        found["year"] = 2000 + number % 20 if number % 4 else float(2000 + number % 20)
        if number % 3 == 0:
            found["tags"] = ["a", number % 5, 'quo"te\\'] if number % 2 else "a"
        if number % 5 == 0:
            found |= {"flag": number % 2 == 0, "empty": None, "größe": "weiß", "odd \udc80": "x\udc80y"}
        return found


def fill(place: Path | str, meaning: bool = True) -> None:
    """In several commits, with replaced and deleted pages."""
    corpus = Corpus()
    with open_writer(place, IDENTITY) as writer:
        for number in range(PAGES):
            writer.add(
                f"p{number}", corpus.vector(meaning), corpus.metadata(number), b"\x89PNG" * (number % 3)
            )
    with open_writer(place) as writer:
        for number in range(0, PAGES, 10):
            writer.add(f"p{number}", corpus.vector(meaning), corpus.metadata(number + 1))
        writer.add('weird "id" \\ \udcff 日本', corpus.vector(meaning), {"year": 1})
        for number in range(5, PAGES, 25):
            writer.delete(f"p{number}")
        writer.delete("never there")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("reference") / "index"
    fill(folder)
    return Index.open(folder)


@pytest.fixture(scope="module", params=PLACES)
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageIndex]:
    place = where(request.param, tmp_path_factory.mktemp(request.param))
    fill(place)
    opened = open_index(place)
    yield opened
    if isinstance(opened, CollectionIndex):
        opened.close()


def agree(found: Any, expected: Any, decimals: int = 4) -> None:
    """The same pages with the same scores; those whose scores are equal up to rounding in any order."""
    assert [round(hit.score, decimals) for hit in found] == pytest.approx(
        [round(hit.score, decimals) for hit in expected], rel=1e-5, abs=2e-4
    )
    last = expected[-1].score if expected else 0.0
    clear = {hit.id for hit in expected if hit.score > last * (1 + 1e-5)}
    assert clear <= {hit.id for hit in found}
    scores = {hit.id: hit.score for hit in expected}
    for hit in found:
        assert scores.get(hit.id, last) == pytest.approx(hit.score, rel=1e-5, abs=2e-5)


@pytest.mark.parametrize("meaning", [False, True])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_top_k_is_that_of_the_folder(index: PageIndex, reference: Index, meaning: bool, k: int) -> None:
    corpus = Corpus(2)
    queries = [corpus.query(meaning) for _ in range(12)]
    for found, expected in zip(
        index.search_batch(queries, k), reference.search_batch(queries, k), strict=True
    ):
        agree(found, expected)


def test_hits_tell_the_same(index: PageIndex, reference: Index) -> None:
    query = Corpus(3).query(meaning=True)
    for found, expected in zip(index.search(query), reference.search(query), strict=True):
        assert found.id == expected.id
        assert (found.metadata, found.doc_id, found.page_num) == (
            expected.metadata,
            expected.doc_id,
            expected.page_num,
        )
        assert [(match.term, match.page_weight) for match in found.explain()] == [
            (match.term, pytest.approx(match.page_weight)) for match in expected.explain()
        ]
        assert sum(match.product for match in found.explain()) == pytest.approx(found.score, rel=1e-4)


FILTERS = [
    "year=2003",
    "year>=2010",
    "year=2003..2007",
    "year!=2003",
    "tags=a",
    "tags=2",
    "tags!=a",
    "tags>=3",
    "flag=true",
    "flag!=true",
    "größe=weiß",
    "path^=/files/3/",
    "path^=/files/3/a_",
    "page_num<20",
    "empty=x",
    ["year>=2005", "tags=a"],
    {"tags": ['quo"te\\', "b"]},
    {"year": {"gt": 2003.5, "lte": 2015}},
    {"flag": 1},
    {"page_num": True},
    {"empty": None},
    {"odd \udc80": {"prefix": "x"}},
    {"path": {"gt": "/files/3"}},
    {"tags": {"prefix": "quo"}},
    {"year": 2004.0},
    {'no" or 1 == 1 or "': "x"},
]


@pytest.mark.parametrize("filter", FILTERS, ids=str)
def test_filters(index: PageIndex, reference: Index, filter: Any) -> None:
    assert list(index.ids(filter)) == list(reference.ids(filter))
    for meaning in (False, True):
        query = Corpus(4).query(meaning)
        agree(index.search(query, 20, filter), reference.search(query, 20, filter))


def test_what_pages_hold(index: PageIndex, reference: Index) -> None:
    assert index.pages == reference.pages == len(list(index.ids()))
    assert list(index.ids()) == list(reference.ids())
    assert index.metadata_keys() == reference.metadata_keys()
    assert index.generation > 0
    rows = zip(index.pages_with_metadata(), reference.pages_with_metadata(), strict=True)
    for (id, vector, metadata), (expected_id, expected, told) in rows:
        assert (id, metadata) == (expected_id, told)
        assert np.array_equal(vector.terms, expected.terms)
        assert np.array_equal(vector.weights, expected.weights)
        mine, theirs = vector.meaning, expected.meaning
        assert (mine is None) == (theirs is None)
        if isinstance(mine, Windows) and isinstance(theirs, Windows):
            order = np.argsort(mine.clusters, kind="stable"), np.argsort(theirs.clusters, kind="stable")
            assert np.array_equal(mine.clusters[order[0]], theirs.clusters[order[1]])
            assert sorted(mine.codes.tolist()) == sorted(theirs.codes.tolist())
    terms = np.arange(TERMS + 3, dtype=np.uint32)
    assert np.array_equal(index.document_frequency(terms), reference.document_frequency(terms))


def test_single_pages(index: PageIndex, reference: Index) -> None:
    for id in ("p1", "p10", 'weird "id" \\ \udcff 日本'):
        assert id in index
        assert index.metadata(id) == reference.metadata(id)
        assert np.array_equal(index.vector(id).weights, reference.vector(id).weights)
        assert index.thumbnail(id) == reference.thumbnail(id)
    assert "p5" not in index
    assert 5 not in index
    for look in (index.metadata, index.vector, index.thumbnail):
        with pytest.raises(InputError, match="p5"):
            look("p5")


def test_k_and_min_score(index: PageIndex, reference: Index) -> None:
    query = Corpus(5).query(meaning=False)
    agree(index.search(query, 50, min_score=3.0), reference.search(query, 50, min_score=3.0))
    for k in (0, 1 << 25):
        with pytest.raises(InputError, match=r"result"):
            index.search(query, k)


def test_fusion(index: PageIndex, reference: Index) -> None:
    """Of two indexes, one of them in the place under test."""
    query = Corpus(6).query(meaning=False)

    class Fixed:
        """Both are asked by the same vector: the encoder of these pages is made up."""

        def __init__(self, of: PageIndex) -> None:
            self.of = of

        def __getattr__(self, name: str) -> Any:
            return getattr(self.of, name)

        def __contains__(self, id: object) -> bool:
            return id in self.of

        def search(self, text: str, k: int, filter: Any = None, words_only: bool = False) -> list[Hit]:
            return self.of.search(query, k, filter)

    found, expected = (
        fused_search([whole(Fixed(one)), whole(Fixed(reference))], "text", 10)  # type: ignore[arg-type]
        for one in (index, reference)
    )
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], rel=1e-4)


# -- words, phrases, beginnings -------------------------------------------------------------------------

TEXTS = {
    "cats": "a cat and a dog sat on the harbour wall",
    "dogs": "the dog and the cat ran along the harbour road",
    "bank": "the interest rate of the central bank rose",
    "rate": "a rate of interest that no bank pays",
    "hall": "the harbourmaster's hall stood on the road",
}


@pytest.fixture(scope="module", params=PLACES)
def texts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PageIndex, Index]]:
    from PIL import Image

    encoder = TextEncoder()
    pages = [Page(id, Image.new("L", (1, 1)), f"/x/{id}", text=text) for id, text in TEXTS.items()]
    folder = tmp_path_factory.mktemp("texts")
    places = [where(request.param, folder), folder / "reference"]
    for place in places:
        with open_writer(place, encoder) as writer:
            for page, vector in zip(pages, encoder.encode_pages(pages), strict=True):
                writer.add(page.id, vector, {"kind": page.id[0]})
    opened = open_index(places[0], encoder)
    yield opened, Index.open(places[1], encoder)
    if isinstance(opened, CollectionIndex):
        opened.close()


@pytest.mark.parametrize(
    "query",
    [
        "cat dog",
        '"interest rate"',
        "+bank rate",
        "rate -central",
        "harb*",
        "+harbour +road",
        '-"interest rate" bank',
        "zebra",
        "zebra cat",
        "+zebra cat",
        "зебра cat",
        "+зебра cat",
        '"cat зебра"',
        "cat -зебра",
    ],
)
def test_words_and_conditions(texts: tuple[PageIndex, Index], query: str) -> None:
    index, reference = texts
    for filter in (None, "kind=c", "kind!=c"):
        agree(index.search(query, filter=filter), reference.search(query, filter=filter))
        assert index.look_up(query, filter) == reference.look_up(query, filter)
    for found, expected in zip(index.search(query), reference.search(query), strict=True):
        assert found.words == expected.words
    assert [match.token for match in index.explain(query, "cats")] == [
        match.token for match in reference.explain(query, "cats")
    ]


# -- writing --------------------------------------------------------------------------------------------


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return where(request.param, tmp_path)


def test_state_commits_with_the_pages(place: Path | str) -> None:
    long = {"done": [[n, n] for n in range(0, 40_000, 2)]}
    with open_writer(place, IDENTITY) as writer:
        writer.set_state('file:/a \udc80 "b"', {"hash": "x"})
        writer.set_state("file:/long", long)
        writer.set_state("other", [1, 2])
    with open_writer(place) as writer:
        assert writer.state("file:") == {'file:/a \udc80 "b"': {"hash": "x"}, "file:/long": long}
        writer.set_state("other", None)
        writer.set_state("file:/long", {"done": []})
    with open_writer(place) as writer:
        assert "other" not in writer.state()
        assert writer.state("file:/long") == {"file:/long": {"done": []}}


def test_commits_are_counted_and_seen(place: Path | str) -> None:
    corpus = Corpus()
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", corpus.vector())
        first = writer.commit()
        assert writer.commit() == first
        writer.add("b", corpus.vector())
        assert writer.commit() > first
        assert writer.pages == 2
    index = open_index(place)
    assert (index.pages, index.refresh()) == (2, False)
    with open_writer(place) as writer:
        writer.delete("a")
    assert index.refresh()
    assert list(index.ids()) == ["b"]


def test_an_exception_leaves_out_what_was_not_committed(place: Path | str) -> None:
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", Corpus().vector())

    def interrupted() -> None:
        with open_writer(place) as writer:
            writer.add("b", Corpus().vector())
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        interrupted()
    assert list(open_index(place).ids()) == ["a"]


def test_writing_twice_changes_nothing(place: Path | str) -> None:
    for _ in range(2):
        fill(place)
    assert (
        len(list(open_index(place).ids())) == open_index(place).pages == PAGES + 1 - len(range(5, PAGES, 25))
    )


def test_another_model_is_refused(place: Path | str) -> None:
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", Corpus().vector())
    assert (stored := stored_encoder(place)) is not None
    assert stored.name == "test"
    with pytest.raises(ModelMismatchError, match="f1"):
        open_writer(place, EncoderIdentity("test", "f2", TERMS))
    with pytest.raises(ModelMismatchError, match="f1"):
        open_index(place, TextEncoder())
    assert list(open_index(place).ids()) == ["a"]


def test_there_is_no_index_yet(place: Path | str) -> None:
    assert stored_encoder(place) is None
    with pytest.raises(IndexFormatError, match="no index"):
        open_index(place)
    with pytest.raises(IndexFormatError, match="no index here yet"):
        open_writer(place)


def test_bad_pages_are_named(place: Path | str) -> None:
    good = Corpus().vector()
    with open_writer(place, IDENTITY) as writer:
        writer.add("good", good)
        for bad in (
            SparseVector(np.array([TERMS], np.uint32), np.ones(1, np.float32)),
            SparseVector(np.array([2, 1], np.uint32), np.ones(2, np.float32)),
            SparseVector(np.array([1], np.uint32), np.array([np.nan], np.float32)),
        ):
            with pytest.raises(InputError, match="bad one"):
                writer.add("bad one", bad)
        with pytest.raises(InputError, match="key"):
            writer.add("bad", good, {"key": {}})
    assert list(open_index(place).ids()) == ["good"]


def test_stored_pages_are_read_back(place: Path | str) -> None:
    vector = Corpus().vector()
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", vector, {"x": 1}, b"picture")
    with open_writer(place) as writer:
        read = writer.stored(["a", "b"])
        assert list(read) == ["a"]
        assert read["a"] is not None
        page = read["a"]()
        assert (page.id, page.metadata, page.thumbnail) == ("a", {"x": 1}, b"picture")
        assert np.array_equal(page.vector.weights, vector.weights)


def test_metadata_are_plain_json(index: PageIndex) -> None:
    for hit in index.search(Corpus(7).query(meaning=False)):
        assert json.loads(json.dumps(hit.metadata)) == hit.metadata
