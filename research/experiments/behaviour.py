"""How rankings behave: kinds of queries, masked queries, margins, stop words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from research.experiments.lexicon import stop_terms
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import Weigh, search_queries
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import active_terms, measure, per_query
from vsplade.evaluate.runs import Run
from vsplade.types import Encoder, SparseVector, TermStatistics

SUBSETS: Mapping[str, Callable[[str], bool]] = {
    "has digit": lambda text: any(char.isdigit() for char in text),
    "has uppercase": lambda text: any(char.isupper() for char in text[1:]),
    "both": lambda text: any(c.isdigit() for c in text) and any(c.isupper() for c in text[1:]),
    "all": lambda text: True,
}
"""As the paper splits them: digits anywhere, capitals beyond the first character."""


def query_subsets(
    dataset: Dataset, runs: Mapping[str, Run], name: str = "recall@5"
) -> list[dict[str, object]]:
    """The measure of every run on every kind of query, and the share of queries that are of the kind. Of two
    runs the first's lead over the second is ``gap``; ``gap/all`` is how much wider it is than over all.
    """
    values = {system: per_query(dataset.qrels, run, [name])[name] for system, run in runs.items()}
    rows: list[dict[str, object]] = []
    for subset, belongs in SUBSETS.items():
        chosen = [query for query in dataset.judged if belongs(dataset.queries[query])]
        row: dict[str, object] = {"subset": subset, "share": round(len(chosen) / len(dataset.judged), 4)}
        means = {system: [scores[query] for query in chosen] for system, scores in values.items()}
        row |= {system: round(float(np.mean(some)), 4) if some else None for system, some in means.items()}
        rows.append(row)
    if len(runs) == 2:
        first, second = runs
        gaps = [_gap(row[first], row[second]) for row in rows]
        for row, gap in zip(rows, gaps, strict=True):
            row["gap"] = None if gap is None else round(gap, 4)
            row["gap/all"] = round(gap / gaps[-1], 2) if gap is not None and gaps[-1] else None
    return rows


def _gap(first: object, second: object) -> float | None:
    """Nothing where no query is of the kind."""
    return None if first is None else float(str(first)) - float(str(second))


def behaviour(dataset: Dataset, encoder: Encoder, vectors: PageVectors, k: int = 100) -> dict[str, object]:
    """The paper's table of masking, margin, stop words and active terms, for one encoder."""
    run, _, _ = search_queries(dataset, encoder, vectors, k)
    masked, _, _ = search_queries(dataset, encoder, vectors, k, weigh=mask_queries(encoder))
    before = measure(dataset.qrels, run, ["ndcg@5"])["ndcg@5"]
    after = measure(dataset.qrels, masked, ["ndcg@5"])["ndcg@5"]
    absolute, relative = margins(run)
    stop = stop_terms(encoder)
    return {
        "dataset": dataset.name,
        "encoder": encoder.name,
        "ndcg@5": round(before, 4),
        "ndcg@5, half of the query masked": round(after, 4),
        "change": round(after / before - 1, 4) if before else 0.0,
        "margin of the first over the second": round(absolute, 4),
        "margin as a share of the first's score": round(relative, 4),
        "stop words a page": round(float(np.mean([count_in(vector, stop) for vector in vectors])), 2),
        "stop words' share of matched terms": round(stop_share(dataset, encoder, vectors, stop), 4),
        "active terms a page": round(active_terms(vectors), 1),
    }


def margins(run: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    """Mean distance of the best page's score from the second's: as it is, and as a share of the best."""
    absolute, relative = [], []
    for pages in run.values():
        best = sorted(pages.values(), reverse=True)[:2]
        if len(best) == 2:
            absolute.append(best[0] - best[1])
            relative.append((best[0] - best[1]) / best[0] if best[0] else 0.0)
    return (float(np.mean(absolute)), float(np.mean(relative))) if absolute else (0.0, 0.0)


def count_in(vector: SparseVector, terms: frozenset[int]) -> int:
    return sum(int(term) in terms for term in vector.terms)


def stop_share(dataset: Dataset, encoder: Encoder, vectors: PageVectors, stop: frozenset[int]) -> float:
    """Of the terms that a query shares with its relevant pages: how many are stop words."""
    by_id = dict(vectors.items())
    matched = stopped = 0
    for query in dataset.judged:
        asked = encoder.encode_query(dataset.queries[query])
        for page, relevance in dataset.qrels[query].items():
            if relevance > 0:
                shared = np.intersect1d(asked.terms, by_id[page].terms)
                matched += len(shared)
                stopped += sum(int(term) in stop for term in shared)
    return stopped / matched if matched else 0.0


def mask_queries(encoder: Encoder, share: float = 0.5) -> Weigh:
    """Queries that lose the heavier part of their terms (rounded down)."""

    def weigh(text: str, statistics: TermStatistics | None = None) -> SparseVector:
        query = encoder.encode_query(text, statistics)
        gone = int(len(query) * share)
        keep = np.sort(np.lexsort((query.terms, -query.weights))[gone:])
        return SparseVector(query.terms[keep], query.weights[keep])

    return weigh
