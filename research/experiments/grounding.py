"""Do the heaviest terms stand on the page, and do pictures and captions know different words?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from research.experiments.lexicon import only_words, text_terms
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import search_queries
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import measure
from vsplade.types import Encoder, SparseVector

TOPS = (30, 50, 100)
UNION_TERMS = 30
"""Terms that the union analysis keeps of each view, as the paper does."""


def grounding(
    encoder: Encoder, reference: Mapping[str, str], views: Mapping[str, PageVectors]
) -> dict[str, dict[str, float]]:
    """For each view: the share of a page's heaviest k words that stand in its reference text, in the
    encoder's own vocabulary.

    As in the paper, the share is of k itself: a page with fewer than k terms cannot reach 1.
    """
    terms_of = text_terms(encoder)
    words = {page: set(terms_of(text)) for page, text in reference.items()}
    table = {}
    for name, vectors in views.items():
        shares: dict[int, list[float]] = {top: [] for top in TOPS}
        for page, vector in vectors.items():
            if page in words:
                vector = only_words(vector, encoder)
                heaviest = vector.terms[np.lexsort((vector.terms, -vector.weights))]
                there = np.array([int(term) in words[page] for term in heaviest[: max(TOPS)]], dtype=bool)
                for top in TOPS:
                    shares[top].append(float(there[:top].sum()) / top)
        table[name] = {f"top-{top}": round(float(np.mean(values)), 4) for top, values in shares.items()}
    return table


def gate(image: PageVectors, caption: PageVectors) -> PageVectors:
    """The product of two views, term by term."""
    captions = dict(caption.items())
    return PageVectors.collect((page, _product(vector, captions[page])) for page, vector in image.items())


def _product(a: SparseVector, b: SparseVector) -> SparseVector:
    terms, in_a, in_b = np.intersect1d(a.terms, b.terms, assume_unique=True, return_indices=True)
    return SparseVector(terms, a.weights[in_a] * b.weights[in_b])


def union(a: SparseVector, b: SparseVector) -> SparseVector:
    """Every term of either, with its larger weight."""
    terms = np.concatenate([a.terms, b.terms])
    weights = np.concatenate([a.weights, b.weights])
    distinct, place = np.unique(terms, return_inverse=True)
    largest = np.zeros(len(distinct), dtype=np.float32)
    np.maximum.at(largest, place, weights)
    return SparseVector(distinct, largest)


def union_analysis(
    dataset: Dataset, encoder: Encoder, image: PageVectors, caption: PageVectors, top: int = UNION_TERMS
) -> dict[str, object]:
    """Hit@1 with the heaviest terms of the picture, of the caption, and of both."""
    captions = dict(caption.items())
    views = {
        "image": PageVectors.collect((page, vector.top(top)) for page, vector in image.items()),
        "caption": PageVectors.collect((page, captions[page].top(top)) for page in image.ids),
    }
    pairs = list(zip(views["image"], views["caption"], strict=True))
    views["union"] = PageVectors.collect(
        (page, union(a, b)) for page, (a, b) in zip(image.ids, pairs, strict=True)
    )
    apart = [
        1 - len(np.intersect1d(a.terms, b.terms)) / max(1, min(len(a), len(b)))
        for a, b in pairs
        if len(a) and len(b)
    ]
    hits = {}
    for name, vectors in views.items():
        run, _, _ = search_queries(dataset, encoder, vectors, 10)
        hits[f"hit@1, {name}"] = round(_hit_at_1(dataset, run), 4)
        hits[f"ndcg@5, {name}"] = round(measure(dataset.qrels, run, ["ndcg@5"])["ndcg@5"], 4)
    return {"dataset": dataset.name, "terms": top, "disjoint": round(float(np.mean(apart)), 4), **hits}


def _hit_at_1(dataset: Dataset, run: Mapping[str, Mapping[str, float]]) -> float:
    """The share of queries whose best page is relevant."""
    hits = 0
    for query in dataset.judged:
        pages = run.get(query, {})
        best = min(pages, key=lambda page: (-pages[page], page), default=None)
        hits += best is not None and dataset.qrels[query].get(best, 0) > 0
    return hits / len(dataset.judged)
