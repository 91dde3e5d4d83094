"""Pages whose hash is that of other words, sorted out of a ranking: it is as if they had no such term.

Engines add up 8-bit levels, which know the number of a hashed term and not its check. So a few pages more
than wanted are asked for and scored again with the checks. No page that was not asked for can have more than
the last of them had: where the last page wanted has more even now, the ranking is exact. Else more pages are
asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.hash_bits import agree
from vsplade.search.query_plan import Engine, Masks, Ranking
from vsplade.types import QueryVector, SparseVector

BEYOND, TIMES = 8, 4
"""Pages more than wanted that are asked for first, and how many times as many when these do not do."""


def has_checks(query: SparseVector) -> bool:
    return isinstance(query, QueryVector) and query.checks is not None


def search_hashed(
    engine: Engine, queries: Sequence[SparseVector], k: int, masks: Masks, more: int = 0
) -> list[Ranking]:
    """As the engine's ``search``, with hashed terms only where their checks agree.

    Behind the ``k`` best come ``more`` pages at most; between these and the rest others might belong.
    """
    if not any(map(has_checks, queries)):
        return engine.search(queries, k + more, masks)
    rankings = engine.search(queries, k + more + BEYOND, masks)
    return [
        _checked(engine, query, ranking, k, masks, more)
        for query, ranking in zip(queries, rankings, strict=True)
    ]


def _checked(
    engine: Engine, query: SparseVector, ranking: Ranking, k: int, masks: Masks, more: int
) -> Ranking:
    asked = k + more + BEYOND
    while has_checks(query):
        scores = engine.word_scores(query, ranking.numbers)
        if (scores == ranking.scores).all():
            break
        best = np.lexsort((ranking.numbers, -scores))
        best = best[scores[best] > 0][: k + more]
        enough = len(best) >= k and scores[best[k - 1]] > ranking.scores[-1]
        if enough or len(ranking) < asked:
            return ranking.only(best, scores)
        asked *= TIMES
        (ranking,) = engine.search([query], asked, masks)
    return ranking.first(k + more)


def shared_terms(query: SparseVector, page: SparseVector) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of the query and of the page with the same term, and the same check where it is a hash."""
    _, asked, held = np.intersect1d(query.terms, page.terms, assume_unique=True, return_indices=True)
    if isinstance(query, QueryVector) and query.checks is not None:
        same = agree(page.weights[held], query.checks[asked])
        asked, held = asked[same], held[same]
    return asked, held


def same_terms(query: SparseVector, page: SparseVector) -> bool:
    """Whether no hash that they share is that of other words."""
    return len(shared_terms(query, page)[0]) == np.count_nonzero(np.isin(query.terms, page.terms))


def word_score(query: SparseVector, page: SparseVector) -> float:
    """Of one page, as an engine's ``word_scores`` has it."""
    asked, held = shared_terms(query, page)
    return float(np.float32((query.weights[asked].astype(np.float64) * page.weights[held]).sum()))
