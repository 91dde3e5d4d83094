"""Recall as the corpus grows: the judged pages among more and more others.

Others come in two kinds. Real ones are vectors or texts of other pages. Generated ones are recombinations:
each takes every term of two random real pages with probability one half, so that words go together as they
do in real pages, and none is an exact copy. They make the corpus large, not more varied; results say how
many there were.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import measure
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, SparseVector

NAMES = ("recall@5", "recall@100", "ndcg@5")


def recombined(real: Sequence[SparseVector], count: int, seed: int = 0) -> Iterator[SparseVector]:
    """Pages between two real ones."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        a, b = (real[int(place)] for place in rng.integers(0, len(real), 2))
        terms, weights = np.concatenate([a.terms, b.terms]), np.concatenate([a.weights, b.weights])
        kept = rng.random(len(terms)) < 0.5
        distinct, first = np.unique(terms[kept], return_index=True)
        yield SparseVector(distinct, weights[kept][first])


def recall_as_it_grows(
    dataset: Dataset,
    encoder: Encoder,
    judged: PageVectors,
    others: PageVectors,
    sizes: Sequence[int],
    seed: int = 0,
) -> list[dict[str, object]]:
    """Measures at each corpus size; the index grows by what is missing, real pages first."""
    if sorted(sizes) != list(sizes) or sizes[0] < len(judged):
        raise InputError(f"Sizes must grow, from at least the {len(judged)} judged pages; got {list(sizes)}.")
    order = np.random.default_rng(seed).permutation(len(others))
    real = list(others)
    generated = recombined(real or list(judged), max(0, sizes[-1] - len(judged) - len(real)), seed + 1)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="vsplade-growth-") as folder:
        with IndexWriter(folder, EncoderIdentity.of(encoder)) as writer:
            for page, vector in judged.items():
                writer.add(page, vector)
        size = len(judged)
        for target in sizes:
            with IndexWriter(folder, EncoderIdentity.of(encoder)) as writer:
                for number in range(size - len(judged), target - len(judged)):
                    vector = real[int(order[number])] if number < len(real) else next(generated)
                    writer.add(f"other {number}", vector)
            size = target
            scores = measure(dataset.qrels, _search(dataset, Index.open(folder, encoder)), NAMES)
            row: dict[str, object] = {"pages": size, "generated": max(0, size - len(judged) - len(real))}
            rows.append({**row, **{name: round(value, 4) for name, value in scores.items()}})
    return rows


def _search(dataset: Dataset, index: Index) -> Run:
    vectors = [index.encode_query(dataset.queries[query]) for query in dataset.judged]
    rankings = index.rank(vectors, 100)
    return {
        query: dict(zip(index.page_ids(ranking), ranking.scores.tolist(), strict=True))
        for query, ranking in zip(dataset.judged, rankings, strict=True)
    }


def extrapolate(rows: Sequence[dict[str, object]], pages: float, name: str = "recall@5") -> float:
    """A straight line through the measure over the logarithm of the size, continued. Not a measurement."""
    if len(rows) < 2:
        raise InputError("An extrapolation needs at least two sizes.")
    sizes = [math.log10(float(str(row["pages"]))) for row in rows]
    values = [float(str(row[name])) for row in rows]
    slope, start = np.polyfit(sizes, values, 1)
    return float(min(1.0, max(0.0, start + slope * math.log10(pages))))
