"""Pages and their questions, as bags of terms, to learn term weights from.

A page is the text of a pair (``query`` and ``text``, ``caption`` or the table that ``table`` names), or the
text layer of a PDF's page; questions about PDF pages are made up (``questions.py``). Texts do as well as what
the reader reads of the same pages (docs/log.md), and take no reading.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.reader.gather import files_of, texts_of
from research.reader.questions import ask
from vsplade.encode.tokenizer import Tokenizer
from vsplade.encode.weighting import PageWeighting
from vsplade.errors import InputError
from vsplade.jsonl import read_objects

MOST_WORDS = 300
"""Words of a text that are one page."""
FEWEST_PIECES = 40
"""PDF pages with fewer are not asked about."""


@dataclass(frozen=True)
class Bags:
    """Rows of terms with weights, end to end."""

    starts: NDArray[np.int64]  # one more than there are rows
    terms: NDArray[np.int32]
    weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @staticmethod
    def of(rows: Sequence[Mapping[int, float]]) -> Bags:
        sizes = np.array([0, *(len(row) for row in rows)], np.int64)
        terms = np.fromiter((term for row in rows for term in row), np.int32)
        weights = np.fromiter((weight for row in rows for weight in row.values()), np.float32)
        return Bags(np.cumsum(sizes), terms, weights)

    def places(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For every entry of these rows: which of ``rows`` it belongs to, and where it lies."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        owner = np.repeat(np.arange(len(rows)), sizes)
        begin = np.cumsum(sizes) - sizes
        return owner, np.arange(len(owner)) - begin[owner] + self.starts[rows][owner]

    def dense(self, rows: NDArray[np.int64], columns: NDArray[np.int64], terms: int) -> NDArray[np.float32]:
        """(rows, columns): the weights of some terms, in the order of ``columns``."""
        position = np.full(terms, -1)
        position[columns] = np.arange(len(columns))
        owner, place = self.places(rows)
        at = position[self.terms[place]]
        wanted = at >= 0
        table = np.zeros((len(rows), len(columns)), np.float32)
        table[owner[wanted], at[wanted]] = self.weights[place[wanted]]
        return table


@dataclass(frozen=True)
class Source:
    """Questions and pages of one kind: pages of a kind compete with each other."""

    name: str
    pages: Bags
    questions: Bags
    answer: NDArray[np.int64]
    """The page that answers each question."""
    made_up: bool = False
    """Whether nobody asked these questions."""


class PageMaker:
    """Texts to questions and pages, each page once."""

    def __init__(self, name: str, made_up: bool = False) -> None:
        self._name, self._made_up, self._weighting = name, made_up, PageWeighting()
        self._tokenizer = Tokenizer.load()
        self._seen: dict[str, int] = {}
        self._pages: list[dict[int, float]] = []
        self._questions: list[dict[int, float]] = []
        self._answer: list[int] = []

    def page(self, text: str) -> int:
        if text not in self._seen:
            terms, counts = np.unique(np.array(self._tokenizer.encode(text), np.int64), return_counts=True)
            weights = self._weighting.weigh(counts.astype(np.float64), float(counts.sum()))
            self._seen[text] = len(self._pages)
            self._pages.append(dict(zip(terms.tolist(), weights.tolist(), strict=True)))
        return self._seen[text]

    def question(self, text: str, page: int) -> None:
        terms = set(self._tokenizer.encode(text))
        if terms:
            self._questions.append(dict.fromkeys(sorted(terms), 1.0))
            self._answer.append(page)

    def source(self) -> Source:
        answer = np.array(self._answer, np.int64)
        return Source(self._name, Bags.of(self._pages), Bags.of(self._questions), answer, self._made_up)


def read_pairs(path: Path, tables: Iterable[Path]) -> Source:
    """A source from JSON lines with a ``query`` and its page."""
    held = {row["_id"]: row["tsv"] for file in tables for _, row in read_objects(file)}
    maker = PageMaker(path.name)
    for _, row in read_objects(path):
        text = row.get("text") or row.get("caption") or held.get(row.get("table", ""))
        if "query" not in row or not text:
            raise InputError(f"{path} has a line without a query, or without text, caption or known table.")
        maker.question(row["query"], maker.page(" ".join(text.split()[:MOST_WORDS])))
    return maker.source()


def ask_about_pdfs(folder: Path, each: int, seed: int) -> Source:
    """A source from PDFs with text layers: ``each`` questions made up for every page."""
    maker, rng, tokenizer = PageMaker(folder.name, made_up=True), random.Random(seed), Tokenizer.load()
    for path in files_of([folder]):
        if path.suffix.lower() != ".pdf":
            continue
        for text in texts_of(path) or ():
            if len(tokenizer.encode(text)) < FEWEST_PIECES:
                continue
            page = maker.page(text)
            for _ in range(each):
                maker.question(ask(text, rng), page)
    return maker.source()
