"""Whole words of queries, as the reader's pages have them: pieces, and hashes that say they are together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vsplade.encode.dates import day_of
from vsplade.encode.hash_bits import evidence, follower_bits
from vsplade.encode.phones import joined_phones
from vsplade.encode.reader.bigrams import Neighbours, hashed_pair
from vsplade.encode.tokenizer import Tokenizer, is_foreign, normalise
from vsplade.encode.units import Unit, readings, units
from vsplade.types import Evidence, QueryWord

WHOLE_WORD, WHOLE_CODE, WHOLE_NUMBER = 3.0, 8.0, 16.0
"""What a whole word, a code of letters and digits, and a number weigh in a query beside their pieces
(docs/log.md)."""
ALONE = 4.0
"""Times as much, where nothing else is asked for."""


class ReaderWords:
    def __init__(self, tokenizer: Tokenizer, neighbours: Neighbours, in_a_row: int) -> None:
        """``in_a_row``: terms whose order pages keep. Where it is 0, a page with all pieces of a word holds
        it; where it is 3, pairs know what follows them.
        """
        self._tokenizer, self._neighbours = tokenizer, neighbours
        self._kept, self._chained = in_a_row > 1, in_a_row > 2

    def readings(self, text: str) -> list[list[Unit]]:
        """The units of a text as it is written and, where numbers can be, as they may be written."""
        return readings(text, self._known)

    def _known(self, run: str) -> bool:
        return self._tokenizer.term(run) is not None

    def pieces(self, unit: Unit) -> tuple[int, ...]:
        return tuple(term for run in unit for term, _, _ in self._tokenizer.spans(run))

    def weigh_whole(self, written: Sequence[Sequence[Unit]]) -> dict[int, float]:
        """The hashes of the rare words, numbers and codes of ``readings``, and their query weights."""
        weights: dict[int, float] = {}
        alone = ALONE if len(written[0]) == 1 else 1.0
        for reading in written:
            for unit in reading:
                if len(unit) == 1 and self._known(unit[0]):
                    continue
                hashes = self._neighbours.whole(self.pieces(unit))
                weights |= {hash: alone * _worth(unit) / len(hashes) for hash in hashes}
        return weights

    def query_words(self, text: str) -> list[QueryWord]:
        """Each word as it was typed, between white space."""
        found = []
        for typed in joined_phones(text).split():
            written = self.readings(typed)
            wholes = [
                tuple(dict.fromkeys(mark for unit in reading for mark in self._whole(unit)))
                for reading in written
            ]
            if len(written[0]) == 1 and self._kept and day_of(written[0][0]):
                wholes.append(tuple(self._marks(self.pieces(written[0][0]))))  # as any way to write the day
            if wholes[0]:
                parts = dict.fromkeys(self._tokenizer.encode(typed))
                found.append(QueryWord(typed, tuple(parts), tuple(wholes)))
            elif is_foreign(typed):
                found.append(QueryWord(typed))
        return found

    def phrase(self, text: str) -> QueryWord:
        """All words as a whole, and that each stands beside the next and before the one after it; those too
        light to be kept are passed over.
        """
        if any(map(is_foreign, text.split())):
            return QueryWord(text)
        pieces = [self.pieces(unit) for unit in units(normalise(text))]
        parts = dict.fromkeys(term for some in pieces for term in some)
        heavy = [[term for term in some if self._neighbours.heavy[term]] for some in pieces]
        ends = [(some[0], some[-1]) for some in heavy if some]
        asked = {hash: 0 for some in pieces for hash in self._hashes(some)}
        asked |= {hash: 0 for (_, left), (right, _) in pairwise(ends) for hash in self._hashes((left, right))}
        # the order of three pieces of one word is known by themselves, and two of them may be in doubt
        row = [(term, len(some) > 2) for some in heavy for term in some] if self._chained else []
        for (left, _), (right, long), (after, _) in zip(row, row[1:], row[2:], strict=False):
            if not long and (hash := hashed_pair(left, right)) in asked:
                asked[hash] |= int(follower_bits(np.array(after)))
        marks = [evidence(hash, len(self._tokenizer), followers) for hash, followers in asked.items()]
        return QueryWord(text, tuple(parts), ((*map(Evidence, parts), *marks),))

    def beginning(self, letters: str) -> QueryWord:
        terms = self._tokenizer.beginning_with(normalise(letters))
        return QueryWord(letters + "*", tuple(terms), tuple((Evidence(term),) for term in terms))

    def _whole(self, unit: Unit) -> list[Evidence]:
        """What a page has that holds this unit."""
        pieces = self.pieces(unit)
        return [*map(Evidence, pieces), *self._marks(pieces)]

    def _marks(self, pieces: tuple[int, ...]) -> list[Evidence]:
        """That the pieces stand together."""
        return [evidence(hash, len(self._tokenizer)) for hash in self._hashes(pieces)]

    def _hashes(self, pieces: tuple[int, ...]) -> list[int]:
        return self._neighbours.whole(pieces) if self._kept else []


def _worth(unit: Unit) -> float:
    digits = [run.isdigit() for run in unit]
    return WHOLE_NUMBER if all(digits) else WHOLE_CODE if any(digits) else WHOLE_WORD
