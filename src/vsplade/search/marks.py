"""Which words on a page a query matched, and the words around the best place.

A word is matched when every term it is made of is among the terms that the page and the query share. So
"toxicology" is marked where ``tox##``, ``##icol##`` and ``##logy`` all matched, not where one of them did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vsplade.encode.tokenizer import Tokenizer, normalise, split_words
from vsplade.types import BY_DOCUMENT, BY_MEANING, Box, TermMatch

SNIPPET_WORDS = 28
LIGHTEST = 0.08
"""Terms that add less than this share of what the heaviest one adds ("of", "the") are not marked."""
NEAR = 0.08
"""Of the page's height, that one look takes in."""
_TEXT_LAYER = "text:"
_OTHERS_MARKS = "Ġ▁"
_LETTERS = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class PageWord:
    """A word as it stands on a page."""

    text: str
    box: Box
    certainty: float = 1.0
    """That it was read rightly; 1 for a word of the text layer."""
    tokens: tuple[str, ...] = ()
    """The terms of a word that was read from pixels: its letters are put together from them."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A word on the page that the query asked for."""

    text: str
    box: Box
    weight: float
    """What its terms added to the page's score, all their places together."""
    word: int
    """Its place among the page's words."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Words of a page in reading order, and which parts of ``text`` were asked for: (start, end)."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


def matched_tokens(matches: Iterable[TermMatch]) -> dict[str, float]:
    """What each single term added, by its name; pairs are left out, for their words are terms as well.

    Of a match by meaning the words of the page that come nearest to the query's share what it added; but
    each counts for no more than half of what the heaviest word added that was asked for and stands there.
    """
    found: dict[str, float] = {}
    meant: dict[str, float] = {}
    for match in matches:
        if match.term == BY_MEANING:
            near = [word for _, by in match.meant_by for word in by]
            meant |= {word: match.product / len(near) for word in near}
            continue
        if match.term == BY_DOCUMENT:
            continue
        token = match.token.removeprefix(_TEXT_LAYER)
        if " " not in token:
            found[token] = found.get(token, 0.0) + match.product
    most = max(found.values()) / 2 if found else math.inf
    found = {word: min(weight, most) for word, weight in meant.items()} | found
    least = LIGHTEST * max(found.values(), default=0.0)
    return {token: weight for token, weight in found.items() if weight >= least}


def find_marks(words: Sequence[PageWord], tokens: Mapping[str, float]) -> list[Mark]:
    """The words that were asked for, in their order on the page."""
    asked = _Asked(tokens)
    marks = []
    for place, word in enumerate(words):
        weight = asked.weight_of(word.tokens) if word.tokens else asked.weight(word.text)
        if weight > 0:
            marks.append(Mark(word.text, word.box, weight, place))
    return marks


class _Asked:
    """The terms of a search, for looking up printed words."""

    def __init__(self, tokens: Mapping[str, float]) -> None:
        self._tokens = tokens
        self._tokenizer = Tokenizer.load()
        # Other vocabularies write their tokens with marks of their own around the letters.
        self._letters = {
            match.group(): weight
            for token, weight in tokens.items()
            if "#" not in token and (match := _LETTERS.search(normalise(token.strip(_OTHERS_MARKS))))
        }

    def weight_of(self, names: Sequence[str]) -> float:
        """Of a word that is made of these terms."""
        return (
            sum(self._tokens[name] for name in names) if all(name in self._tokens for name in names) else 0.0
        )

    def weight(self, printed: str) -> float:
        return max((self._one(word) for word in split_words(normalise(printed))), default=0.0)

    def _one(self, word: str) -> float:
        if word in self._letters:
            return self._letters[word]
        names = [self._tokenizer.token(term) for term, _, _ in self._tokenizer.spans(word)]
        return self.weight_of(names) if names else 0.0


def best_place(words: Sequence[PageWord], marks: Sequence[Mark], length: int = SNIPPET_WORDS) -> Box | None:
    """Around the marked words of the snippet that lie near its first one: where to look on the page."""
    first = _best_start(words, marks, length) if marks else 0
    inside = [mark.box for mark in marks if first <= mark.word < first + length]
    if not inside:
        return None
    around = inside[0]
    for box in inside[1:]:
        joined = around.around(box)
        if joined.bottom - joined.top <= NEAR:
            around = joined
    return around


def make_snippet(words: Sequence[PageWord], marks: Sequence[Mark], length: int = SNIPPET_WORDS) -> Excerpt:
    """The ``length`` words around the place where most of what was asked for stands together."""
    if not words:
        return Excerpt("")
    first = _best_start(words, marks, length)
    shown = words[first : first + length]
    marked = {mark.word for mark in marks}
    text, parts = ("… " if first else ""), []
    for place, word in enumerate(shown, first):
        if place > first:
            text += " "
        if place in marked:
            parts.append((len(text), len(text) + len(word.text)))
        text += word.text
    return Excerpt(text + (" …" if first + length < len(words) else ""), tuple(parts))


def _best_start(words: Sequence[PageWord], marks: Sequence[Mark], length: int) -> int:
    """The window with the largest weight of different words; of equal ones, the first."""
    best, where = 0.0, 0
    for mark in marks:
        inside = [other for other in marks if mark.word <= other.word < mark.word + length - 4]
        different = {normalise(other.text): other.weight for other in inside}
        # A little for every repeat, so that of two places with the same words the fuller one is shown.
        value = sum(different.values()) + 0.01 * len(inside)
        if value > best + 1e-9:
            best, where = value, mark.word
    return max(0, min(where - 4, len(words) - length))
