"""Two-stage search against a plain loop: what the first stage keeps, what is proposed, exact scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.store.oracle import Oracle, identity

from research.two_stage import TwoStage, TwoStageIndex, largest, places, term_values
from vsplade.encode import load_encoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

# Of some terms nothing is asked, and most weigh so differently that page weights alone choose others.
VALUES = np.array([0, 0, 1e-3, 1e-3, 1, 1, 2, 30, 1e3, 1e3, 1e6, 1e9], dtype=np.float32)


def filled(folder: Path, vocabulary: int, pages: int, terms: int, engine: str) -> tuple[Index, Oracle]:
    rng, oracle = np.random.default_rng(3), Oracle()
    with IndexWriter(folder, identity(vocabulary)) as writer:
        for number in range(pages):
            chosen = np.sort(rng.choice(vocabulary, terms, replace=False)).astype(np.uint32)
            vector = SparseVector(chosen, rng.random(terms).astype(np.float32) + np.float32(0.1))
            writer.add(f"p{number}", vector)
            oracle.add(f"p{number}", vector, {})
        writer.commit()
        writer.delete("p7")
        oracle.delete("p7")
    return Index.open(folder, engine=engine), oracle


def named(index: Index, staged: TwoStageIndex, query: SparseVector, k: int) -> list[tuple[str, float]]:
    (ranking,) = staged.rank([query], k)
    return list(zip(index.page_ids(ranking), ranking.scores.tolist(), strict=True))


def proposed(
    oracle: Oracle, query: SparseVector, keep: int, values: NDArray[np.float32] | None = None
) -> Oracle:
    """Only the pages that share a term with the query among the ``keep`` of theirs that count most."""
    kept = Oracle()
    for id, (vector, metadata) in oracle.pages.items():
        weights = vector.weights if values is None else vector.weights * values[vector.terms]
        if set(SparseVector(vector.terms, weights).top(keep).terms.tolist()) & set(query.terms.tolist()):
            kept.pages[id] = (vector, metadata)
    return kept


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_proposed_is_scored_exactly(engine: str, plain: bool, tmp_path: Path) -> None:
    index, oracle = filled(tmp_path / "i", len(VALUES), 60, 6, engine)
    for keep in (1, 2, 4):
        staged = TwoStageIndex(index, TwoStage(keep, 1000, plain), VALUES)
        for terms in ({3: 1.0, 8: 0.5}, {0: 2.0}, {1: 1.0, 5: 1.0, 11: 0.1}):
            query = SparseVector.from_dict(terms)
            right = proposed(oracle, query, keep, None if plain else VALUES)
            assert named(index, staged, query, 100) == right.search(query, 100)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_few_proposals_and_all_terms(engine: str, tmp_path: Path) -> None:
    index, oracle = filled(tmp_path / "i", 60, 200, 15, engine)
    query = SparseVector(np.array([1, 5, 9, 33], np.uint32), np.array([1, 2, 0.5, 1], np.float32))
    everything = dict(oracle.search(query, 200))
    few = TwoStageIndex(index, TwoStage(5, 20))
    found = named(index, few, query, 10)
    assert found == sorted(found, key=lambda hit: -hit[1])
    assert all(everything[id] == score for id, score in found)
    assert 0 < few.recall([query], 10) < 1
    whole = TwoStageIndex(index, TwoStage(15, 200))
    assert named(index, whole, query, 10) == oracle.search(query, 10)
    assert whole.recall([query], 10) == 1.0
    queries = [SparseVector.from_dict({term: 1.0, 9: 0.5}) for term in range(40) if term != 9]
    one, two = (whole.rank(queries, 10, threads=threads) for threads in (1, 2))
    assert [ranking.numbers.tolist() for ranking in one] == [ranking.numbers.tolist() for ranking in two]


def test_options_that_cannot_be() -> None:
    with pytest.raises(InputError, match="not possible"):
        TwoStage(0)
    assert TwoStage().proposed(5) == 100
    assert TwoStage(pages=3).proposed(5) == 5


def test_words_that_matter_are_worth_more() -> None:
    reader = load_encoder("reader")
    values, pair = term_values(reader), term_values(load_encoder("reader+text"))
    assert values is not None
    assert pair is not None
    (the,), (lighthouse,) = (Tokenizer.load().encode(word) for word in ("the", "lighthouse"))
    assert values[lighthouse] > values[the] > 0
    assert values.shape == (len(reader.vocabulary),)
    assert np.array_equal(pair[: len(values)], values)
    assert not pair[len(values) :].any()  # plain queries ask for no text
    assert term_values(load_encoder("text")) is None


@settings(max_examples=200, deadline=None)
@given(
    pages=st.lists(
        st.tuples(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5]), max_size=9), st.integers(1, 10)),
        min_size=1,
        max_size=9,
    )
)
def test_the_first_stage_keeps_what_top_keeps(pages: list[tuple[list[float], int]]) -> None:
    weights = np.array([weight for page, _ in pages for weight in page], dtype=np.float32)
    lengths = np.array([len(page) for page, _ in pages])
    kept = largest(lengths, weights, np.array([keep for _, keep in pages]))
    wanted: list[bool] = []
    for page, keep in pages:
        vector = SparseVector(np.arange(len(page), dtype=np.uint32), np.array(page, dtype=np.float32))
        top = vector.top(keep).terms.tolist()
        wanted += [term in top for term in range(len(page))]
    assert kept.tolist() == wanted


@settings(max_examples=200, deadline=None)
@given(lengths=st.lists(st.integers(0, 500), min_size=1, max_size=40), average=st.integers(1, 600))
def test_the_first_stage_shares_out_its_places(lengths: list[int], average: int) -> None:
    shares = places(np.array(lengths), average).tolist()
    assert all(min(1, length) <= kept <= length for kept, length in zip(shares, lengths, strict=True))
    assert sum(shares) <= average * len(lengths) + len(lengths)
    assert sorted(shares) == [kept for _, kept in sorted(zip(lengths, shares, strict=True))]
    if average >= max(lengths):
        assert shares == lengths  # then two-stage search is exact
    if min(lengths) == max(lengths) >= average:
        assert set(shares) == {average}
