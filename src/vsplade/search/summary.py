"""What a search says beside its hits: which words no page holds, what was not understood, why none came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vsplade.search.hits import Hit
from vsplade.search.page_index import FilterLike, PageIndex
from vsplade.search.syntax import parse
from vsplade.types import FOUND, TermMatch, WordMatch


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one search, for people and for assistants."""

    words: tuple[WordMatch, ...]
    """The query's words, and whether any page holds each: as a whole, in part or not."""
    notes: tuple[str, ...]
    """What in the query was not understood as it may have been meant."""
    message: str
    """Empty where every word was found."""


def summarise(
    index: PageIndex, query: str, hits: Sequence[Hit], filters: FilterLike = None, words_only: bool = False
) -> Summary:
    words = index.look_up(query, filters)
    missing = what_is_missing(index, query, words, words_only)
    message = missing if hits else why_nothing(index, query, filters)
    return Summary(tuple(words), tuple(index.notes(query)), message)


def what_is_missing(
    index: PageIndex, query: str, words: Sequence[WordMatch], words_only: bool = False
) -> str:
    """The words of the query that no page holds as a whole; empty where each is on some page."""
    missing = _quoted(words)
    if not missing:
        return ""
    if len(missing) < len(words) and _found_any(index, query, words):
        others = "hold other words of the query"
        nobody = _no_page(index).capitalize()
        return f"{nobody} holds {' or '.join(missing)}. These {others}{_or_near(words_only)}:"
    others = "hold similar words or parts of them"
    nobody = _no_page(index)
    return f"Nothing found: {nobody} holds {' or '.join(missing)}. These {others}{_or_near(words_only)}:"


def _no_page(index: PageIndex) -> str:
    """Of an index that is damaged in part, nobody knows what the other pages hold."""
    return "no page within reach" if index.damage else "no page"


def _or_near(words_only: bool) -> str:
    return "" if words_only else ", or are about something near"


def _found_any(index: PageIndex, query: str, words: Sequence[WordMatch]) -> bool:
    """Whether any page holds a word that is searched for: beside others, "the" is not."""
    found = {word.word for word in words if word.status == FOUND}
    asked = set(index.encode_query(query).terms.tolist())
    return any(word.typed in found and word.terms & asked for word in index.query_words(query))


def why_nothing(index: PageIndex, query: str, filters: FilterLike = None, min_score: float = 0.0) -> str:
    """Why a search has no results, and what to do about it."""
    if not index.pages:
        return "The index holds no pages yet."
    if filters and next(index.ids(filters), None) is None:
        keys = ", ".join(index.metadata_keys())
        nobody = _no_page(index).capitalize()
        return f"{nobody} passes the filter, whatever the words. Pages can be filtered by: {keys}."
    if not len(index.encode_query(query)):
        if any(character.isalnum() for character in query):
            return f"The encoder {index.encoder.name!r} knows none of these words. Write others."
        return "The query has no word that can be searched for. Write one or more words."
    if missing := _quoted(index.look_up(query, filters)):
        return (
            f"Nothing found: {_no_page(index)} holds {' or '.join(missing)}. {_advice(index, query, filters)}"
        )
    if min_score:
        return f"Nothing found: {_no_page(index)} has a score of {min_score:g} or more."
    return f"Nothing found: {_no_page(index)} matches all of this. {_advice(index, query, filters)}"


def _advice(index: PageIndex, query: str, filters: FilterLike) -> str:
    """Quotes and signs leave pages out: people put titles in quotes that no page holds to the letter."""
    parsed = parse(query)
    if parsed.conditions and index.search(parsed.text, 1, filters):
        return f"Pages are found without the quotes and signs. Search for: {parsed.text}"
    return "Try other words."


def _quoted(words: Sequence[WordMatch]) -> list[str]:
    """Those that no page holds as a whole."""
    return [f"'{word.word}'" for word in words if word.status != FOUND]


def word_facts(hit: Hit) -> dict[str, dict[str, object]]:
    """A hit's own words for other programs: whether the page holds each, and by what others are meant."""
    facts: dict[str, dict[str, object]] = {"words": {word.word: word.status for word in hit.words}}
    meant = {word: list(by) for match in hit.explain() for word, by in match.meant_by}
    return {**facts, "meant_by": dict(meant)} if meant else facts


def matches_json(matches: Sequence[TermMatch]) -> list[dict[str, Any]]:
    return [
        {
            "token": match.token,
            "term": match.term,
            "query_weight": match.query_weight,
            "page_weight": match.page_weight,
            "product": match.product,
            "in_part": match.in_part,
            **({"meant_by": {word: list(by) for word, by in match.meant_by}} if match.meant_by else {}),
        }
        for match in matches
    ]


def words_json(words: Sequence[WordMatch]) -> list[dict[str, str]]:
    return [{"word": word.word, "status": word.status} for word in words]
