"""The ``text`` encoder: the file's own text layer with BM25 weights.

BM25 is a product of two parts, and a sparse index can hold only one of them: the saturated,
length-normalised term frequency lives in the page's vector, the idf in the query's. So the idf always
follows the corpus as it is now, and pages never need to be encoded again when others come or go. For the
same reason the average length is a constant of the encoder, not a property of the corpus: a page's vector
depends on that page alone.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vsplade.config import format_spec
from vsplade.encode.query_length import check_query_length
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.types import Page, SparseVector, TermStatistics, Vocabulary


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

    FORMULA: ClassVar[str] = "bm25-1"
    """Raised when the arithmetic below changes, so that old indexes are noticed."""

    def __init__(self, options: TextOptions | None = None) -> None:
        self.options = options if options is not None else TextOptions()
        self._tokenizer = Tokenizer.load()

    @property
    def name(self) -> str:
        """``text``, with the options that differ from the defaults, as ``load_encoder`` reads it."""
        return format_spec("text", self.options)

    @cached_property
    def fingerprint(self) -> str:
        opts = self.options
        parts = (
            self.FORMULA,
            opts.k1.hex(),
            opts.b.hex(),
            opts.average_length.hex(),
            self._tokenizer.fingerprint,
        )
        return "text-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    @property
    def vocabulary(self) -> Vocabulary:
        return self._tokenizer

    @property
    def longest_edge(self) -> int:
        return 0

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        for page in pages:
            yield self.encode_text(page.text or "")

    def encode_text(self, text: str) -> SparseVector:
        """The vector of a page that carries this text (a text layer, an OCR result, a caption)."""
        terms = np.array(self._tokenizer.encode(text), dtype=np.uint32)
        distinct, counts = np.unique(terms, return_counts=True)
        return SparseVector(
            distinct, self._saturate(counts.astype(np.float64), len(terms)).astype(np.float32)
        )

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """Idf times the number of times a term is asked for; without statistics the idf is left out."""
        check_query_length(text)
        asked = sorted(Counter(self._tokenizer.encode(text)).items())
        terms = np.array([term for term, _ in asked], dtype=np.uint32)
        weights = np.array([count for _, count in asked], dtype=np.float64)
        if statistics is not None and len(terms):
            df = np.minimum(statistics.document_frequency(terms), statistics.pages).astype(np.float64)
            # Lucene's idf: positive however common the term is, so no match is ever worth less than none.
            weights *= np.log1p((statistics.pages - df + 0.5) / (df + 0.5))
        return SparseVector(terms, weights.astype(np.float32))

    def _saturate(self, counts: NDArray[np.float64], length: int) -> NDArray[np.float64]:
        opts = self.options
        normaliser = opts.k1 * (1 - opts.b + opts.b * length / opts.average_length)
        return counts * (opts.k1 + 1) / (counts + normaliser)
