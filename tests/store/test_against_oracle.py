"""Property tests: whatever is added, replaced, deleted, merged and asked, the oracle answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vsplade.search.filters import Filter
from vsplade.search.index import Index
from vsplade.store import pending, postings
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

from .oracle import Oracle, identity

VOCABULARY = 12
LONG_VOCABULARY = 400
IDS = [f"page-{number}" for number in range(14)]


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Segments of at most 6 pages, and dense rows already there: a large index, at a small size."""
    monkeypatch.setattr(pending, "MAX_PAGES", 6)
    monkeypatch.setattr(postings, "_DENSE_MIN_PAGES", 2)
    monkeypatch.setattr(postings, "_DENSE_FROM", 0.4)
    monkeypatch.setattr(postings, "_DENSE_SPARE_BYTES", 1000.0)
    return


# Few distinct weights make many ties; the others make rounding matter.
WEIGHTS = st.one_of(
    st.sampled_from([0.5, 1.0, 2.0]),
    st.floats(2.0**-20, 2.0, width=32),
    st.floats(2.0**-59, 2.0**53, width=32),
)


def vectors(vocabulary: int, most: int, least: int = 0) -> st.SearchStrategy[SparseVector]:
    terms = st.dictionaries(st.integers(0, vocabulary - 1), WEIGHTS, min_size=least, max_size=most)
    return terms.map(SparseVector.from_dict)


METADATA = st.fixed_dictionaries(
    {},
    optional={
        "lang": st.sampled_from(["en", "de", "1", ""]),
        "year": st.one_of(st.integers(2018, 2022), st.sampled_from([2019.0, 2020.5, True, None])),
        "path": st.sampled_from(["a/x.pdf", "a/y.pdf", "b/x.pdf", "ä/z.pdf"]),
    },
)
FILTERS = st.sampled_from(
    [
        {},
        {"lang": "en"},
        {"lang": ["en", "de"]},
        {"lang": {"ne": "de"}},
        {"year": {"gte": 2019, "lt": 2021}},
        {"year": 2019},
        {"year": True},
        {"path": {"prefix": "a/"}},
        {"path": {"prefix": "ä"}, "year": {"lte": 2020}},
        {"nothing": "here"},
        ["year=2019..2020", "path^=a/"],
        ["lang=1,en"],
    ]
)
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS), vectors(VOCABULARY, 8), METADATA),
    st.tuples(st.just("delete"), st.sampled_from(IDS)),
    st.tuples(st.sampled_from(["commit", "commit", "flush", "merge", "compact", "rollback", "reopen"])),
)
QUERIES = st.tuples(vectors(VOCABULARY + 3, 9), st.sampled_from([1, 2, 3, 10, 100]), FILTERS)


def agrees(index: Index, oracle: Oracle, query: SparseVector, k: int, given: object) -> None:
    wanted = oracle.search(query, k, Filter.of(given))  # type: ignore[arg-type]
    assert [(hit.id, hit.score) for hit in index.search(query, k, given)] == wanted  # type: ignore[arg-type]


def weighted(rng: np.random.Generator, terms: NDArray[np.int64]) -> SparseVector:
    distinct = np.unique(terms).astype(np.uint32)
    return SparseVector(distinct, rng.random(len(distinct)).astype(np.float32) + np.float32(0.01))


def apply(folder: Path, changes: list[tuple]) -> Oracle:  # type: ignore[type-arg]
    """Make the changes to an index and to the oracle; returns the oracle at the last commit."""
    oracle, committed = Oracle(), Oracle()
    target = IndexWriter(folder, identity(VOCABULARY))
    for what, *rest in [*changes, ("commit",)]:
        if what == "add":
            target.add(rest[0], rest[1], rest[2])
            oracle.add(*rest)
        elif what == "delete":
            target.delete(rest[0])
            oracle.delete(rest[0])
        elif what == "reopen":  # without a commit: changes are dropped
            target.close()
            target = IndexWriter(folder)
            oracle = committed.copy()
        else:
            getattr(target, what)()
            if what == "rollback":
                oracle = committed.copy()
            elif what != "flush":
                committed = oracle.copy()
    target.close()
    return committed


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(CHANGES, max_size=40), queries=st.lists(QUERIES, min_size=1, max_size=6))
def test_any_history_gives_the_oracles_answers(engine: str, changes: list, queries: list) -> None:  # type: ignore[type-arg]
    with TemporaryDirectory() as folder:
        oracle = apply(Path(folder), changes)
        index = Index.open(folder, engine=engine)
        assert index.check() == []
        assert list(index.ids()) == list(oracle.pages)
        assert index.pages == len(oracle.pages)
        for query, k, given_filter in queries:
            agrees(index, oracle, query, k, given_filter)
        for id, (vector, metadata) in oracle.pages.items():
            assert index.metadata(id) == metadata
            assert index.vector(id).terms.tolist() == vector.terms.tolist()
            assert index.vector(id).weights.tolist() == vector.weights.tolist()
        frequencies = np.zeros(VOCABULARY + 2, dtype=np.int64)
        for vector, _ in oracle.pages.values():
            frequencies[vector.terms] += 1
        counted = index.document_frequency(np.arange(VOCABULARY + 2, dtype=np.uint32))
        assert counted.tolist() == frequencies.tolist()


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pages=st.lists(vectors(LONG_VOCABULARY, 30), max_size=20),
    query=st.dictionaries(st.integers(0, LONG_VOCABULARY - 1), WEIGHTS, min_size=101).map(
        SparseVector.from_dict
    ),
    k=st.sampled_from([1, 3, 50]),
)
def test_long_queries(engine: str, pages: list[SparseVector], query: SparseVector, k: int) -> None:
    with TemporaryDirectory() as folder:
        oracle = Oracle()
        with IndexWriter(folder, identity(LONG_VOCABULARY)) as target:
            for number, vector in enumerate(pages):
                target.add(str(number), vector)
                oracle.add(str(number), vector, {})
        agrees(Index.open(folder, engine=engine), oracle, query, k, None)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("vocabulary", [3000, 70_000])
def test_larger_random_corpora(
    engine: str, vocabulary: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # real limits: dense rows, one segment for each commit
    rng = np.random.default_rng(5)
    oracle = Oracle()
    weights = 1 / np.arange(10, 210)
    for commit in range(3):
        with IndexWriter(tmp_path / "i", identity(vocabulary)) as target:
            for number in range(commit * 2000, commit * 2000 + 5000):
                common = rng.choice(200, 20, replace=False, p=weights / weights.sum())
                terms = np.unique(np.concatenate((common, rng.integers(200, vocabulary, 10)))).astype(
                    np.uint32
                )
                vector = SparseVector(terms, rng.random(len(terms)).astype(np.float32) + np.float32(0.01))
                target.add(f"p{number}", vector, {"n": number})
                oracle.add(f"p{number}", vector, {"n": number})
            for number in range(commit * 1000, 9000, 17):
                target.delete(f"p{number}")
                oracle.delete(f"p{number}")
    index = Index.open(tmp_path / "i", engine=engine)
    assert any(len(live.segment.full.dense) for live in index._view.snapshot.segments)
    for case in range(25):
        terms = np.unique(rng.choice(230, int(rng.integers(1, 15))))
        query = SparseVector(
            terms.astype(np.uint32), rng.random(len(terms)).astype(np.float32) + np.float32(0.01)
        )
        agrees(index, oracle, query, [1, 10, 100, 20_000][case % 4], [None, {"n": {"lt": 3000}}][case % 2])
