"""How good a run is, how much work its vectors make, and whether one run is better than another by luck."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
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


def rounded(values: Mapping[str, float], digits: int = 4) -> dict[str, float]:
    """As reports show them."""
    return {name: round(value, digits) for name, value in values.items()}


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


@dataclass(frozen=True, slots=True)
class Significance:
    """System B minus system A over the same queries."""

    difference: float
    low: float
    """The lower end of the 95% confidence interval of the difference (percentile bootstrap)."""
    high: float
    p_value: float
    """Two-sided: how often a difference this large comes up when there is none."""
    queries: int
    samples: int

    def to_json(self) -> dict[str, float | int]:
        return asdict(self)


def paired_bootstrap(
    a: Mapping[str, float], b: Mapping[str, float], samples: int = 10_000, seed: int = 0
) -> Significance:
    """Compare per-query values of two systems by resampling queries with replacement.

    The same seed gives the same answer. The p-value is of the null hypothesis that the mean difference is
    zero (resampling the differences after their mean was taken off), with the observed sample counted, so it
    is never exactly 0.
    """
    if set(a) != set(b):
        odd = sorted(set(a) ^ set(b))[0]
        raise InputError(
            f"Both systems must be measured on the same queries; {odd!r} is in one of them only."
        )
    if not a or samples < 1:
        raise InputError("A comparison needs at least one query and one sample.")
    differences = np.array([b[query] - a[query] for query in sorted(a)], dtype=np.float64)
    observed = float(differences.mean())
    means = _resampled_means(differences, samples, np.random.default_rng(seed))
    low, high = np.quantile(means, [0.025, 0.975])
    # A hair of slack: sums in another order may differ in the last bit, and must still count as equal.
    at_least_as_large = int(np.count_nonzero(np.abs(means - observed) >= abs(observed) - 1e-12))
    return Significance(
        observed, float(low), float(high), (at_least_as_large + 1) / (samples + 1), len(a), samples
    )


def _resampled_means(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], samples: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    means = np.empty(samples, dtype=np.float64)
    step = max(1, 4_000_000 // len(values))  # bounds the index matrix to about 32 MB
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picks = rng.integers(0, len(values), size=(rows, len(values)))
        means[start : start + rows] = values[picks].mean(axis=1)
    return means
