"""Search by meaning against a plain computation over all pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsplade.errors import IndexFormatError
from vsplade.search import by_meaning
from vsplade.search.by_meaning import DEPTH, LOOKED_AT, MeaningEngine, trust
from vsplade.search.index import Index
from vsplade.search.query_plan import MeaningPart
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Direction, SparseVector, Windows

TERMS, DIMENSIONS, CLUSTERS = 40, 16, 12


class Corpus:
    """Random pages with words and windows, and centres that windows are sorted by."""

    def __init__(self, seed: int, pages: int, dimensions: int = DIMENSIONS) -> None:
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.centres = rng.normal(size=(CLUSTERS, dimensions)).astype(np.float32)
        self.vectors = [self._page() for _ in range(pages)]

    def _page(self) -> SparseVector:
        count = int(self.rng.integers(0, 4))
        codes = self.rng.integers(-127, 128, size=(count, self.centres.shape[1])).astype(np.int8)
        codes[:, 0] |= 1  # no window without a direction
        clusters = (codes.astype(np.float32) @ self.centres.T).argmax(axis=1).astype(np.uint16)
        terms = np.sort(self.rng.choice(TERMS, int(self.rng.integers(0, 8)), replace=False)).astype(np.uint32)
        weights = self.rng.uniform(0.05, 1, len(terms)).astype(np.float32)
        return SparseVector(terms, weights, Windows(codes, clusters))

    def query(self) -> SparseVector:
        vector = self.rng.normal(size=self.centres.shape[1]).astype(np.float32)
        vector /= np.linalg.norm(vector)
        terms = np.sort(self.rng.choice(TERMS, int(self.rng.integers(1, 6)), replace=False)).astype(np.uint32)
        weights = self.rng.uniform(0.5, 4, len(terms)).astype(np.float32)
        near = np.argsort(-(self.centres @ vector)).astype(np.uint16)
        vocabulary = int(self.rng.integers(TERMS // 2, TERMS + 1))
        return SparseVector(terms, weights, Direction(vector, near, vocabulary))

    def index(self, folder: Path, engine: str = "auto") -> Index:
        """Written in several commits, some pages replaced and some deleted."""
        identity = EncoderIdentity("test", "1", TERMS)
        half = len(self.vectors) // 2
        with IndexWriter(folder, identity) as writer:
            for number, vector in enumerate(self.vectors[: half + 1]):
                writer.add(f"p{number}", vector, {"year": number % 3})
        with IndexWriter(folder, identity) as writer:
            for number, vector in enumerate(self.vectors[half:], half):
                writer.add(f"p{number}", vector, {"year": number % 3})
            writer.add("gone", self.vectors[0])
        with IndexWriter(folder, identity) as writer:
            writer.delete("gone")
        return Index.open(folder, engine=engine)


def plain(vectors: list[SparseVector], query: SparseVector, k: int) -> dict[str, float]:
    """Every page scored as the module's first lines say; best first."""
    assert isinstance(query.meaning, Direction)
    weights = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
    words = [
        sum(w * weights.get(t, 0.0) for t, w in zip(v.terms.tolist(), v.weights.tolist(), strict=True))
        for v in vectors
    ]
    single = {term: weight for term, weight in weights.items() if term < query.meaning.vocabulary}
    total = sum(single.values())
    best = [n for n in sorted(range(len(words)), key=lambda n: -words[n]) if words[n] > 0][:LOOKED_AT]
    held = [sum(single.get(term, 0.0) for term in vectors[n].terms.tolist()) for n in best]
    share = trust(max(words) / total, max(held, default=0.0) / total) if total else 1.0
    total = total or 1.0
    stored = any(isinstance(v.meaning, Windows) and len(v.meaning.codes) for v in vectors)
    scores = {}
    for number, (vector, word) in enumerate(zip(vectors, words, strict=True)):
        assert isinstance(vector.meaning, Windows)
        codes = vector.meaning.codes.astype(np.float64)
        cosines = codes @ query.meaning.vector / np.linalg.norm(codes, axis=1) if len(codes) else [0.0]
        scores[f"p{number}"] = (word + total * share * max(0.0, max(cosines))) / (1 + share if stored else 1)
    ranked = sorted(scores.items(), key=lambda item: -item[1])[:k]
    return {page: score for page, score in ranked if score > 0}


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    pages=st.integers(1, DEPTH),
    k=st.integers(1, 20),
    engine=st.sampled_from(["numpy", "numba"]),
)
def test_equals_a_plain_computation(
    seed: int, pages: int, k: int, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus = Corpus(seed, pages)
    index = corpus.index(tmp_path_factory.mktemp("index"), engine)
    for _ in range(3):
        query = corpus.query()
        expected = plain(corpus.vectors, query, k)
        hits = index.search(query, k)
        assert [hit.score for hit in hits] == pytest.approx(list(expected.values()), abs=1e-4)
        for hit in hits:
            assert hit.score == pytest.approx(plain(corpus.vectors, query, pages)[hit.id], abs=1e-4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), pages=st.integers(1, 150), k=st.integers(1, 60))
def test_both_engines_find_the_same_with_filters(
    seed: int, pages: int, k: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus = Corpus(seed, pages)
    index = corpus.index(tmp_path_factory.mktemp("index"))
    compiled = Index.open(index.where, engine="numba")
    for filter in (None, {"year": [1, 2]}):
        query = corpus.query()
        wanted = index.search(query, k, filter)
        found = compiled.search(query, k, filter)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-4)
        assert {hit.id for hit in found} == {hit.id for hit in wanted} or len(wanted) == k


def test_merging_keeps_windows(tmp_path: Path) -> None:
    corpus = Corpus(3, 40)
    index = corpus.index(tmp_path)
    query = corpus.query()
    before = {hit.id: hit.score for hit in index.search(query, 20)}
    with IndexWriter(tmp_path) as writer:
        writer.compact()
    after = {hit.id: hit.score for hit in Index.open(tmp_path).search(query, 20)}
    assert after == pytest.approx(before, rel=1e-5)
    for number, vector in enumerate(corpus.vectors):
        stored = Index.open(tmp_path).vector(f"p{number}").meaning
        assert isinstance(vector.meaning, Windows)
        wanted = {row.tobytes() for row in vector.meaning.codes}
        assert (set() if stored is None else {row.tobytes() for row in stored.codes}) == wanted


@pytest.mark.parametrize("dimensions", [16, 63, 64, 320, 333, 600])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_compiled_loops_find_the_same(filtered: bool, dimensions: int, tmp_path: Path) -> None:
    """With more pages than words and meaning propose, so that the nearest windows must be chosen. Bytes are
    multiplied 256 at a time, then 64, then one by one.
    """
    corpus = Corpus(7, 700, dimensions)
    index = corpus.index(tmp_path)
    engine, segments = index._view.meaning, index._view.snapshot.segments
    masks = [live.live for live in segments]
    if filtered:
        masks = [corpus.rng.random(live.segment.pages) < 0.3 for live in segments]
    for _ in range(20):
        direction = corpus.query().meaning
        assert isinstance(direction, Direction)
        numbers, cosines = engine.nearest(direction, masks, 60)
        others, values = engine.nearest(direction, masks, 60, compiled=True)
        assert len(numbers) == len(set(others.tolist())) == 60
        assert values == pytest.approx(cosines, abs=1e-5)
        assert len(set(numbers.tolist()) & set(others.tolist())) >= 59  # two may be as near, up to rounding


def test_more_results_than_there_are_windows(tmp_path: Path) -> None:
    corpus = Corpus(8, 30)
    query = corpus.query()
    for engine in ("numpy", "numba"):
        hits = corpus.index(tmp_path / engine, engine).search(query, 1 << 24)
        assert len(hits) == len(plain(corpus.vectors, query, 30))


def test_a_small_budget_looks_at_the_nearest_clusters_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus(5, 50)
    index = corpus.index(tmp_path)
    monkeypatch.setattr(by_meaning, "MOST_BUDGET", 1)
    monkeypatch.setattr(by_meaning, "LEAST_CLUSTERS", 1)
    parts = [
        MeaningPart(live.segment, live.segment.windows, live.base) for live in index._view.snapshot.segments
    ]
    engine, masks = MeaningEngine(parts), [live.live for live in index._view.snapshot.segments]
    query = corpus.query()
    assert isinstance(query.meaning, Direction)
    numbers, _ = engine.nearest(query.meaning, masks, 50)
    occupied = {int(c) for v in corpus.vectors if isinstance(v.meaning, Windows) for c in v.meaning.clusters}
    nearest = next(int(cluster) for cluster in query.meaning.clusters if int(cluster) in occupied)
    inside = {
        f"p{n}"
        for n, v in enumerate(corpus.vectors)
        if isinstance(v.meaning, Windows) and nearest in v.meaning.clusters.tolist()
    }
    snapshot = index._view.snapshot
    found = {snapshot.locate(int(number))[0].id(snapshot.locate(int(number))[1]) for number in numbers}
    assert found == inside


def test_words_decide_where_they_are_found() -> None:
    assert trust(0.4, 0.9) < trust(0.2, 0.7) < trust(0.1, 0.7) < trust(0.1, 0.3) < trust(0.0, 0.0)


def test_scores_are_no_larger_where_words_find_nothing(tmp_path: Path) -> None:
    """A score is a mean of two: neither words nor meaning alone can be above the query's own weights, and
    what a hit lists adds up to its score."""
    corpus = Corpus(11, 60)
    index = corpus.index(tmp_path)
    for _ in range(10):
        asked = corpus.query()
        assert isinstance(asked.meaning, Direction)
        unknown = replace(asked, terms=asked.terms[:1], weights=asked.weights[:1])
        unknown = replace(unknown, meaning=replace(asked.meaning, vocabulary=TERMS))
        for query in (asked, unknown):
            for hit in index.search(query, 5):
                assert hit.score <= float(query.weights.sum()) + 1
                assert sum(match.product for match in hit.explain()) == pytest.approx(hit.score, abs=1e-4)
                explained = index.explain(query, hit.id)
                assert sum(match.product for match in explained) == pytest.approx(hit.score, abs=1e-4)


def test_a_filtered_search_is_explained_with_its_filter(tmp_path: Path) -> None:
    """How words and meaning count depends on the best page that passes."""
    corpus = Corpus(12, 60)
    index, others = corpus.index(tmp_path), 0
    for _ in range(20):
        asked = corpus.query()
        for hit in index.search(asked, 5, {"year": 1}):
            explained = index.explain(asked, hit.id, filter={"year": 1})
            assert sum(match.product for match in explained) == pytest.approx(hit.score, abs=1e-4)
            unfiltered = index.explain(asked, hit.id)
            others += abs(sum(match.product for match in unfiltered) - hit.score) > 1e-3
    assert others


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_windows_of_another_model_are_an_error(engine: str, tmp_path: Path) -> None:
    """The numpy engine raised a ValueError, the compiled one found nothing."""
    corpus = Corpus(5, 20)
    index, query = corpus.index(tmp_path, engine), corpus.query()
    assert isinstance(query.meaning, Direction)
    shorter = Direction(query.meaning.vector[:7], query.meaning.clusters)
    with pytest.raises(IndexFormatError, match="in \\[16\\] numbers, but the query's meaning has 7"):
        index.search(replace(query, meaning=shorter))
    assert index.search(replace(query, meaning=None))
