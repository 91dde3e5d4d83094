"""Exact search in a collection of an outside engine: words, conditions, meaning.

The engine ranks; what it cannot check (a phrase, ``-word``, some filters) is checked here, page by page, and
more pages are asked for until enough of them pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vsplade.backends.collection import Collection, FoundRow, Prefilter
from vsplade.errors import VspladeWarning
from vsplade.search.by_meaning import DEPTH, LOOKED_AT, mix_of
from vsplade.search.conditions import Conditions
from vsplade.search.filters import Filter
from vsplade.search.hashed_search import BEYOND, has_checks, same_terms, word_score
from vsplade.search.query_plan import WORDS_ALONE, Mix
from vsplade.types import Direction, QueryWord, SparseVector

AT_ONCE = 64
"""Queries of one request."""


@dataclass(frozen=True, slots=True)
class AllowedPages:
    """Which pages may be found: by their metadata, and by their words."""

    filter: Filter = field(default_factory=Filter)
    words: Conditions = field(default_factory=Conditions)

    @property
    def prefilter(self) -> Prefilter:
        holding = tuple(_wholes(word) for word in self.words.must)
        return Prefilter(self.filter.conditions, holding)

    def check(self, collection: Collection, pages: Sequence[FoundRow]) -> list[FoundRow]:
        """Those that may be found."""
        passed = [page for page in pages if self.filter.allows(page.metadata)] if self.filter else list(pages)
        if not self.words or not passed:
            return passed
        rows = collection.fetch([page.key for page in passed])
        return [
            page
            for page in passed
            if page.key in rows and self.words.allows(rows[page.key].vector.weight_bits())
        ]


def _wholes(word: QueryWord) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(evidence.term for evidence in whole) for whole in word.wholes)


def by_words(
    collection: Collection, queries: Sequence[SparseVector], k: int, allowed: AllowedPages
) -> list[list[FoundRow]]:
    """The ``k`` best pages for each query, equal scores in page order."""
    answers: list[list[FoundRow]] = [[] for _ in queries]
    asked = [place for place, query in enumerate(queries) if len(query) and not allowed.words.impossible]
    for start in range(0, len(asked), AT_ONCE):
        places = asked[start : start + AT_ONCE]
        vectors = [queries[place] for place in places]
        found = collection.search(vectors, _first(vectors, k), allowed.prefilter)
        for place, pages in zip(places, found, strict=True):
            answers[place] = _enough(collection, queries[place], k, _first(vectors, k), allowed, pages)
    return answers


def _first(queries: Sequence[SparseVector], k: int) -> int:
    """Pages that are asked for at first."""
    return k + BEYOND if any(map(has_checks, queries)) else k


def _enough(
    collection: Collection,
    query: SparseVector,
    k: int,
    limit: int,
    allowed: AllowedPages,
    pages: list[FoundRow],
) -> list[FoundRow]:
    """Asks for more where too few of the first ``limit`` pass, or where others might have a higher score."""
    while True:
        passed = allowed.check(collection, [page for page in pages if page.score > 0])
        before, passed = passed, ordered(_without_others(collection, query, passed))
        sure = passed == ordered(before) or (len(passed) >= k and passed[k - 1].score > pages[-1].score)
        if len(pages) < limit or (len(passed) >= k and sure):
            break
        if limit >= collection.most_results:
            warnings.warn(
                f"{collection.where}: the best {limit:,} pages were looked at, which is all that the engine "
                f"gives; {len(passed):,} of them pass the conditions.",
                VspladeWarning,
                stacklevel=2,
            )
            break
        limit = min(4 * limit, collection.most_results)
        (pages,) = collection.search([query], limit, allowed.prefilter)
    return passed[:k]


def _without_others(collection: Collection, query: SparseVector, pages: Sequence[FoundRow]) -> list[FoundRow]:
    """The pages with what they have in common with the query, less the hashes of other words."""
    if not pages or not has_checks(query):
        return list(pages)
    rows = collection.fetch([page.key for page in pages])
    known = [(page, rows[page.key].vector) for page in pages if page.key in rows]
    scored = [
        page if same_terms(query, vector) else replace(page, score=word_score(query, vector))
        for page, vector in known
    ]
    return [page for page in scored if page.score > 0]


def ordered(pages: Sequence[FoundRow]) -> list[FoundRow]:
    return sorted(pages, key=lambda page: (-page.score, page.place))


def with_meaning(
    collection: Collection, query: SparseVector, words: Sequence[FoundRow], k: int, allowed: AllowedPages
) -> tuple[list[FoundRow], Mix]:
    """As ``MeaningEngine.join``: the ``k`` best by words and meaning together, and how both count.

    ``words`` are the best pages by words, at least ``DEPTH`` of them where there are so many.
    """
    direction = query.meaning
    if not isinstance(direction, Direction):
        return list(words[:k]), WORDS_ALONE
    mix = mix_of_query(collection, query, words)
    known = {page.key: page for page in words}
    near = nearest(collection, direction, max(k, DEPTH), allowed)
    cosines = {page.key: page.score for page in near}
    unscored = tuple(key for key in known if key not in cosines)
    if unscored:
        found = collection.nearest(direction, len(unscored), Prefilter(among=unscored))
        cosines |= {page.key: page.score for page in found}
    if not cosines:  # no page has a meaning, as after an import: scores are those of words
        return list(words[:k]), WORDS_ALONE
    new = {page.key: page for page in near if page.key not in known}
    scores = {key: page.score for key, page in known.items()}
    if new and len(query):
        (found,) = collection.search([query], len(new), Prefilter(among=tuple(new)))
        found = _without_others(collection, query, found)
        scores |= {page.key: page.score for page in found}
    joined = [
        replace(page, score=scores.get(key, 0.0) + mix.meaning * max(0.0, cosines.get(key, 0.0)))
        for key, page in {**known, **new}.items()
    ]
    best = [page for page in ordered(joined)[:k] if page.score > 0]
    return [replace(page, score=mix.scale * page.score) for page in best], mix


def mix_of_query(collection: Collection, query: SparseVector, words: Sequence[FoundRow]) -> Mix:
    """``words`` are the best pages by words."""

    def covered(asked: SparseVector) -> float:
        rows = collection.fetch([page.key for page in words[:LOOKED_AT]])
        held = (asked.weights[np.isin(asked.terms, row.vector.terms)] for row in rows.values())
        return max((float(weights.sum(dtype=np.float64)) for weights in held), default=0.0)

    direction = query.meaning
    if not isinstance(direction, Direction):
        return WORDS_ALONE
    return mix_of(query, direction.vocabulary, words[0].score if words else None, covered)


def nearest(collection: Collection, direction: Direction, k: int, allowed: AllowedPages) -> list[FoundRow]:
    """The ``k`` nearest pages that may be found."""
    limit = k
    while True:
        pages = collection.nearest(direction, limit, allowed.prefilter)
        passed = allowed.check(collection, pages)
        if len(passed) >= k or len(pages) < limit or limit >= collection.most_results:
            return passed[:k]
        limit = min(4 * limit, collection.most_results)
