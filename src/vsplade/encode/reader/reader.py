"""The page reader that ships: pixels to words and weights, by onnxruntime on any CPU.

``cells`` tells which terms stand where on a page. A term's evidence is the expected number of times it stands
there, ``weighting`` makes its weight of that, and ``neighbours`` adds the terms that stand side by side.
Query weights are a learned table: no network runs for a query.
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

from vsplade.encode.dates import named_days
from vsplade.encode.hash_bits import stamped
from vsplade.encode.legibility import LEGIBLE, legibility
from vsplade.encode.meaning.meaning_model import MeaningModel, is_shipped
from vsplade.encode.query_length import check_query_length
from vsplade.encode.reader.bigrams import PAIRS, Kept, Neighbours
from vsplade.encode.reader.boxes import box_on_ink
from vsplade.encode.reader.detect import CellReader, Cells, at_size
from vsplade.encode.reader.orientation import AS_IT_IS, Pose, Reading, find_pose, is_askew
from vsplade.encode.reader.page_text import PageText
from vsplade.encode.reader.whole_words import ReaderWords
from vsplade.encode.tokenizer import Tokenizer, letters_of, normalise
from vsplade.encode.weighting import PageWeighting, damped
from vsplade.errors import InputError
from vsplade.types import (
    Box,
    Direction,
    Page,
    PageVector,
    QueryWord,
    SparseVector,
    TermStatistics,
    Vocabulary,
    Windows,
)

if TYPE_CHECKING:
    from PIL import Image

MODEL = Path(__file__).parents[1] / "data" / "reader"
_WEIGHTING = tuple(field.name for field in fields(PageWeighting))
_HEAVY = ("trunk.onnx", "head.onnx")
_FILES = (*_HEAVY, "size.onnx", "query.npy", "related.npy", "certainty.npy", "reader.json")
REVISION = 4
"""Of the code that vectors depend on. ``scripts/reader_revision.py`` raises it; a test asks for that."""

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


class ReaderEncoder:
    reads_grey = True
    latin_only = True
    engine = "onnxruntime"
    """Pages are read by. Torch makes other vectors: it reads them whole and does not round to 8 bits."""

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
        if not self.options.meaning:
            parts.append("meaning=false")
        if self.options.dense:
            parts.append("dense=true")
        if self.options.model:
            parts.append(f"model={self.options.model}")
        if self.engine != "onnxruntime":
            parts.append(f"device={self.engine}")
        return "reader" + (":" + ",".join(parts) if parts else "")

    @cached_property
    def fingerprint(self) -> str:
        """Of the model, the options that change a vector, and the code: docs/model-card.md says how.

        The trunk's and the head's bytes are in ``weights``, which is checked before they are used: a search
        starts sooner without reading them.
        """
        digest = hashlib.blake2b(digest_size=8)
        settings = [REVISION, self.engine, self._config, self.options.point, self.reading_edge]
        if self._meaning is not None:
            settings.append(self._meaning.fingerprint)
        digest.update(json.dumps(settings, sort_keys=True).encode())
        for name in sorted({*_FILES} - {*_HEAVY, "reader.json"}):
            digest.update((self._folder / name).read_bytes())
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
    def query_weights(self) -> NDArray[np.float32]:
        """Of single terms and behind them of pairs, as ``encode_query`` gives them."""
        pairs = self._config["pairs"]
        pair = np.full(PAIRS, pairs["weight"] / pairs["share"], np.float32)
        weights: NDArray[np.float32] = np.concatenate([self._importance / self._certainty, pair])
        return weights

    @cached_property
    def _worth(self) -> NDArray[np.float32]:
        """What one standing of a term is worth: those worth less than the point's ``least`` are not kept."""
        return np.maximum(self._importance, np.float32(self._point["common"]))

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
        for number, weight in self._words.weigh_whole(written).items():
            behind[number] = max(behind.get(number, 0.0), weight / pairs["share"])
        return SparseVector.from_dict(
            words | {len(self._tokenizer) + number: weight for number, weight in behind.items()}
        )

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
        return ReaderWords(self._tokenizer, self._neighbours, self.keeps_order)

    @property
    def keeps_order(self) -> bool:
        return "pair" in self._point

    def query_words(self, text: str) -> list[QueryWord]:
        return self._words.query_words(text)

    def phrase(self, text: str) -> QueryWord:
        return self._words.phrase(text)

    def beginning(self, letters: str) -> QueryWord:
        return self._words.beginning(letters)

    def weigh_terms(self, terms: Sequence[int], statistics: TermStatistics | None = None) -> dict[int, float]:
        return {term: float(self._importance[term] / self._certainty[term]) for term in terms}

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        """As many pages at a time as there are threads; the next ones wait to be asked for."""
        threads = self.options.threads or os.cpu_count() or 1
        self.cells  # noqa: B018 - loaded once, before the threads ask for it
        if self._meaning is not None:
            self._meaning.prepare()
        waiting: deque[Future[SparseVector]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="reader") as pool:
            for page in pages:
                waiting.append(pool.submit(self._encode_page, page.image))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _encode_page(self, image: Image.Image) -> PageVector:
        cells = self.read(image)
        vector = self._pool(cells)
        certain = legibility(cells, self._tokenizer, self._config["doubt"])
        legible = certain is None or certain >= LEGIBLE
        return PageVector(vector.terms, vector.weights, self._windows(cells), legible)

    def _windows(self, cells: Cells) -> Windows | None:
        """What the page is about."""
        if self._meaning is None:
            return None
        lines = self.page_text.lines(cells)
        return self._meaning.encode_page([word.text for line in lines for word in line])

    @cached_property
    def page_text(self) -> PageText:
        return PageText(self._tokenizer)

    @cached_property
    def _meaning(self) -> MeaningModel | None:
        """None where it was left out; torch's vectors have none yet."""
        wanted = self.options.meaning and self.engine == "onnxruntime" and is_shipped()
        return MeaningModel.load() if wanted else None

    def encode_meaning(self, text: str) -> Direction | None:
        found = None if self._meaning is None else self._meaning.encode_query(text, self.options.dense)
        return None if found is None else replace(found, vocabulary=len(self._tokenizer))

    def meant_by(self, word: str, page: SparseVector) -> list[str]:
        return [] if self._meaning is None else self._meaning.meant_by(word, self._whole_words(page))

    def expansions(self, page: SparseVector, most: int = 10) -> list[tuple[str, float]]:
        if self._meaning is None or not isinstance(page.meaning, Windows):
            return []
        return self._meaning.expansions(page.meaning, set(self._whole_words(page)), most)

    def _whole_words(self, page: SparseVector) -> list[str]:
        """The words of a page that are one term each."""
        tokens = (self._tokenizer.token(term) for term in page.terms.tolist() if term < len(self._tokenizer))
        return [token for token in tokens if token.isalpha() and len(token) > 2]

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        """The vector, and for each of its terms the place that spoke loudest for it.

        Places are those of the page as it was given, also where it had to be turned to be read.
        """
        pose, cells = self.read_upright(page.image)
        vector = self._pool(cells)
        # of several good places, the one on the largest copy is the most exact
        value = cells.probability / (cells.pixel[:, :1] / cells.pixel[:, :1].min(initial=1.0)) ** 0.5
        strongest = np.zeros(len(self._tokenizer), np.int64)
        order = np.argsort(value, axis=None, kind="stable")
        strongest[cells.term.ravel()[order]] = order // cells.term.shape[1]  # the last write, the best, stays
        grey = np.asarray(at_size(pose.turned(page.image.convert("L")), self.reading_edge))
        words = vector.terms[vector.terms < len(self._tokenizer)]
        boxes = [self._box(cells, int(strongest[term]), int(term), grey) for term in words]
        pairs = vector.terms[len(words) :].astype(np.int64) - len(self._tokenizer)
        boxes += self._pair_boxes(cells, pairs, grey)
        return vector, [pose.box_on_page(box, page.image.size) for box in boxes]

    def _pair_boxes(self, cells: Cells, numbers: NDArray[np.int64], grey: NDArray[np.uint8]) -> list[Box]:
        """Around both words of each pair, where it is likeliest."""
        standing = self._neighbours.on_page(cells)
        number, chance, left, right = (
            np.concatenate([getattr(some, name) for some in (standing.whole, standing.pairs)])
            for name in ("number", "chance", "left", "right")
        )
        order = np.argsort(chance, kind="stable")
        best = np.zeros(PAIRS, np.int64)
        best[number[order]] = order

        def around(row: int) -> Box:
            return self._box(cells, row, int(cells.term[row, 0]), grey)

        ends = ((around(int(left[n])), around(int(right[n]))) for n in best[numbers])
        return [a.around(b) for a, b in ends]

    def _box(self, cells: Cells, row: int, term: int, grey: NDArray[np.uint8]) -> Box:
        letters = letters_of(self._tokenizer.token(term))
        middle, pixel, em = cells.middle[row], cells.pixel[row], float(cells.em[row])
        return box_on_ink(grey, letters, middle, pixel, em)

    def check_weights(self) -> None:
        """That the large files are those that the fingerprint stands for."""
        digest = hashlib.blake2b(digest_size=8)
        for name in _HEAVY:
            digest.update((self._folder / name).read_bytes())
        if digest.hexdigest() != self._config["weights"]:
            raise InputError(
                f"{self._folder}: {' or '.join(_HEAVY)} is not the file that reader.json was written for. "
                "Copy the whole folder again, or export the model again."
            )

    @cached_property
    def cells(self) -> CellReader:
        self.check_weights()
        return CellReader(self._folder, self._config, self.reading_edge)

    def read(self, image: Image.Image) -> Cells:
        """Every word cell of a page, in the pose that it is read in."""
        return self.read_upright(image)[1]

    def read_upright(self, image: Image.Image) -> tuple[Pose, Cells]:
        """What brings the page upright, and its word cells in that pose."""
        cells = self._read(image)
        reading = Reading.of(cells)
        if not (reading.is_doubtful or (reading.has_words and is_askew(image))):
            return AS_IT_IS, cells
        pose = find_pose(image, reading, self.reading_edge, self._read_samples)
        return pose, cells if pose == AS_IT_IS else self._read(pose.turned(image))

    def _read(self, image: Image.Image) -> Cells:
        return self.cells.read(image)

    def _read_samples(self, pictures: Sequence[Image.Image]) -> list[Reading]:
        return [Reading.of(self.cells.read_as_it_is(picture)) for picture in pictures]

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
        standing = self._neighbours.on_page(cells)
        return self._add_pairs(words, standing.kept(self._point["pair"]), length)

    def _add_pairs(self, words: SparseVector, kept: Kept, length: float) -> SparseVector:
        settings = self._config["pairs"]
        rule = replace(self._weighting, saturation=settings["saturation"])
        weights = stamped(rule.weigh(kept.count, length) * np.float32(settings["share"]), kept.check)
        terms = (kept.number + len(self._tokenizer)).astype(np.uint32)
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
        pieces = [self._words.pieces(unit) for unit in self._words.readings(text)[0]]
        days = [self._words.pieces(day) for day in named_days(normalise(text))]
        kept = self._neighbours.in_line(pieces, days).kept(self._point["pair"])
        return self._add_pairs(words, kept, float(len(terms)))
