"""The query's side of the page reader: the model's tables and options. No network runs here.

A term's weight in a query is looked up; words of the same stem are asked for at a fraction of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.hash_bits import checks_of, evidence
from vsplade.encode.query_length import check_query_length
from vsplade.encode.reader.bigrams import PAIRS, Neighbours
from vsplade.encode.reader.whole_words import ReaderWords
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.types import QueryVector, QueryWord, SparseVector, TermStatistics, Vocabulary

MODEL = Path(__file__).parents[1] / "data" / "reader"
HEAVY_FILES = ("trunk.onnx", "head.onnx")
SPELLER = "speller.onnx"
MODEL_FILES = (
    *HEAVY_FILES, "size.onnx", SPELLER, "query.npy", "related.npy", "certainty.npy", "reader.json",
)  # fmt: skip

SMALLEST_EDGE, LARGEST_EDGE = 64, 8192
"""Pixels. A page of 8,192 takes 64 times as long as one of 1,024."""


@dataclass(frozen=True)
class ReaderOptions:
    """``reader:point=efficient,threads=4``"""

    point: str = "quality"
    """``quality``, or ``efficient``: only terms that matter more, for an index half the size."""
    longest_edge: int = 0
    """Pixels of the longest edge that pages are read at; 0 is the model's own. Tiny type is read larger."""
    threads: int = 0
    """Pages read at a time; 0 is one for every core."""
    meaning: bool = True
    """Whether pages are also found by what they are about, and not by their words alone."""
    dense: bool = False
    """Whether the text model also reads queries: better at other words, but a network at query time."""
    model: str = ""
    """A folder with another model in the same layout."""
    device: str = "cpu"
    """``cpu`` is onnxruntime; ``cuda``, or any other, is torch's; ``torch`` is a GPU where there is one."""

    def __post_init__(self) -> None:
        if self.dense and not self.meaning:
            raise InputError("The reader's option 'dense' needs 'meaning', which is switched off.")
        if self.threads < 0:
            raise InputError(f"The reader's option 'threads' must be 0 or more, not {self.threads}.")
        if self.longest_edge and not SMALLEST_EDGE <= self.longest_edge <= LARGEST_EDGE:
            raise InputError(
                f"The reader's option 'longest_edge' must be between {SMALLEST_EDGE:,} and {LARGEST_EDGE:,}, "
                f"or 0 for the model's own, not {self.longest_edge}."
            )


class ReaderVocabulary:
    """The tokenizer's terms, and behind them the numbers of pairs."""

    def __init__(self, tokenizer: Tokenizer, neighbours: Neighbours) -> None:
        self._tokenizer, self._neighbours = tokenizer, neighbours

    def __len__(self) -> int:
        return len(self._tokenizer) + PAIRS

    def token(self, term: int) -> str:
        words = len(self._tokenizer)
        return self._tokenizer.token(term) if term < words else f"~{term - words}"

    def encode(self, text: str) -> list[int]:
        """The single words, as the tokenizer has them."""
        return self._tokenizer.encode(text)

    def shown(self, term: int) -> str:
        """The token, or for a pair its words, where they are known."""
        number = term - len(self._tokenizer)
        return (self._neighbours.shown(number) if number >= 0 else None) or self.token(term)


class ReaderQueries:
    """A model's folder, and what a query means by it."""

    def __init__(self, options: ReaderOptions) -> None:
        self.options = options
        self._folder = Path(options.model) if options.model else MODEL
        missing = [name for name in MODEL_FILES if not (self._folder / name).is_file()]
        if missing:
            raise InputError(f"{self._folder} is not a reader model: it has no {', '.join(missing)}.")
        self._config: dict[str, Any] = json.loads((self._folder / "reader.json").read_text("utf-8"))
        points = self._config["points"]
        if options.point not in points:
            raise InputError(
                f"The reader has no point {options.point!r}; choose one of: {', '.join(sorted(points))}."
            )
        self._point: dict[str, float] = points[options.point]
        self._tokenizer = Tokenizer.load()
        if self._config["vocabulary"] != self._tokenizer.fingerprint:
            raise InputError(f"{self._folder} was trained with another vocabulary than this package's.")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return ReaderVocabulary(self._tokenizer, self._neighbours)

    @cached_property
    def _neighbours(self) -> Neighbours:
        heavy = self._importance >= self._config["lightest"]
        return Neighbours(self._tokenizer, heavy, self._config["pairs"]["gap"])

    @property
    def reading_edge(self) -> int:
        return self.options.longest_edge or int(self._config["longest_edge"])

    def _numbers(self, name: str) -> NDArray[np.float32]:
        numbers: NDArray[np.float32] = np.load(self._folder / name, allow_pickle=False).astype(np.float32)
        return numbers

    @cached_property
    def _importance(self) -> NDArray[np.float32]:
        """What a term is worth in a query, as it was learned."""
        return self._numbers("query.npy")

    @cached_property
    def _certainty(self) -> NDArray[np.float32]:
        """How often a term stands where it was read: less often for two letters than for a long word.

        Page weights hold it, so that a page's heaviest terms are those that stand there; query weights are
        divided by it, so that scores are the same as without.
        """
        return self._numbers("certainty.npy")

    @cached_property
    def query_weights(self) -> NDArray[np.float32]:
        """Of single terms and behind them of pairs, as ``encode_query`` gives them."""
        pairs = self._config["pairs"]
        pair = np.full(PAIRS, pairs["weight"] / pairs["share"], np.float32)
        weights: NDArray[np.float32] = np.concatenate([self._importance / self._certainty, pair])
        return weights

    @cached_property
    def _related(self) -> NDArray[np.int64]:
        """(pairs, 2) sorted: a term of the query, and one that it also asks for."""
        pairs: NDArray[np.int64] = np.load(self._folder / "related.npy", allow_pickle=False).astype(np.int64)
        pairs = np.asfortranarray(pairs)  # the first column is searched
        return pairs

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """Each term once, with its weight from the table; words of the same stem at a fraction of it.

        What weighs next to nothing ("the", "what") is left out, unless there is nothing else.
        """
        check_query_length(text)
        table = self._importance
        weights: dict[int, float] = {}
        written = self._words.readings(text)
        text_terms = [term for unit in written[0] for term in self._words.pieces(unit)]
        terms = set(text_terms)
        for term in terms:
            for other in self._related_to(term):
                share = self._config["related"] * float(min(table[term], table[other]))
                weights[other] = max(weights.get(other, 0.0), share)
        weights |= {term: float(table[term]) for term in terms}
        heavy = {term: weight for term, weight in weights.items() if weight >= self._config["lightest"]}
        kept = heavy or weights
        words = {term: kept[term] / float(self._certainty[term]) for term in kept}
        pairs = self._config["pairs"]
        behind = dict.fromkeys(self._neighbours.in_text(text_terms), pairs["weight"] / pairs["share"])
        for hash, weight in self._words.weigh_whole(written).items():
            behind[hash] = max(behind.get(hash, 0.0), weight / pairs["share"])
        return self._with_hashes(words, behind)

    def _with_hashes(self, words: dict[int, float], behind: dict[int, float]) -> QueryVector:
        """A query's vector from weights of terms and of hashes; of two hashes with one number the heavier."""
        checks = {}
        for hash in sorted(behind, key=lambda hash: (behind[hash], hash)):
            mark = evidence(hash, len(self._tokenizer))
            words[mark.term], checks[mark.term] = behind[hash], mark.check
        vector = SparseVector.from_dict(words)
        return QueryVector(vector.terms, vector.weights, None, checks_of(checks, vector.terms))

    def _related_to(self, term: int) -> list[int]:
        """The terms that a term of the query also asks for."""
        if term not in self._known_relations:
            first, last = np.searchsorted(self._related[:, 0], (term, term + 1)).tolist()
            self._known_relations[term] = self._related[first:last, 1].tolist()
        return self._known_relations[term]

    @cached_property
    def _known_relations(self) -> dict[int, list[int]]:
        """Those of the terms that were asked for; no more than the vocabulary has."""
        return {}

    @cached_property
    def _words(self) -> ReaderWords:
        return ReaderWords(self._tokenizer, self._neighbours, self.in_a_row)

    @property
    def in_a_row(self) -> int:
        return 2 if "pair" in self._point else 0

    def query_words(self, text: str) -> list[QueryWord]:
        return self._words.query_words(text)

    def phrase(self, text: str) -> QueryWord:
        return self._words.phrase(text)

    def beginning(self, letters: str) -> QueryWord:
        return self._words.beginning(letters)

    def weigh_terms(self, terms: Sequence[int], statistics: TermStatistics | None = None) -> dict[int, float]:
        return {term: float(self._importance[term] / self._certainty[term]) for term in terms}
