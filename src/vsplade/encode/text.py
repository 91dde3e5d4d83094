"""The ``text`` encoder: the file's own text layer with BM25 weights.

BM25 is a product of two parts, and a sparse index can hold only one of them: the saturated,
length-normalised term frequency lives in the page's vector, the idf in the query's. So the idf always
follows the corpus as it is now, and pages never need to be encoded again when others come or go. For the
same reason the average length is a constant of the encoder, not a property of the corpus: a page's vector
depends on that page alone.

The text layer has the exact spelling of every word, so rare words, numbers and codes are also terms as a
whole, beside their pieces: one for every run that is not in the vocabulary, and one for every two and every
three runs that stand together (``units``). A day has one, however it is written (``dates``). Those terms are
hashes, one of 2^20 numbers and 12 bits to check (``hash_bits``): a word that is not there is taken for found
on one of some hundred million pages.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vsplade.config import format_spec
from vsplade.encode.dates import day_of, named_days
from vsplade.encode.hash_bits import CHECK, evidence, stamped
from vsplade.encode.phones import joined_phones
from vsplade.encode.query_length import check_query_length
from vsplade.encode.tokenizer import Tokenizer, is_foreign, normalise
from vsplade.encode.units import Unit, ungrouped, units
from vsplade.errors import InputError
from vsplade.types import Evidence, Page, QueryWord, SparseVector, TermStatistics

WHOLE = 1 << 20
"""Numbers of whole words, behind the terms of the vocabulary."""
NUMBERS = 2.0
"""A whole number or code counts so many times as much as its idf: its pieces stand on many pages."""


@lru_cache(maxsize=1 << 16)
def hashed(runs: Unit) -> int:
    """Of runs that stand together: number and check; part of the index's format, so never to be changed."""
    digest = hashlib.blake2b(" ".join(day_of(runs) or runs).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % (WHOLE << CHECK)


class TextVocabulary:
    """The tokenizer's terms, and behind them the numbers of whole words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.seen: dict[int, str] = {}
        """Whole words that were asked for, to show people words and not numbers."""

    def __len__(self) -> int:
        return len(self._tokenizer) + WHOLE

    def token(self, term: int) -> str:
        words = len(self._tokenizer)
        return self._tokenizer.token(term) if term < words else f"={term - words}"

    def encode(self, text: str) -> list[int]:
        """The single words, as the tokenizer has them."""
        return self._tokenizer.encode(text)

    def shown(self, term: int) -> str:
        return self.seen.get(term) or self.token(term)


@dataclass(frozen=True, slots=True)
class TextOptions:
    """BM25's parameters, at Lucene's defaults."""

    k1: float = 1.2
    """How slowly repeats of a word stop counting; 0 makes every weight 1."""
    b: float = 0.75
    """How much long pages are discounted: 0 not at all, 1 in full proportion."""
    average_length: float = 200.0
    """The length, in word pieces, of a page that is neither long nor short."""

    def __post_init__(self) -> None:
        # Written so that NaN fails too.
        if not 0 <= self.k1 < math.inf:
            raise InputError(f"encoder 'text', option 'k1': {self.k1} is not a number of at least 0.")
        if not 0 <= self.b <= 1:
            raise InputError(f"encoder 'text', option 'b': {self.b} is not between 0 and 1.")
        if not 0 < self.average_length < math.inf:
            raise InputError(
                f"encoder 'text', option 'average_length': {self.average_length} is not a number above 0."
            )


class TextEncoder:
    """BM25 over the text layer; pages without one give an empty vector and are never found."""

    latin_only = True
    reads_grey = on_gpu = False

    FORMULA: ClassVar[str] = "bm25-4"
    """Raised when the arithmetic below changes, so that old indexes are noticed."""

    def __init__(self, options: TextOptions | None = None) -> None:
        self.options = options if options is not None else TextOptions()
        self._tokenizer = Tokenizer.load()
        self.vocabulary = TextVocabulary(self._tokenizer)

    @property
    def name(self) -> str:
        """``text``, with the options that differ from the defaults, as ``load_encoder`` reads it."""
        return format_spec("text", self.options)

    @cached_property
    def fingerprint(self) -> str:
        opts = self.options
        parts = (
            self.FORMULA,
            f"{WHOLE} {NUMBERS}",
            opts.k1.hex(),
            opts.b.hex(),
            opts.average_length.hex(),
            self._tokenizer.fingerprint,
        )
        return "text-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @property
    def longest_edge(self) -> int:
        return 0

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for page in pages:
            yield self.encode_text(page.text or "")

    def encode_text(self, text: str) -> SparseVector:
        """The vector of a page that carries this text (a text layer, an OCR result, a caption)."""
        text = normalise(text)
        found = list(units(ungrouped(text)))
        pieces = [piece for unit in found for piece in self._pieces(unit)]
        words = self._counted(Counter(pieces), len(pieces))
        together = Counter(runs for unit in found for runs in self._together(unit))
        together.update(set(named_days(text)) - together.keys())
        marks = {self._mark(runs): count for runs, count in together.items()}
        whole = self._counted(Counter({mark.term: count for mark, count in marks.items()}), len(pieces))
        checks = {mark.term: mark.check for mark in marks}
        return SparseVector(
            np.concatenate([words.terms, whole.terms]),
            np.concatenate(
                [words.weights, stamped(whole.weights, np.array([checks[t] for t in whole.terms.tolist()]))]
            ),
        )

    def length(self, text: str) -> int:
        """In word pieces, as ``average_length`` counts them."""
        return sum(len(self._pieces(unit)) for unit in units(ungrouped(normalise(text))))

    def _counted(self, counts: Counter[int], length: int) -> SparseVector:
        terms = sorted(counts)
        numbers = np.array([counts[term] for term in terms], dtype=np.float64)
        return SparseVector(
            np.array(terms, dtype=np.uint32), self._saturate(numbers, length).astype(np.float32)
        )

    def _pieces(self, unit: Unit) -> list[int]:
        return [term for run in unit for term, _, _ in self._tokenizer.spans(run)]

    def _together(self, unit: Unit) -> list[Unit]:
        """Every rare run, every two runs and every three."""
        return [*self._rare(unit), *pairwise(unit), *zip(unit, unit[1:], unit[2:], strict=False)]

    def _rare(self, unit: Unit) -> list[Unit]:
        return [(run,) for run in unit if self._tokenizer.term(run) is None]

    def _mark(self, runs: Unit) -> Evidence:
        return evidence(hashed(runs), len(self._tokenizer))

    def _whole(self, unit: Unit) -> list[Evidence]:
        """What a page has that holds this unit, beside its pieces."""
        longer = [unit] if len(unit) == 2 else zip(unit, unit[1:], unit[2:], strict=False)
        marks = [self._mark(runs) for runs in (*self._rare(unit), *longer)]
        self.vocabulary.seen |= {mark.term: "".join(unit) for mark in marks}
        return marks

    def query_words(self, text: str) -> list[QueryWord]:
        """Each word as it was typed, between white space."""
        found = []
        for typed in joined_phones(text).split():
            asked = list(units(ungrouped(normalise(typed))))
            pieces = list(dict.fromkeys(term for unit in asked for term in self._pieces(unit)))
            whole = dict.fromkeys(mark for unit in asked for mark in self._whole(unit))
            wholes = [(*map(Evidence, pieces), *whole)]
            if len(asked) == 1 and day_of(asked[0]):
                wholes.append((self._mark(asked[0]),))  # as any way to write the day
            if asked:
                found.append(QueryWord(typed, tuple(pieces), tuple(wholes)))
            elif is_foreign(typed):
                found.append(QueryWord(typed))
        return found

    in_a_row = 0

    def phrase(self, text: str) -> QueryWord:
        """All words as a whole; the text encoder does not keep their order."""
        words = self.query_words(text)
        if not all(word.wholes for word in words):
            return QueryWord(text)
        pieces = dict.fromkeys(term for word in words for term in word.parts)
        return QueryWord(text, tuple(pieces), (tuple(m for word in words for m in word.wholes[0]),))

    def beginning(self, letters: str) -> QueryWord:
        terms = self._tokenizer.beginning_with(normalise(letters))
        return QueryWord(letters + "*", tuple(terms), tuple((Evidence(term),) for term in terms))

    def weigh_terms(self, terms: Sequence[int], statistics: TermStatistics | None = None) -> dict[int, float]:
        return dict(zip(terms, self._idf(np.array(terms, np.uint32), statistics).tolist(), strict=True))

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """Idf times the number of times a term is asked for; without statistics the idf is left out."""
        check_query_length(text)
        counts: defaultdict[int, float] = defaultdict(float)
        text = normalise(text)
        for unit in units(ungrouped(text)):
            worth = NUMBERS if any(run.isdigit() for run in unit) else 1.0
            for term in self._pieces(unit):
                counts[term] += 1.0
            for mark in self._whole(unit):
                counts[mark.term] += worth
        for day in named_days(text):
            counts[self._mark(day).term] = NUMBERS
        asked = sorted(counts.items())
        terms = np.array([term for term, _ in asked], dtype=np.uint32)
        weights = np.array([count for _, count in asked], dtype=np.float64)
        return SparseVector(terms, (weights * self._idf(terms, statistics)).astype(np.float32))

    @staticmethod
    def _idf(terms: NDArray[np.uint32], statistics: TermStatistics | None) -> NDArray[np.float64]:
        if statistics is None or not len(terms):
            return np.ones(len(terms))
        df = np.minimum(statistics.document_frequency(terms), statistics.pages).astype(np.float64)
        # Lucene's idf: positive however common the term is, so no match is ever worth less than none.
        return np.log1p((statistics.pages - df + 0.5) / (df + 0.5))

    def _saturate(self, counts: NDArray[np.float64], length: int) -> NDArray[np.float64]:
        opts = self.options
        normaliser = opts.k1 * (1 - opts.b + opts.b * length / opts.average_length)
        return counts * (opts.k1 + 1) / (counts + normaliser)
