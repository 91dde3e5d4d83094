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
from vsplade.search.by_document import BEST, AskedNames, Documents, NameTerms, document_of, supported
from vsplade.search.by_meaning import DEPTH, LOOKED_AT, mix_of, single_words
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
    collection: Collection, queries: Sequence[SparseVector], k: int, allowed: AllowedPages, more: int = 0
) -> list[list[FoundRow]]:
    """The ``k`` best pages for each query, equal scores in page order, and ``more`` as ``search_hashed``."""
    answers: list[list[FoundRow]] = [[] for _ in queries]
    asked = [place for place, query in enumerate(queries) if len(query) and not allowed.words.impossible]
    for start in range(0, len(asked), AT_ONCE):
        places = asked[start : start + AT_ONCE]
        vectors = [queries[place] for place in places]
        beyond = BEYOND if any(map(has_checks, vectors)) else 0
        limit = min(k + more + beyond, max(k, collection.most_results))
        found = collection.search(vectors, limit, allowed.prefilter)
        for place, pages in zip(places, found, strict=True):
            answers[place] = _enough(collection, queries[place], k, limit, allowed, pages)[: k + more]
    return answers


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
            return passed
        if limit >= collection.most_results:
            warnings.warn(
                f"{collection.where}: the best {limit:,} pages were looked at, which is all that the engine "
                f"gives; {len(passed):,} of them pass the conditions.",
                VspladeWarning,
                stacklevel=2,
            )
            return passed
        limit = min(4 * limit, collection.most_results)
        (pages,) = collection.search([query], limit, allowed.prefilter)


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
    collection: Collection,
    query: SparseVector,
    words: Sequence[FoundRow],
    k: int,
    allowed: AllowedPages,
    name_terms: NameTerms,
) -> tuple[list[FoundRow], Mix]:
    """As ``MeaningEngine.join``: the ``k`` best by words and meaning together, and how both count.

    ``words`` are the best pages by words, at least ``BEST`` of them where there are so many.
    """
    direction = query.meaning
    if not isinstance(direction, Direction):
        return list(words[:k]), WORDS_ALONE
    has_documents = any(document_of(page.metadata) for page in words)
    if not has_documents:
        words = words[: max(k, DEPTH)]
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
    candidates = list({**known, **new}.values())
    by_both = [
        mix.scale * (scores.get(page.key, 0.0) + mix.meaning * max(0.0, cosines.get(page.key, 0.0)))
        for page in candidates
    ]
    totals = np.array(by_both, np.float64)
    if has_documents:
        first = {page.key for page in (*words[:BEST], *near[:DEPTH])}
        is_best = np.array([page.key in first for page in candidates], np.bool_)
        documents = Documents.in_metadata([page.metadata for page in candidates])
        names = AskedNames(single_words(query, direction.vocabulary), name_terms)
        support, totals = supported(documents, names, np.arange(len(candidates)), totals, is_best)
        mix = replace(mix, support=support)
    joined = [replace(page, score=score) for page, score in zip(candidates, totals.tolist(), strict=True)]
    return [page for page in ordered(joined)[:k] if page.score > 0], mix


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
