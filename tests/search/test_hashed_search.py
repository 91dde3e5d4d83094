"""Hashed terms count only where the check agrees, in every engine and in every explanation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from vsplade.encode import load_encoder
from vsplade.encode.hash_bits import MASK, stamped
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.search.explain import explain
from vsplade.search.hashed_search import has_checks, same_terms, word_score
from vsplade.search.index import Index
from vsplade.search.query_plan import checked_query
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import QueryVector, SparseVector

VOCABULARY, HASHED = 60, 30
"""Terms, and the first that is a hash."""
CHECKS = 3
"""So few that many pages have the right number and the wrong check."""


def vector(random: np.random.Generator, terms: int) -> SparseVector:
    chosen = np.sort(random.choice(VOCABULARY, terms, replace=False)).astype(np.uint32)
    weights = random.uniform(0.1, 1, terms).astype(np.float32)
    marked = stamped(weights, random.integers(0, CHECKS, terms))
    return SparseVector(chosen, np.where(chosen < HASHED, weights, marked))


def question(random: np.random.Generator) -> QueryVector:
    plain = vector(random, 8)
    checks = random.integers(0, CHECKS, 8).astype(np.int32)
    weights = np.where(plain.terms < HASHED, plain.weights, 4 * plain.weights).astype(np.float32)
    return QueryVector(
        plain.terms, weights, None, np.where(plain.terms < HASHED, -1, checks).astype(np.int32)
    )


def true_score(query: QueryVector, page: SparseVector) -> np.float32:
    """As the definition says, one term after the other."""
    assert query.checks is not None
    bits, score = page.weight_bits(), 0.0
    held = dict(zip(page.terms.tolist(), page.weights.tolist(), strict=True))
    for term, weight, check in zip(query.terms.tolist(), query.weights, query.checks.tolist(), strict=True):
        if term in held and (check < 0 or bits[term] & MASK == check):
            score += float(weight) * held[term]
    return np.float32(score)


def make_index(folder: Path, pages: Sequence[SparseVector], engine: str) -> Index:
    identity = EncoderIdentity("hashes", "hashes-1", VOCABULARY)
    with IndexWriter(folder, identity) as writer:
        for number, page in enumerate(pages):
            writer.add(f"{number:03}", page, {})
            if number == 120:
                writer.commit()
        writer.commit()
    return Index.open(folder, engine=engine)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_rankings_are_those_of_the_definition(tmp_path: Path, engine: str) -> None:
    random = np.random.default_rng(1)
    pages = [vector(random, 20) for _ in range(300)]
    index = make_index(tmp_path / "index", pages, engine)
    for k in (1, 10, 400):
        queries = [question(random) for _ in range(20)]
        for query, ranking in zip(queries, index.rank(queries, k), strict=True):
            scores = np.array([true_score(query, page) for page in pages])
            best = np.lexsort((np.arange(len(pages)), -scores))[:k]
            best = best[scores[best] > 0]
            assert index.page_ids(ranking) == [f"{number:03}" for number in best]
            assert ranking.scores.tolist() == scores[best].tolist()


def test_an_explanation_adds_up_to_the_score() -> None:
    random = np.random.default_rng(2)
    for _ in range(50):
        query, page = question(random), vector(random, 20)
        score = true_score(query, page)
        assert word_score(query, page) == pytest.approx(score, rel=1e-6)
        assert sum(match.product for match in explain(query, page, str)) == pytest.approx(score, rel=1e-5)
        unchecked = SparseVector(query.terms, query.weights)
        assert same_terms(query, page) == (word_score(unchecked, page) == pytest.approx(score, rel=1e-6))


def test_a_vector_without_checks_counts_every_number(tmp_path: Path) -> None:
    page = SparseVector(np.array([40], np.uint32), stamped(np.ones(1, np.float32), np.array([7])))
    index = make_index(tmp_path / "index", [page], "numpy")
    plain = SparseVector(page.terms, np.ones(1, np.float32))
    other = QueryVector(page.terms, plain.weights, None, np.array([8], np.int32))
    assert len(index.rank([plain])[0]) == 1
    assert len(index.rank([other])[0]) == 0
    assert not has_checks(plain)
    assert has_checks(checked_query(other, VOCABULARY))


def test_what_a_query_asks_for_by_hash_has_a_check() -> None:
    encoder = load_encoder("reader:meaning=false")
    assert isinstance(encoder, ReaderEncoder)
    query = encoder.encode_query("toxicology report H-6927")
    words = len(encoder.vocabulary) - (1 << 15)
    assert isinstance(query, QueryVector)
    assert query.checks is not None
    assert ((query.checks >= 0) == (query.terms >= words)).all()
    page = encoder.weigh_text("the toxicology report H-6927")
    assert same_terms(query, page)
