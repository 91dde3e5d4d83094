from __future__ import annotations

import numpy as np
import pytest

from research.bench import CorpusSpec, generate, make_queries
from research.bench.postings import Postings, exact_top
from vsplade.errors import InputError

SMALL = CorpusSpec(3000, vocabulary=8000, mean_terms=100, topics=20, topic_terms=300, piece_pages=1000)


def test_the_corpus_has_the_promised_shape() -> None:
    pieces = list(generate(SMALL))
    assert [piece.first_page for piece in pieces] == [0, 1000, 2000]
    terms = np.concatenate([piece.terms for piece in pieces])
    weights = np.concatenate([piece.weights for piece in pieces])
    lengths = np.concatenate([np.diff(piece.offsets) for piece in pieces])
    assert lengths.mean() == pytest.approx(100, rel=0.05)
    assert np.std(np.log(lengths)) == pytest.approx(0.4, abs=0.05)
    assert weights.min() > 0
    assert weights.max() <= 2
    shares = np.sort(np.bincount(terms, minlength=8000))[::-1] / 3000
    assert 0.25 < shares[0] <= 0.37  # the cap is 0.35, give or take the sample
    # Zipf's law beyond the cap: a straight line of slope about -1 on log-log paper.
    ranks = np.array([60, 500])
    slope = np.diff(np.log(shares[ranks])) / np.diff(np.log(ranks + 1.0))
    assert -1.3 < slope[0] < -0.5


def test_rows_are_valid_vectors() -> None:
    for piece in generate(SMALL):
        for row in range(0, len(piece), 97):
            terms = piece.terms[piece.offsets[row] : piece.offsets[row + 1]].astype(np.int64)
            assert (np.diff(terms) > 0).all()
            assert terms[-1] < 8000


def test_terms_of_a_topic_occur_together() -> None:
    """Query terms from one topic share more pages than their frequencies alone would give."""
    postings = Postings.of(SMALL)
    sets = [
        set(postings.pages[postings.starts[t] : postings.starts[t + 1]].tolist())
        for t in range(SMALL.vocabulary)
    ]
    lifts = []
    for query in make_queries(SMALL, 40):
        rare = [sets[int(t)] for t in query.terms if 5 < len(sets[int(t)]) < 300]
        for i, one in enumerate(rare):
            lifts += [len(one & other) / (len(one) * len(other) / 3000) for other in rare[:i]]
    assert np.mean(lifts) > 1.5


def test_the_same_spec_gives_the_same_corpus_and_another_seed_does_not() -> None:
    first, again = next(generate(SMALL)), next(generate(SMALL))
    assert np.array_equal(first.terms, again.terms)
    assert np.array_equal(first.weights, again.weights)
    other = next(generate(CorpusSpec(3000, 2, 8000, 100, topics=20, topic_terms=300, piece_pages=1000)))
    assert not np.array_equal(first.terms[:1000], other.terms[:1000])
    assert [q.terms.tolist() for q in make_queries(SMALL, 3)] == [
        q.terms.tolist() for q in make_queries(SMALL, 3)
    ]


def test_queries_have_8_to_15_distinct_terms() -> None:
    queries = make_queries(SMALL, 200)
    lengths = {len(query) for query in queries}
    assert lengths == set(range(8, 16))
    for query in queries:
        assert (np.diff(query.terms.astype(np.int64)) > 0).all()
        assert query.weights.min() > 0
        assert query.weights.max() <= 2


def test_exact_answers_equal_a_dense_product() -> None:
    pieces = list(generate(SMALL))
    dense = np.zeros((3000, 8000))
    for piece in pieces:
        rows = np.repeat(np.arange(len(piece)), np.diff(piece.offsets)) + piece.first_page
        dense[rows, piece.terms] = piece.weights
    queries = make_queries(SMALL, 12)
    oracle = exact_top(SMALL, queries, 10)
    overlap = []
    for query, pages, scores in zip(queries, oracle.pages, oracle.scores, strict=True):
        expected = dense[:, query.terms] @ query.weights.astype(np.float64)
        assert scores == pytest.approx(np.sort(expected)[::-1][: len(scores)])
        assert expected[pages] == pytest.approx(scores)
        overlap.append(np.count_nonzero(dense[:, query.terms], axis=1).mean())
    assert oracle.flops == pytest.approx(np.mean(overlap))
    assert oracle.postings == np.count_nonzero(dense)


def test_recall_accepts_ties_and_counts_misses() -> None:
    queries = make_queries(SMALL, 4)
    oracle = exact_top(SMALL, queries, 10)
    best = [pages[:10].tolist() for pages in oracle.pages]
    assert oracle.recall(best, 10) == 1.0
    assert oracle.recall([pages[:9] for pages in best], 10) == pytest.approx(0.9)
    assert oracle.recall([[] for _ in best], 10) == 0.0
    oracle.scores[:, 10] = oracle.scores[:, 9]  # the 11th now ties with the 10th
    swapped = [[*pages[:9], int(row[10])] for pages, row in zip(best, oracle.pages, strict=True)]
    assert oracle.recall(swapped, 10) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [{"pages": 0}, {"pages": 5, "cap": 1.0}, {"pages": 5, "vocabulary": 70_000}, {"pages": 5, "topics": 0}],
)
def test_impossible_specs_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        CorpusSpec(**wrong)
