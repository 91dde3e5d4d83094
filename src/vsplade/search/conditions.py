"""A parsed query and an encoder: which words are asked for, what they weigh, which pages may be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.hash_bits import checks_of
from vsplade.search.syntax import ParsedQuery
from vsplade.search.word_lookup import holding
from vsplade.store.segment import Segment
from vsplade.types import FOUND, Encoder, QueryVector, QueryWord, SparseVector, TermStatistics, WordEncoder

NO_ORDER = (
    "The encoder {name!r} does not keep the order of words: pages that hold all words of a phrase are found."
)
IN_PARTS = (
    'The phrase "{text}" was matched {many} words at a time: such parts of it may stand in different places.'
)
_MANY = {2: "two", 3: "three"}
NO_WORDS = "The encoder {name!r} knows no whole words: quotes, +, - and * are ignored."
NO_BEGINNING = "No word with the beginning {letters}* can be searched for."


@dataclass(frozen=True)
class Conditions:
    """Pages hold all of ``must`` and none of ``must_not``."""

    must: tuple[QueryWord, ...] = ()
    must_not: tuple[QueryWord, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.must or self.must_not)

    @property
    def impossible(self) -> bool:
        """Whether a word must stand on pages that no page can be said to hold."""
        return not all(word.wholes for word in self.must)

    def allows(self, page: Mapping[int, int]) -> bool:
        """Whether a page with these ``weight_bits`` may be found."""
        return all(word.on(page) == FOUND for word in self.must) and not any(
            word.on(page) == FOUND for word in self.must_not
        )

    def mask(self, segment: Segment) -> NDArray[np.bool_]:
        """The pages of a segment that may be found."""
        mask = np.ones(segment.pages, dtype=bool)
        for word in self.must:
            mask &= holding(segment, word)
        for word in self.must_not:
            mask &= ~holding(segment, word)
        return mask


def conditions(parsed: ParsedQuery, encoder: Encoder) -> Conditions:
    if not parsed.conditions or not isinstance(encoder, WordEncoder):
        return Conditions()

    def words(texts: Sequence[str]) -> list[QueryWord]:
        return [word for text in texts for word in encoder.query_words(text)]

    def phrases(texts: Sequence[str]) -> list[QueryWord]:
        return [encoder.phrase(text) for text in texts]

    return Conditions(
        (*words(parsed.must), *phrases(parsed.phrases)),
        (*words(parsed.must_not), *phrases(parsed.must_not_phrases)),
    )


def query_words(parsed: ParsedQuery, encoder: Encoder) -> list[QueryWord]:
    """Words, required words, phrases and beginnings: what the query asks for."""
    if not isinstance(encoder, WordEncoder):
        return []
    return [
        *encoder.query_words(" ".join((*parsed.words, *parsed.must))),
        *(encoder.phrase(text) for text in parsed.phrases),
        *(encoder.beginning(letters) for letters in parsed.beginnings),
    ]


def encode(parsed: ParsedQuery, encoder: Encoder, statistics: TermStatistics) -> SparseVector:
    """The weights of all that is asked for; a term that is asked for twice counts as it does most."""
    vector = encoder.encode_query(parsed.text, statistics)
    if not parsed.beginnings or not isinstance(encoder, WordEncoder):
        return vector
    weights = dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))
    for letters in parsed.beginnings:
        terms = encoder.beginning(letters).parts
        for term, weight in encoder.weigh_terms(terms, statistics).items():
            weights[term] = max(weights.get(term, 0.0), weight)
    joined = SparseVector.from_dict(weights)
    checks = vector.checks if isinstance(vector, QueryVector) else None
    if checks is None:
        return joined
    known = dict(zip(vector.terms.tolist(), checks.tolist(), strict=True))
    return QueryVector(joined.terms, joined.weights, None, checks_of(known, joined.terms))


def notes(parsed: ParsedQuery, encoder: Encoder) -> list[str]:
    """What was not understood as it may have been meant, for people."""
    found = list(parsed.notes)
    if not isinstance(encoder, WordEncoder):
        return found if parsed.plain else [*found, NO_WORDS.format(name=encoder.name)]
    phrases = (*parsed.phrases, *parsed.must_not_phrases)
    known = encoder.in_a_row
    if phrases and not known:
        found.append(NO_ORDER.format(name=encoder.name))
    elif phrases:
        longer = (text for text in phrases if _words_in_order(encoder, text) > known)
        found += [IN_PARTS.format(text=text, many=_MANY.get(known, known)) for text in longer]
    empty = (letters for letters in parsed.beginnings if not encoder.beginning(letters).parts)
    return [*found, *(NO_BEGINNING.format(letters=letters) for letters in empty)]


def _words_in_order(encoder: WordEncoder, phrase: str) -> int:
    """At most so many words of a phrase have an order: those that are too common to be kept have none."""
    hashes = [mark for whole in encoder.phrase(phrase).wholes for mark in whole if mark.mask]
    return min(len(encoder.query_words(phrase)), len(hashes) + 1)
