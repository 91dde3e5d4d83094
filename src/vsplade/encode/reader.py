"""The page reader that ships: pixels to words and weights, by onnxruntime on any CPU.

A page is read at one size and on two small copies, for large type; where most of its type turns out to be
tiny, it is read again at a larger size. On each, the trunk finds the cells where a word piece has its middle
and the head names it; a term's evidence is the expected number of times it stands on the page, and
``weighting`` makes its weight of that. Query weights are a learned table: no network runs for a query.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode import ink
from vsplade.encode.boxes import box_on_ink
from vsplade.encode.ink import BLOCK, CELL
from vsplade.encode.neighbours import PAIRS, Neighbours
from vsplade.encode.tokenizer import Tokenizer, letters_of
from vsplade.encode.weighting import PageWeighting, damped
from vsplade.errors import InputError
from vsplade.types import Box, Page, SparseVector, TermStatistics, Vocabulary

if TYPE_CHECKING:
    from PIL import Image

MODEL = Path(__file__).with_name("data") / "reader"
FOLD = 4
HEAD_ROWS = 128
"""Cells named at a time: their logits over the vocabulary stay in the cache."""
LEAST_READ = 3.0
"""Words, at least, by which the size of a page's type is judged."""
_WEIGHTING = tuple(field.name for field in fields(PageWeighting))
_READING = ("points", "scales", "floor", "zoom", "tiny", "large", "doubt", "pairs")
_FILES = ("trunk.onnx", "head.onnx", "size.onnx", "query.npy", "related.npy", "certainty.npy", "reader.json")


@dataclass(frozen=True)
class ReaderOptions:
    """``reader:point=efficient,threads=4``"""

    point: str = "quality"
    """``quality``, or ``efficient``: only terms that matter more, for an index half the size."""
    longest_edge: int = 0
    """Pixels of the longest edge that pages are read at; 0 is the model's own. Tiny type is read larger."""
    threads: int = 0
    """Pages read at a time; 0 is one for every core."""
    model: str = ""
    """A folder with another model in the same layout."""
    device: str = "cpu"
    """``cpu`` is onnxruntime; any other device, as ``cuda``, is torch's."""


@dataclass(frozen=True)
class Cells:
    """What was read: one row a cell, the best few terms of each."""

    middle: NDArray[np.float32]  # (n, 2) x, y in fractions of the page
    pixel: NDArray[np.float32]  # (n, 2) one pixel of the copy it was read on, in fractions of the page
    probability: NDArray[np.float32]  # (n, best), that the term stands there
    term: NDArray[np.int32]
    em: NDArray[np.float32]  # (n,) of the type, in pixels of the copy


@dataclass(frozen=True)
class Words:
    """Where words stand on a copy of the page: one row a cell that holds the middle of a piece."""

    place: NDArray[np.int64]  # (n, 2) x, y in pixels of the copy
    chance: NDArray[np.float32]
    features: NDArray[np.float32]
    size: tuple[int, int]
    """Of the copy: width, height."""

    @property
    def pixel(self) -> NDArray[np.float32]:
        """(n, 2) one pixel of the copy, in fractions of the page."""
        return np.repeat(np.array([[1 / side for side in self.size]], np.float32), len(self.place), axis=0)

    def only(self, rows: NDArray[np.bool_]) -> Words:
        return Words(self.place[rows], self.chance[rows], self.features[rows], self.size)


def type_size(em: NDArray[np.float32], weight: NDArray[np.float32]) -> float:
    """The em that half of what was read is smaller than; infinite where next to nothing was."""
    order = np.argsort(em, kind="stable")
    running = np.cumsum(weight[order])
    if not len(order) or running[-1] < LEAST_READ:
        return np.inf
    return float(em[order[np.searchsorted(running, running[-1] / 2)]])


def fold(picture: NDArray[Any]) -> NDArray[Any]:
    """(height, width) to (1, 16, height / 4, width / 4): the pixels of each 4 x 4 block become channels."""
    height, width = picture.shape
    blocks = picture.reshape(height // FOLD, FOLD, width // FOLD, FOLD).transpose(1, 3, 0, 2)
    return np.ascontiguousarray(blocks).reshape(1, FOLD * FOLD, height // FOLD, width // FOLD)


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


class ReaderEncoder:
    reads_grey = True

    def __init__(self, options: ReaderOptions) -> None:
        self.options = options
        self._folder = Path(options.model) if options.model else MODEL
        missing = [name for name in _FILES if not (self._folder / name).is_file()]
        if missing:
            raise InputError(f"{self._folder} is not a reader model: it has no {', '.join(missing)}.")
        self._config: dict[str, Any] = json.loads((self._folder / "reader.json").read_text("utf-8"))
        points = self._config["points"]
        if options.point not in points:
            raise InputError(
                f"The reader has no point {options.point!r}; choose one of: {', '.join(sorted(points))}."
            )
        self._point: dict[str, float] = points[options.point]
        self._weighting = PageWeighting(**{name: self._config[name] for name in _WEIGHTING})
        self._tokenizer = Tokenizer.load()
        if self._config["vocabulary"] != self._tokenizer.fingerprint:
            raise InputError(f"{self._folder} was trained with another vocabulary than this package's.")

    @property
    def name(self) -> str:
        parts = [f"point={self.options.point}"] if self.options.point != "quality" else []
        if self.options.longest_edge:
            parts.append(f"longest_edge={self.options.longest_edge}")
        if self.options.model:
            parts.append(f"model={self.options.model}")
        return "reader" + (":" + ",".join(parts) if parts else "")

    @cached_property
    def fingerprint(self) -> str:
        """Of the weights, the table, and every setting that changes a vector."""
        digest = hashlib.blake2b(digest_size=8)
        digest.update(self._config["weights"].encode())
        for table in ("query.npy", "related.npy", "certainty.npy"):
            digest.update((self._folder / table).read_bytes())
        rest = {k: self._config[k] for k in (*_READING, *_WEIGHTING, "related", "lightest")}
        settings = [rest, self.options.point, self.reading_edge, ink.SETTINGS]
        digest.update(json.dumps(settings, sort_keys=True).encode())
        return f"reader-{digest.hexdigest()}"

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

    @property
    def longest_edge(self) -> int:
        """More than most pages are read at: those with tiny type are read in all this detail."""
        return round(self.reading_edge * float(self._config["zoom"]))

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
    def term_values(self) -> NDArray[np.float32]:
        """A little more for terms that weigh more in queries; the factors in page weights are undone."""
        pairs = self._config["pairs"]
        weights = np.concatenate([self._importance, np.full(PAIRS, pairs["weight"], np.float32)])
        factors = np.concatenate([self._certainty, np.full(PAIRS, pairs["share"], np.float32)])
        values: NDArray[np.float32] = damped(weights) / factors
        return values

    @cached_property
    def _worth(self) -> NDArray[np.float32]:
        """What one standing of a term is worth: those worth less than the point's ``least`` are not kept."""
        return np.maximum(self._importance, np.float32(self._point["common"]))

    @cached_property
    def _related(self) -> NDArray[np.int64]:
        """(pairs, 2) sorted: a term of the query, and one that it also asks for."""
        pairs: NDArray[np.int64] = np.load(self._folder / "related.npy", allow_pickle=False).astype(np.int64)
        return pairs

    @cached_property
    def _sessions(self) -> tuple[Any, Any, Any]:
        """Trunk, head, and the part of the head that tells the size of type."""
        import onnxruntime

        def session(name: str) -> Any:
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = 1  # pages run side by side instead: no waiting in a small layer
            settings.inter_op_num_threads = 1
            # the head's logits are kept for the next cells: the system would clear new memory each time
            settings.enable_cpu_mem_arena = name == "head.onnx"
            settings.log_severity_level = 3
            path = str(self._folder / name)
            return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])

        return session("trunk.onnx"), session("head.onnx"), session("size.onnx")

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        """Each term once, with its weight from the table; words of the same stem at a fraction of it.

        What weighs next to nothing ("the", "what") is left out, unless there is nothing else.
        """
        table = self._importance
        weights: dict[int, float] = {}
        text_terms = self._tokenizer.encode(text)
        terms = set(text_terms)
        for term in terms:
            first, last = np.searchsorted(self._related[:, 0], (term, term + 1))
            for other in self._related[first:last, 1].tolist():
                share = self._config["related"] * float(min(table[term], table[other]))
                weights[other] = max(weights.get(other, 0.0), share)
        weights |= {term: float(table[term]) for term in terms}
        heavy = {term: weight for term, weight in weights.items() if weight >= self._config["lightest"]}
        kept = heavy or weights
        words = {term: kept[term] / float(self._certainty[term]) for term in kept}
        pairs = self._config["pairs"]
        behind = (len(self._tokenizer) + number for number in self._neighbours.in_text(text_terms))
        return SparseVector.from_dict(words | dict.fromkeys(behind, pairs["weight"] / pairs["share"]))

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        """As many pages at a time as there are threads; the next ones wait to be asked for."""
        threads = self.options.threads or os.cpu_count() or 1
        self._sessions  # noqa: B018 - loaded once, before the threads ask for it
        waiting: deque[Future[SparseVector]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="reader") as pool:
            for page in pages:
                waiting.append(pool.submit(lambda image: self._pool(self.read(image)), page.image))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        """The vector, and for each of its terms the place that spoke loudest for it."""
        cells = self.read(page.image)
        vector = self._pool(cells)
        # of several good places, the one on the largest copy is the most exact
        value = cells.probability / (cells.pixel[:, :1] / cells.pixel[:, :1].min(initial=1.0)) ** 0.5
        strongest = np.zeros(len(self._tokenizer), np.int64)
        order = np.argsort(value, axis=None, kind="stable")
        strongest[cells.term.ravel()[order]] = order // cells.term.shape[1]  # the last write, the best, stays
        grey = np.asarray(self._page(page.image.convert("L")))
        words = vector.terms[vector.terms < len(self._tokenizer)]
        boxes = [self._box(cells, int(strongest[term]), int(term), grey) for term in words]
        pairs = vector.terms[len(words) :].astype(np.int64) - len(self._tokenizer)
        return vector, boxes + self._pair_boxes(cells, pairs, grey)

    def _pair_boxes(self, cells: Cells, numbers: NDArray[np.int64], grey: NDArray[np.uint8]) -> list[Box]:
        """Around both words of each pair, where it is likeliest."""
        pairs = self._neighbours.on_page(cells)
        order = np.argsort(pairs.chance, kind="stable")
        best = np.zeros(PAIRS, np.int64)
        best[pairs.number[order]] = order

        def around(row: int) -> Box:
            return self._box(cells, row, int(cells.term[row, 0]), grey)

        ends = ((around(int(pairs.left[n])), around(int(pairs.right[n]))) for n in best[numbers])
        return [a.around(b) for a, b in ends]

    def _box(self, cells: Cells, row: int, term: int, grey: NDArray[np.uint8]) -> Box:
        letters = letters_of(self._tokenizer.token(term))
        middle, pixel, em = cells.middle[row], cells.pixel[row], float(cells.em[row])
        return box_on_ink(grey, letters, middle, pixel, em)

    def read(self, image: Image.Image) -> Cells:
        """Every word cell of a page, over all the sizes it is read at."""
        grey = image.convert("L")
        page = self._page(grey)
        words = self._find_words(page)
        if type_size(self._type_sizes(words), words.chance) < self._config["tiny"]:
            words = self._find_words(self._page(grey, self.longest_edge))
        copies = [words]
        for scale in self._config["scales"]:
            words = self._find_words(self._copy(page, scale))
            copies.append(words.only(self._type_sizes(words) >= self._config["large"]))
        return self._name(copies)

    def _page(self, grey: Image.Image, edge: int = 0) -> Image.Image:
        """The page at the size that it is read at."""
        from vsplade.pages import fit

        return fit(grey, edge or self.reading_edge, enlarge=True)

    @staticmethod
    def _copy(page: Image.Image, scale: float) -> Image.Image:
        from vsplade.pages import fit

        return fit(page, max(BLOCK, round(max(page.size) * scale)))

    def _find_words(self, copy: Image.Image) -> Words:
        grey = np.asarray(copy)
        padding = ((0, -grey.shape[0] % BLOCK), (0, -grey.shape[1] % BLOCK))
        padded = np.pad(grey, padding, mode="edge")
        width = self._config["network"]["middle"] + self._config["network"]["coarse"]
        places, chances = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.float32)]
        features = [np.zeros((0, width), np.float32)]
        shown, owner = ink.windows(padded)
        for number, (top, left, bottom, right) in enumerate(shown):
            window = padded[top * CELL : bottom * CELL, left * CELL : right * CELL]
            dark = fold(255 - window).astype(np.float32) / 255
            word, fine, coarse = self._sessions[0].run(None, {"picture": dark})
            own = owner[top:bottom, left:right] == number
            rows, columns = np.nonzero((word[0] > self._config["floor"]) & own)
            seen = np.concatenate([fine[0][:, rows, columns], coarse[0][:, rows // 2, columns // 2]])
            features.append(np.ascontiguousarray(seen.T))
            chances.append(1 / (1 + np.exp(-word[0][rows, columns])))
            places.append(np.stack([columns + left, rows + top], 1) * CELL)
        return Words(np.concatenate(places), np.concatenate(chances), np.concatenate(features), copy.size)

    def _type_sizes(self, words: Words) -> NDArray[np.float32]:
        """The em of each word in pixels of the copy: a small part of the head, done before naming."""
        if not len(words.features):
            return np.zeros(0, np.float32)
        em: NDArray[np.float32] = self._sessions[2].run(None, {"features": words.features})[0]
        return em

    def _name(self, copies: Sequence[Words]) -> Cells:
        """The best few terms of each cell, of all copies together: few cells stand on the small ones."""
        best = int(self._config["best"])
        probabilities, terms = [np.zeros((0, best), np.float32)], [np.zeros((0, best), np.int32)]
        ems = [np.zeros(0, np.float32)]
        features = np.concatenate([words.features for words in copies])
        for at in range(0, len(features), HEAD_ROWS):
            rows = features[at : at + HEAD_ROWS]
            probability, term, em = self._sessions[1].run(None, {"features": rows})
            probabilities.append(probability)
            terms.append(term)
            ems.append(em)
        pixel = np.concatenate([words.pixel for words in copies])
        middle = np.concatenate([(words.place + CELL / 2) * words.pixel for words in copies])
        chance = np.concatenate([words.chance for words in copies])
        probability = np.concatenate(probabilities) * chance[:, None] ** self._config["doubt"]
        columns = (probability, np.concatenate(terms), np.concatenate(ems))
        return Cells(middle.astype(np.float32), pixel, *columns)

    def _pool(self, cells: Cells) -> SparseVector:
        count = np.bincount(cells.term.ravel(), cells.probability.ravel(), len(self._tokenizer))
        terms = np.flatnonzero(count * self._worth > self._point["least"])
        length = float(count.sum())
        words = self.weigh(terms.astype(np.uint32), count[terms], length)
        return self._with_pairs(words, cells, length)

    def _with_pairs(self, words: SparseVector, cells: Cells, length: float) -> SparseVector:
        """A page's vector with its neighbours, where the point has them."""
        if "pair" not in self._point:
            return words
        return self._add_pairs(words, *self._neighbours.on_page(cells).counts(), length)

    def _add_pairs(
        self, words: SparseVector, numbers: NDArray[np.int64], counts: NDArray[Any], length: float
    ) -> SparseVector:
        settings = self._config["pairs"]
        kept = counts > self._point["pair"]
        rule = replace(self._weighting, saturation=settings["saturation"])
        weights = rule.weigh(counts[kept], length) * np.float32(settings["share"])
        terms = (numbers[kept] + len(self._tokenizer)).astype(np.uint32)
        return SparseVector(np.concatenate([words.terms, terms]), np.concatenate([words.weights, weights]))

    def weigh(self, terms: NDArray[np.uint32], counts: NDArray[Any], length: float) -> SparseVector:
        """Expected counts to weights, on a page that holds ``length`` pieces in all."""
        return SparseVector(terms, self._weighting.weigh(counts, length) * self._certainty[terms])

    def weigh_text(self, text: str) -> SparseVector:
        """A page of which every word was read without error, as one long line; no term is too light."""
        terms = self._tokenizer.encode(text)
        distinct, counts = np.unique(np.array(terms, np.uint32), return_counts=True)
        words = self.weigh(distinct, counts, float(len(terms)))
        if "pair" not in self._point:
            return words
        return self._add_pairs(words, *self._neighbours.counted(terms), float(len(terms)))
