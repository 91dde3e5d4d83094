"""Join the results of several retrievers into one ranking.

Relative score fusion (RSF): per query, each list's scores are scaled to [0, 1] by their own minimum and
maximum, then added with weights that sum to 1. Decisions that the formula leaves open, made once, here:

- The minimum and maximum are over the list that is given, so fetch equally deep from every retriever.
- A page that is missing from a list gets 0 from it: no more than the worst page in it gets.
- A list whose scores are all equal (or that holds one page) says only "these": each of them gets 1.
- A list that is empty for a query adds nothing; the weights of the others stay as they are.
- A page that a retriever cannot see at all (a scan has no text layer, another index does not hold it) is
  not a
  page that it did not find: where ``unseen`` names such pages, the weights of those that do see the page are
  scaled up to sum to 1. So a corpus of scans and born-digital pages is ranked fairly, and one of scans alone
  exactly as by the reader alone.
- A list of weight 0 is left out, pages and all.
- Equal fused scores are ordered by page id.

Reciprocal rank fusion (RRF) looks at ranks only: a page at rank r adds weight / (k + r); missing adds 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from vsplade.errors import InputError

Scores = Mapping[str, float]
"""Page id -> score, for one query."""
Runs = Mapping[str, Scores]
"""Query id -> scores."""


Unseen = Sequence[Collection[str]]
"""For each list: the pages that its retriever cannot see."""


def relative_score_fusion(
    lists: Sequence[Scores], weights: Sequence[float] | None = None, unseen: Unseen | None = None
) -> dict[str, float]:
    """RSF of one query's results, best first; equal weights when none are given."""
    shares = _check_weights(weights, len(lists))
    fused: dict[str, float] = {}
    for scores, weight in zip(lists, shares, strict=True):
        for page, value in min_max(scores).items() if weight else ():
            fused[page] = fused.get(page, 0.0) + weight * value
    return _best_first(_make_up(fused, shares, unseen))


def reciprocal_rank_fusion(
    lists: Sequence[Scores],
    weights: Sequence[float] | None = None,
    unseen: Unseen | None = None,
    k: float = 60.0,
) -> dict[str, float]:
    """RRF of one query's results, best first. Pages with equal scores share the better rank."""
    if not 0 <= k < math.inf:
        raise InputError(f"RRF's k must be a number of at least 0, not {k}.")
    shares = _check_weights(weights, len(lists))
    fused: dict[str, float] = {}
    for scores, weight in zip(lists, shares, strict=True):
        _check_finite(scores)
        rank, previous = 0, math.inf
        for position, (page, score) in enumerate(_best_first(scores).items() if weight else (), 1):
            if score != previous:
                rank, previous = position, score
            fused[page] = fused.get(page, 0.0) + weight / (k + rank)
    return _best_first(_make_up(fused, shares, unseen))


def fuse(
    lists: Sequence[Scores],
    weights: Sequence[float] | None = None,
    method: str = "rsf",
    unseen: Unseen | None = None,
) -> dict[str, float]:
    """One query's results by the named method, best first."""
    return _method(method)(lists, weights, unseen)


def fuse_runs(
    runs: Sequence[Runs],
    weights: Sequence[float] | None = None,
    method: str = "rsf",
    depth: int | None = None,
    unseen: Unseen | None = None,
) -> dict[str, dict[str, float]]:
    """Fuse whole runs; a query that any run answers is answered. ``depth`` cuts the result."""
    join = _method(method)
    queries = list(dict.fromkeys(query for run in runs for query in run))
    fused = {query: join([run.get(query, {}) for run in runs], weights, unseen) for query in queries}
    if depth is None:
        return fused
    return {query: dict(list(pages.items())[:depth]) for query, pages in fused.items()}


def min_max(scores: Scores) -> dict[str, float]:
    """Scores scaled to [0, 1]; all equal: all 1."""
    _check_finite(scores)
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {page: (score - low) / (high - low) for page, score in scores.items()}


def _make_up(fused: dict[str, float], shares: Sequence[float], unseen: Unseen | None) -> dict[str, float]:
    """Scale up pages that some retrievers cannot see, by the weight of those that can."""
    if unseen is None:
        return fused
    if len(unseen) != len(shares):
        raise InputError(f"{len(shares)} lists of results need {len(shares)} sets of unseen pages.")
    made_up = {}
    for page, score in fused.items():
        seeing = math.fsum(share for share, hidden in zip(shares, unseen, strict=True) if page not in hidden)
        made_up[page] = score / seeing if seeing > 0 else score
    return made_up


def _check_weights(weights: Sequence[float] | None, lists: int) -> list[float]:
    if lists < 1:
        raise InputError("There is nothing to fuse: give at least one list of results.")
    if weights is None:
        return [1 / lists] * lists
    if len(weights) != lists:
        raise InputError(f"{lists} lists of results need {lists} weights, not {len(weights)}.")
    if not all(0 <= weight <= 1 for weight in weights) or abs(math.fsum(weights) - 1) > 1e-6:
        raise InputError(f"Fusion weights must lie between 0 and 1 and sum to 1; got {list(weights)}.")
    return list(weights)


def _check_finite(scores: Scores) -> None:
    for page, score in scores.items():
        if not math.isfinite(score):
            raise InputError(f"Page {page!r} has the score {score}, which cannot be fused.")


def _best_first(scores: Scores) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))


Method = Callable[[Sequence[Scores], Sequence[float] | None, Unseen | None], dict[str, float]]
METHODS: dict[str, Method] = {"rsf": relative_score_fusion, "rrf": reciprocal_rank_fusion}


def _method(name: str) -> Method:
    if name not in METHODS:
        raise InputError(f"There is no fusion {name!r}; choose one of: {', '.join(METHODS)}.")
    return METHODS[name]
