"""The page reader that ships: pixels to words and weights, by onnxruntime on any CPU.

``detect`` tells which terms stand where on a page. A term's evidence is the expected number of times it
stands there, ``weighting`` makes its weight of that, and ``bigrams`` adds the terms that stand side by side.
``reader_queries`` has the query's side.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.dates import named_days
from vsplade.encode.hash_bits import followed, stamped
from vsplade.encode.legibility import LEGIBLE, legibility
from vsplade.encode.meaning.meaning_model import MeaningModel, is_shipped
from vsplade.encode.reader.bigrams import Kept
from vsplade.encode.reader.detect import CellReader, Cells, at_size, onnx_session
from vsplade.encode.reader.orientation import AS_IT_IS, Pose, Reading, WordPlaces, find_pose, is_askew
from vsplade.encode.reader.page_text import PageText
from vsplade.encode.reader.reader_queries import (
    HEAVY_FILES,
    MODEL_FILES,
    SPELLER,
    ReaderOptions,
    ReaderQueries,
)
from vsplade.encode.reader.spelling import Speller
from vsplade.encode.reader.term_boxes import term_boxes
from vsplade.encode.tokenizer import normalise
from vsplade.encode.weighting import PageWeighting
from vsplade.errors import InputError
from vsplade.types import Box, Direction, Page, PageVector, SparseVector, Windows

if TYPE_CHECKING:
    from PIL import Image

_WEIGHTING = tuple(field.name for field in fields(PageWeighting))
REVISION = 14
"""Of the code that vectors depend on. ``scripts/reader_revision.py`` raises it; a test asks for that."""
ROWS_OF_THREE = 8
"""The revision from which on pairs know what follows them."""
SPELLED = 9
"""The revision from which on words are spelled."""
SAME_MEANING = 12
"""The revision from which on a page has the directions of today."""
FORMER = {14: (13, 12, 10, 9, 8, 7)}
"""Revisions whose indexes the code of a later one can search and extend."""
OTHER_SPELLER = {
    10: {
        "reader:meaning=false": "reader-ab50e5804133f63f",
        "reader:point=efficient,meaning=false": "reader-fda63cfc4e254a6b",
    },
    9: {
        "reader:meaning=false": "reader-05f368b97cbc018c",
        "reader:point=efficient,meaning=false": "reader-b17159fde5290d06",
    },
}
"""Fingerprints of revisions that spelled by a smaller network, whose file counts there and is gone. Pages
that are added are spelled by that of today: more of the same words are read right. With other options such an
index is made anew."""


class ReaderEncoder(ReaderQueries):
    reads_grey = True
    latin_only = True
    on_gpu = False
    engine = "onnxruntime"
    """Pages are read by. Torch makes other vectors: it reads them whole and does not round to 8 bits."""

    def __init__(self, options: ReaderOptions) -> None:
        super().__init__(options)
        self.revision = REVISION
        self._weighting = PageWeighting(**{name: self._config[name] for name in _WEIGHTING})

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
        if known := OTHER_SPELLER.get(self.revision, {}).get(self.name):
            return known
        digest = hashlib.blake2b(digest_size=8)
        settings = [self.revision, self.engine, self._config, self.options.point, self.reading_edge]
        if self._meaning is not None:
            settings.append(self._meaning.fingerprint)
        digest.update(json.dumps(settings, sort_keys=True).encode())
        unseen = {*HEAVY_FILES, "reader.json"} | ({SPELLER} if self.revision < SPELLED else set())
        for name in sorted({*MODEL_FILES} - unseen):
            digest.update((self._folder / name).read_bytes())
        return f"reader-{digest.hexdigest()}"

    def former(self) -> list[ReaderEncoder]:
        """As it was at revisions before, for indexes of that time.

        With meaning only the latest: page models before gave directions that no query of today meets.
        """
        found: list[ReaderEncoder] = []
        for revision in FORMER.get(self.revision, ()):
            if self._meaning is None or revision >= SAME_MEANING:
                found.append(type(self)(self.options))
                found[-1].revision = revision
        return found

    @property
    def longest_edge(self) -> int:
        """More than most pages are read at: those with tiny type are read in all this detail."""
        return round(self.reading_edge * float(self._config["zoom"]))

    @cached_property
    def _worth(self) -> NDArray[np.float32]:
        """What one standing of a term is worth: those worth less than the point's ``least`` are not kept."""
        return np.maximum(self._importance, np.float32(self._point["common"]))

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        """As many pages at a time as there are threads; the next ones wait to be asked for."""
        threads = self.options.threads or os.cpu_count() or 1
        waiting: deque[Future[SparseVector]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="reader") as pool:
            prepared = pool.submit(self._prepare)  # while the first pages are rendered

            def encode(image: Image.Image) -> PageVector:
                prepared.result()
                return self._encode_page(image)

            for page in pages:
                waiting.append(pool.submit(encode, page.image))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
            prepared.result()

    def _prepare(self) -> None:
        """Load what pages need, once, before several threads ask for it."""
        _ = self.cells, self.speller, self.page_text, self._neighbours, self._worth
        if self._meaning is not None:
            self._meaning.prepare()

    def _encode_page(self, image: Image.Image) -> PageVector:
        pose, cells = self.find_upright(image)
        legible = self._is_legible(cells)
        cells = self._spelled(pose, image, cells)
        vector = self._pool(cells)
        return PageVector(vector.terms, vector.weights, self._windows(cells), legible)

    def _is_legible(self, cells: Cells) -> bool:
        certain = legibility(cells, self._tokenizer, self._config["doubt"])
        return certain is None or certain >= LEGIBLE

    def _windows(self, cells: Cells) -> Windows | None:
        """What the page is about."""
        if self._meaning is None:
            return None
        return self._meaning.encode_page(self.page_text.texts(cells))

    @cached_property
    def page_text(self) -> PageText:
        return PageText(self._tokenizer)

    @cached_property
    def _meaning(self) -> MeaningModel | None:
        """None where it was left out; torch's vectors have none yet."""
        wanted = self.options.meaning and self.engine == "onnxruntime" and is_shipped()
        return MeaningModel.load() if wanted else None

    @property
    def in_a_row(self) -> int:
        """Torch's pairs do not know yet what follows them."""
        pairs = super().in_a_row
        followed = self.engine == "onnxruntime" and self.revision >= ROWS_OF_THREE
        return 3 if pairs and followed else pairs

    @property
    def has_meaning(self) -> bool:
        return self._meaning is not None

    def encode_meaning(self, text: str) -> Direction | None:
        found = None if self._meaning is None else self._meaning.encode_query(text, self.options.dense)
        return None if found is None else replace(found, vocabulary=len(self._tokenizer))

    def meant_by(self, asked: Sequence[str], page: SparseVector) -> list[list[str]]:
        return [] if self._meaning is None else self._meaning.meant_by(asked, self._whole_words(page))

    def expansions(self, page: SparseVector, most: int = 10) -> list[tuple[str, float]]:
        if self._meaning is None or not isinstance(page.meaning, Windows):
            return []
        return self._meaning.expansions(page.meaning, set(self._whole_words(page)), most)

    def _whole_words(self, page: SparseVector) -> list[str]:
        """The words of a page that are one term each."""
        single = page.terms[page.terms < len(self._tokenizer)]
        return [self._tokenizer.token(term) for term in single[self._is_word[single]].tolist()]

    @cached_property
    def _is_word(self) -> NDArray[np.bool_]:
        tokens = (self._tokenizer.token(term) for term in range(len(self._tokenizer)))
        return np.array([token.isalpha() and len(token) > 2 for token in tokens])

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        """The vector, and for each of its terms the place that spoke loudest for it.

        Places are those of the page as it was given, also where it had to be turned to be read.
        """
        pose, cells = self.read_upright(page.image)
        vector = self._pool(cells)
        grey = np.asarray(at_size(pose.turned(page.image.convert("L")), self.reading_edge))
        boxes = term_boxes(cells, vector.terms, grey, self._tokenizer, self._neighbours)
        return vector, [pose.box_on_page(box, page.image.size) for box in boxes]

    def check_weights(self) -> None:
        """That the large files are those that the fingerprint stands for."""
        digest = hashlib.blake2b(digest_size=8)
        for name in HEAVY_FILES:
            digest.update((self._folder / name).read_bytes())
        if digest.hexdigest() != self._config["weights"]:
            raise InputError(
                f"{self._folder}: {' or '.join(HEAVY_FILES)} is not the file that reader.json was written "
                "for. Copy the whole folder again, or export the model again."
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
        pose, cells = self.find_upright(image)
        return pose, self._spelled(pose, image, cells)

    def _spelled(self, pose: Pose, image: Image.Image, cells: Cells) -> Cells:
        """With what is spelled letter by letter; torch's pages are not, nor pages that cannot be read."""
        if self.engine != "onnxruntime" or self.revision < SPELLED or not self._is_legible(cells):
            return cells
        return self.speller.look_again(pose.turned(image.convert("L")), cells)

    @cached_property
    def speller(self) -> Speller:
        return Speller(onnx_session(self._folder / SPELLER), self._tokenizer)

    def find_upright(self, image: Image.Image) -> tuple[Pose, Cells]:
        """The same as the reader names its words, before any is spelled."""
        cells = self._read(image)
        reading = Reading.of(cells)
        if not (reading.may_be_turned or (reading.has_words and is_askew(image))):
            return AS_IT_IS, cells
        pose = find_pose(image, reading, WordPlaces.of(cells), self.reading_edge, self._read_samples)
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
        weights = rule.weigh(kept.count, length) * np.float32(settings["share"])
        if kept.follow is not None:
            weights = followed(weights, kept.follow)
        weights = stamped(weights, kept.check)
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
