"""How good a run is, and how much work its vectors make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate.dataset import Qrels
from vsplade.types import SparseVector

MEASURES: Mapping[str, str] = {
    "ndcg@5": "nDCG@5",
    "ndcg@10": "nDCG@10",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@100": "R@100",
    "mrr@10": "RR@10",
    "map@100": "AP@100",
}
"""Our names -> ir_measures' names. Its nDCG has linear gains by default, as mteb and trec_eval have."""

PerQuery = dict[str, dict[str, float]]
"""Measure -> query id -> value."""


def per_query(
    qrels: Qrels, run: Mapping[str, Mapping[str, float]], measures: Collection[str] = tuple(MEASURES)
) -> PerQuery:
    """Each measure for each judged query; a query that the run does not answer scores zero.

    Ties are broken as trec_eval does it, so other tools that read the same run agree.
    """
    ir_measures = _ir_measures()
    unknown = [name for name in measures if name not in MEASURES]
    if unknown:
        raise InputError(f"Unknown measure {unknown[0]!r}; valid: {', '.join(MEASURES)}.")
    wanted = {ir_measures.parse_measure(MEASURES[name]): name for name in measures}
    judged = [
        ir_measures.Qrel(query, page, relevance)
        for query, pages in qrels.items()
        for page, relevance in pages.items()
    ]
    scored = [
        ir_measures.ScoredDoc(query, page, float(score))
        for query, pages in run.items()
        if query in qrels
        for page, score in pages.items()
    ]
    # Zeros first: a provider that leaves a query out must not make the mean larger.
    values: PerQuery = {name: dict.fromkeys(qrels, 0.0) for name in measures}
    for metric in ir_measures.iter_calc(list(wanted), judged, scored):
        values[wanted[metric.measure]][metric.query_id] = float(metric.value)
    return values


def averages(values: PerQuery) -> dict[str, float]:
    """The mean over queries of every measure."""
    return {name: float(np.mean(list(queries.values()))) for name, queries in values.items()}


def measure(
    qrels: Qrels, run: Mapping[str, Mapping[str, float]], measures: Collection[str] = tuple(MEASURES)
) -> dict[str, float]:
    """The mean of each measure over the judged queries."""
    return averages(per_query(qrels, run, measures))


def flops(queries: Iterable[SparseVector], pages: Iterable[SparseVector]) -> float:
    """The paper's FLOPS: how many multiply-adds scoring one page for one query takes on average.

    That is the number of terms active in both, averaged over every pair of a query and a page. It needs no
    loop over pairs: by linearity it equals the sum over terms of P(term in a query) * P(term in a page), and
    this is computed exactly from document frequencies, not sampled.
    """
    query_frequency, query_count = term_frequencies(queries)
    page_frequency, page_count = term_frequencies(pages)
    if not query_count or not page_count:
        return 0.0
    shared = min(len(query_frequency), len(page_frequency))
    # Python integers would be exact for ever; int64 is until 9e18 products, far beyond any corpus here.
    products = int(query_frequency[:shared] @ page_frequency[:shared])
    return products / (query_count * page_count)


def term_frequencies(vectors: Iterable[SparseVector]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    """In how many vectors each term is active, and how many vectors there were."""
    frequency = np.zeros(0, dtype=np.int64)
    count = 0
    for vector in vectors:
        count += 1
        terms = vector.terms[vector.weights > 0].astype(np.int64)
        if len(terms) and int(terms.max()) >= len(frequency):
            grown = np.zeros(max(int(terms.max()) + 1, 2 * len(frequency)), dtype=np.int64)
            grown[: len(frequency)] = frequency
            frequency = grown
        frequency[terms] += 1
    return frequency, count


def active_terms(vectors: Iterable[SparseVector]) -> float:
    """The mean number of terms with a positive weight."""
    sizes = [int(np.count_nonzero(vector.weights > 0)) for vector in vectors]
    return float(np.mean(sizes)) if sizes else 0.0


def _ir_measures() -> Any:
    try:
        import ir_measures
    except ImportError as error:
        raise MissingExtraError("Measuring search quality", "eval") from error
    return ir_measures
