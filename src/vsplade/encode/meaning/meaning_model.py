"""What a page is about, beyond its words: a direction for every stretch of it, and a table of vectors for
queries.

A small text model (MiniLM) reads the words of a page in windows and gives each window a direction. For a
query no network runs: its vector is the sum of its words' vectors, looked up in a table that was trained
to meet the model's own vectors of whole questions (docs/meaning.md). So a query lies near the pages that
answer it, whatever words it uses. The table has a row for every token of the text model, and behind them one
for many words that the text model cuts into pieces ("bellyache"): pieces alone say little.

The table also says which words a page would answer without holding them. A token's weight on a window is
the product of the two vectors: a window's direction is its expansion over the whole vocabulary, in few
bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence, Set
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.meaning.wordpiece import WordPiece, words
from vsplade.types import Direction, Windows

MODEL = Path(__file__).parents[1] / "data" / "meaning"
WINDOW = 200
"""Tokens of a window, at most."""
STEM, SYLLABLE = 5, 3
"""Letters of a piece that tells something of its word; and of one of two."""
MOST_WINDOWS = 8
"""Windows of one page; of a longer page some stretches are left out."""


def is_shipped() -> bool:
    return (MODEL / "meaning.json").is_file()


def page_windows(count: int, size: int = WINDOW) -> list[tuple[int, int]]:
    """Where each window of a page of ``count`` tokens begins and ends: all about equally long."""
    parts = max(1, -(-count // size))
    edges = [round(part * count / parts) for part in range(parts + 1)]
    windows = list(pairwise(edges))
    if parts <= MOST_WINDOWS:
        return windows
    return [windows[n] for n in np.linspace(0, parts - 1, MOST_WINDOWS).round().astype(int)]


def rounded(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """8 bits a number; only the direction of a vector counts, so each has a scale of its own."""
    most = np.maximum(np.abs(vectors).max(axis=-1, keepdims=True), 1e-12)
    codes: NDArray[np.int8] = np.round(vectors * (127 / most)).astype(np.int8)
    return codes


def _products(rows: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each row with each of the others.

    Not by ``@``: for so little work it would wake BLAS's threads, and they spin on beside whatever comes
    next, at the cost of a whole processor.
    """
    products: NDArray[np.float32] = np.einsum("wd,cd->wc", rows, others)
    return products


class MeaningModel:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        facts: dict[str, Any] = json.loads((folder / "meaning.json").read_text("utf-8"))
        self.dimensions: int = facts["dimensions"]
        self._telling: float = facts.pop("telling")
        """Rows of words that tell little ("what", "many") are no longer; pages do not depend on it."""
        settings = json.dumps([facts, WINDOW, MOST_WINDOWS], sort_keys=True)
        self.fingerprint = hashlib.blake2b(settings.encode(), digest_size=8).hexdigest()

    @classmethod
    @cache
    def load(cls) -> MeaningModel:
        """The model that ships in the package."""
        return cls(MODEL)

    @cached_property
    def _session(self) -> Any:
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1  # pages run side by side instead
        settings.log_severity_level = 3
        path = str(self._folder / "page.onnx")
        return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

    @cached_property
    def _wordpiece(self) -> WordPiece:
        return WordPiece.load(self._folder / "vocab.txt")

    @cached_property
    def _own(self) -> dict[str, int]:
        """The words with a row of their own, behind the rows of the tokens."""
        names = (self._folder / "words.txt").read_text("utf-8").splitlines()
        return {name: row for row, name in enumerate(names, len(self._wordpiece))}

    @cached_property
    def _codes(self) -> NDArray[np.int8]:
        codes = np.load(self._folder / "query.npy", mmap_mode="r", allow_pickle=False)
        plain: NDArray[np.int8] = np.asarray(codes)  # a row of a memmap takes as long as the rest of a query
        return plain

    @cached_property
    def _scale(self) -> NDArray[np.float32]:
        scale: NDArray[np.float32] = np.load(self._folder / "query_scale.npy", allow_pickle=False)
        return scale

    @cached_property
    def _rows_of(self) -> Callable[[str], list[int]]:
        """Of a word; words of pages that are found are asked for again and again."""
        return lru_cache(maxsize=1 << 16)(self._rows)

    @cached_property
    def _centroids(self) -> NDArray[np.float32]:
        """Directions that windows are sorted by, so that a search looks at the near ones only."""
        codes = np.load(self._folder / "centroids.npy", allow_pickle=False).astype(np.float32)
        centroids: NDArray[np.float32] = codes / np.linalg.norm(codes, axis=1, keepdims=True)
        return centroids

    def prepare(self) -> None:
        """Load what pages need, once, before several threads ask for it."""
        self._session, self._wordpiece, self._centroids  # noqa: B018

    def encode_page(self, page_words: Sequence[str]) -> Windows | None:
        """For a page's words in reading order; None for a page without any."""
        tokens = [token for word in page_words for token in self._wordpiece.word(word)]
        if not tokens:
            return None
        vectors = self._read([tokens[first:last] for first, last in page_windows(len(tokens))])
        return self.as_windows(vectors)

    def as_windows(self, vectors: NDArray[np.float32]) -> Windows:
        """A window a row, each in the cluster whose centre is nearest."""
        clusters = _products(vectors, self._centroids).argmax(axis=1)
        return Windows(rounded(vectors), clusters.astype(np.uint16))

    def _read(self, windows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The network's vector of each run of tokens."""
        longest = max(map(len, windows)) + 2
        rows = np.full((len(windows), longest), len(self._wordpiece), np.int32)
        for row, tokens in enumerate(windows):
            rows[row, : len(tokens) + 2] = [self._wordpiece.start, *tokens, self._wordpiece.end]
        feed = {"tokens": rows, "certainty": np.ones(rows.shape, np.float32)}
        vectors: NDArray[np.float32] = self._session.run(None, feed)[0]
        return vectors

    def encode_text(self, text: str) -> Windows | None:
        return self.encode_page(words(text))

    def encode_query(self, text: str, network: bool = False) -> Direction | None:
        """The sum of the tokens' vectors, of length 1; None where no word tells what is meant.

        ``network``: the text model reads the query as it reads pages, and the table is not used.
        """
        if not any(map(self._tells, words(text))):
            return None
        tokens = self._wordpiece.encode(text) if network else []
        total = self._read([tokens[:WINDOW]])[0] if tokens else self.vectors(self._rows(text)).sum(axis=0)
        length = float(np.linalg.norm(total))
        if length < 1e-6:
            return None
        vector = (total / length).astype(np.float32)
        nearness = _products(vector[None], self._centroids)[0]
        return Direction(vector, np.argsort(-nearness).astype(np.uint16))

    def _tells(self, word: str) -> bool:
        """Whether a word tells what is meant: not a number, "what", or one of which only shreds are known."""
        if word.isdigit():
            return False
        rows = self._rows_of(word)
        if len(rows) == 1:
            return float(np.linalg.norm(self.vectors(rows))) > self._telling
        longest = max(len(self._wordpiece.token(row).removeprefix("##")) for row in rows)
        return longest >= STEM or (len(rows) == 2 and longest >= SYLLABLE)

    def _rows(self, text: str) -> list[int]:
        """Of the table: for every word its own, or those of its tokens."""
        own, pieces = self._own, self._wordpiece.word
        return [row for word in words(text) for row in ((own[word],) if word in own else pieces(word))]

    def vectors(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Rows of the table: long ones for words that tell much."""
        rows = np.asarray(numbers, np.int64)
        vectors: NDArray[np.float32] = self._codes[rows].astype(np.float32) * self._scale[rows, None]
        return vectors

    def word_vectors(self, given: Sequence[str]) -> NDArray[np.float32]:
        """A row a word; for a word without a row of its own the sum over its tokens."""
        rows = [self._rows_of(word) for word in given]
        counts = np.array([len(some) for some in rows], np.int64)
        out = np.zeros((len(given), self.dimensions), np.float32)
        if counts.any():
            first = (np.cumsum(counts) - counts)[counts > 0]
            out[counts > 0] = np.add.reduceat(self.vectors([row for some in rows for row in some]), first)
        return out

    def expansions(self, windows: Windows, page_words: Set[str], most: int) -> list[tuple[str, float]]:
        """Words that the page does not hold and would answer, with their weights: the largest products of
        a word's vector with one of the page's windows.
        """
        codes = windows.codes.astype(np.float32)
        codes /= np.linalg.norm(codes, axis=1, keepdims=True)
        weights = (self._codes.astype(np.float32) @ codes.T).max(axis=1) * self._scale
        names = [*map(self._wordpiece.token, range(len(self._wordpiece))), *self._own]
        found: list[tuple[str, float]] = []
        for row in np.argsort(-weights, kind="stable").tolist():
            word = names[row]
            if len(word) > 2 and word.isalpha() and word.isascii() and word not in page_words:
                found.append((word, float(weights[row])))
            if len(found) == most or weights[row] <= 0:
                break
        return found

    def meant_by(self, asked: Sequence[str], page_words: Sequence[str], most: int = 3) -> list[list[str]]:
        """For each word of a query the words of a page that come nearest to it, nearest first."""
        words, given = self.word_vectors(asked), self.word_vectors(page_words)
        lengths = np.linalg.norm(words, axis=1)[:, None] * np.linalg.norm(given, axis=1)
        nearness = words @ given.T / np.maximum(lengths, 1e-6)
        best = np.argsort(-nearness, axis=1, kind="stable")[:, :most]
        return [
            [page_words[n] for n in row.tolist() if near[n] > NEAR]
            for row, near in zip(best, nearness, strict=True)
        ]


NEAR = 0.35
"""Words at less than this cosine are not named as what was meant."""
