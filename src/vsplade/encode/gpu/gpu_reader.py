"""The reader on a GPU: the same 8-bit weights, unpacked into torch, whole pages in batches.

A page crosses to the GPU once, as grey bytes, in one transfer a batch from pinned memory; its smaller copies
are made there, and only terms and weights come back. A few batches are under way at a time, each on a stream
of its own: while one waits for its bytes or for the number of its words, another computes (``pipeline``).

What costs here is the number of calls and of waits, more than the arithmetic. So the device is asked for
numbers five times a batch (a sixth time where there is tiny type), never by ``nonzero`` or a mask.

Activations are not rounded to 8 bits here and blank paper is read too, so vectors differ from onnxruntime's
(docs/model-card.md says how much). The fingerprint differs too: an index holds vectors of the one or of the
other. ``lazy_reader`` finds the words of a query for it without torch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsplade.encode.gpu.batch import Packed, PageBatch
from vsplade.encode.gpu.batch_queue import SIDE, PageQueue
from vsplade.encode.gpu.bigrams_torch import BatchStanding, NeighboursOnDevice
from vsplade.encode.gpu.detect_torch import Found, load_network
from vsplade.encode.gpu.find_words import WordFinder, reading_size
from vsplade.encode.gpu.fuse_convs import can_fuse, fuse
from vsplade.encode.gpu.pipeline import HOST_ONLY, Steps, StreamScheduler, finish
from vsplade.encode.gpu.transfers import fetch, rows_of, to_device
from vsplade.encode.hash_bits import DOUBT
from vsplade.encode.reader.bigrams import CANDIDATES, PAIRS, TOLD, WHOLE, Kept
from vsplade.encode.reader.detect import Cells
from vsplade.encode.reader.orientation import AS_IT_IS, Reading, WordPlaces, find_pose, is_askew
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import ReaderOptions
from vsplade.errors import InputError
from vsplade.pages import grey_levels
from vsplade.types import Page, SparseVector

BATCHES = ((40 << 30, 64), (20 << 30, 32), (0, 8))
"""Bytes of a GPU's memory, at least, and pages at a time: every kernel is started once a batch, so large ones
cost less."""
LANES = 3
"""Batches under way at a time. Each takes about 6 GB of the GPU's memory where a batch is 64 pages."""
PACKERS = 2
"""Threads that put the bytes of pages into pinned memory."""


def _best_device() -> str:
    """Not plain ``cpu``, which is onnxruntime's."""
    return "cuda" if torch.cuda.is_available() else "cpu:0"


class TorchReaderEncoder(WordFinder, ReaderEncoder):
    on_gpu = True
    engine = "torch"

    def __init__(self, options: ReaderOptions) -> None:
        super().__init__(options)
        self.check_weights()
        self.device = torch.device(_best_device() if options.device == "torch" else options.device)
        cuda = self.device.type == "cuda"
        if cuda and not torch.cuda.is_available():
            raise InputError("There is no GPU that torch can use; leave the reader's option 'device' out.")
        memory = torch.cuda.get_device_properties(self.device).total_memory if cuda else 0
        self.batch = next(pages for least, pages in BATCHES if memory >= least)
        self.kind = torch.float16 if cuda else torch.float32
        self.network = load_network(self._folder, self._config).to(self.device, self.kind)
        if cuda:
            self.network = self.network.to(memory_format=torch.channels_last)
        self.trunk: Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]] = (
            fuse(self.network.trunk) if cuda and can_fuse() else self.network.trunk
        )
        self._worth_here = torch.from_numpy(self._worth).to(self.device)
        self._neighbours_here = NeighboursOnDevice(self._neighbours, self.device)
        self._streams = [torch.cuda.Stream(self.device) if cuda else None for _ in range(LANES)]

    @cached_property
    def scheduler(self) -> StreamScheduler[list[SparseVector]]:
        scheduler: StreamScheduler[list[SparseVector]] = StreamScheduler(self._streams)
        weakref.finalize(self, scheduler.close)
        return scheduler

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        scheduler, packers = self.scheduler, ThreadPoolExecutor(PACKERS, thread_name_prefix="reader-pack")

        def pack(images: list[Image.Image], answer: Future[list[SparseVector]]) -> None:
            if answer.cancelled():
                return
            try:
                packed = self.pack(images)
                images.clear()  # the renderer may write over them now
                scheduler.put(self._encode(packed), answer)
            except Exception as error:  # whoever asks for the answer raises it
                answer.set_exception(error)

        def submit(images: list[Image.Image]) -> Future[list[SparseVector]]:
            answer: Future[list[SparseVector]] = Future()
            packers.submit(pack, images, answer)
            return answer

        queue = PageQueue(submit, self.batch, self.shape)
        try:
            for page in pages:
                queue.add(page.image)
                yield from queue.ready()
            yield from queue.rest()
        finally:
            queue.give_up()
            packers.shutdown(wait=True, cancel_futures=True)

    def shape(self, image: Image.Image) -> tuple[int, int]:
        """Squares of SIDE, across and down, that a page covers at the size that it is read at."""
        height, width = reading_size((image.height, image.width), self.reading_edge)
        return -(-width // SIDE), -(-height // SIDE)

    def _encode(self, packed: Packed) -> Steps[list[SparseVector]]:
        batch = self.send(packed)
        del packed  # its pinned memory is for the next batch
        return (yield from self.vectors(batch))

    @torch.inference_mode()
    def _read(self, image: Image.Image) -> Cells:
        found = finish(self.find(self.send(self.pack([image], turn=False))))
        probability, term = self.name_words(found)
        columns = (found.middle, found.pixel, probability, term.int(), found.em)
        return Cells(*(column.cpu().numpy() for column in columns))

    def pack(self, images: Sequence[Image.Image], turn: bool = True) -> Packed:
        """The grey bytes of the pages, one after the other; torch keeps pinned memory and gives it again.

        Where pages are not to be turned, nobody looks whether they are askew.
        """
        pages = [grey_levels(image) for image in images]
        ends = np.cumsum([page.size for page in pages])
        levels = torch.empty(int(ends[-1]), dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        target = levels.numpy()
        for page, end in zip(pages, ends, strict=True):
            target[end - page.size : end].reshape(page.shape)[:] = page
        spare = next(size for size in (1, 8, self.batch, len(pages)) if size >= len(pages)) - len(pages)
        start = [0, *ends[:-1].tolist()] + [0] * spare
        sizes = [(page.shape[0], page.shape[1]) for page in pages] + [(1, 1)] * spare
        return Packed(levels, start, sizes, len(pages), [turn and is_askew(image) for image in images])

    def send(self, packed: Packed) -> PageBatch:
        levels = packed.levels.to(self.device, non_blocking=True)
        start = to_device(packed.start, self.device, torch.int32)
        return PageBatch(levels, start, packed.sizes, packed.pages, packed.askew)

    @torch.inference_mode()
    def _read_samples(self, pictures: Sequence[Image.Image]) -> list[Reading]:
        batch = self.send(self.pack(pictures, turn=False))
        found, _ = finish(self._look([(batch.picture(SIDE).to(self.kind), batch.sizes)]))
        probability, _ = self.name_words(found)
        return _readings(_certainty(found, probability, len(batch.sizes)).cpu().numpy())[: batch.pages]

    def _turned(
        self, batch: PageBatch, readings: Sequence[Reading], found: Found, probability: Tensor
    ) -> dict[int, SparseVector]:
        """The vectors of the pages that had to be turned, by their number.

        There are few, so all of it waits for the device, and pages come back from there.
        """
        turned: dict[int, Image.Image] = {}
        for number, reading in enumerate(readings):
            if reading.may_be_turned or (reading.has_words and batch.askew[number]):
                image = Image.fromarray(batch.grey(number).cpu().numpy())
                here = found.page == number
                columns = (found.middle[here], probability[here].sum(1))
                words = WordPlaces(*(column.cpu().numpy() for column in columns))
                pose = find_pose(image, reading, words, self.reading_edge, self._read_samples)
                if pose != AS_IT_IS:
                    turned[number] = pose.turned(image)
        if not turned:
            return {}
        vectors = finish(self.vectors(self.send(self.pack(list(turned.values()), turn=False)), turn=False))
        return dict(zip(turned, vectors, strict=True))

    def vectors(self, batch: PageBatch, turn: bool = True) -> Steps[list[SparseVector]]:
        """As ``ReaderEncoder._pool``: the counts of all pages at once, on the device.

        Where pages are to be turned, those that need it are read again.
        """
        found = yield from self.find(batch)
        terms = len(self._tokenizer)
        probability, term = self.name_words(found)
        counts = torch.zeros(len(batch.sizes) * terms, device=self.device)
        counts.scatter_add_(0, (found.page[:, None] * terms + term).view(-1), probability.view(-1))
        counts = counts.view(-1, terms)[: batch.pages]
        kept = counts * self._worth_here > self._point["least"]
        places = rows_of(kept.view(-1), min(kept.numel(), term.numel()))  # room for every term that was read
        pairs = yield from self._pairs(found, probability, term, batch)
        certainty = _certainty(found, probability, len(batch.sizes))
        values, numbers, each, lengths, sums, *columns = yield from fetch(
            counts.view(-1)[places], (places % terms).int(), kept.sum(1), counts.sum(1), certainty, *pairs
        )
        turned = self._turned(batch, _readings(sums)[: batch.pages], found, probability) if turn else {}
        yield HOST_ONLY
        words = [
            self.weigh(page_terms, page_counts, length)
            for (page_terms, page_counts), length in zip(
                _by_page(each, numbers.astype(np.uint32), values), lengths.tolist(), strict=True
            )
        ]
        vectors = self._joined(words, lengths, *columns) if columns else words
        return [turned.get(number, vector) for number, vector in enumerate(vectors)]

    def _pairs(
        self, found: Found, probability: Tensor, term: Tensor, batch: PageBatch
    ) -> Steps[list[Tensor]]:
        """The neighbours that are kept: how many on each page, their numbers, expected counts, checks and
        terms; none of it where the point has no pairs.
        """
        if "pair" not in self._point:
            return []
        copies = 1 + len(self._config["scales"])
        sheet, em = (
            column.repeat_interleave(CANDIDATES) for column in (found.page * copies + found.copy, found.em)
        )
        place = (found.middle / found.pixel).double().repeat_interleave(CANDIDATES, 0)
        best = (term[:, :CANDIDATES].reshape(-1), probability[:, :CANDIDATES].reshape(-1))
        standing = BatchStanding(sheet, place, em.double(), *best)
        counts, whole, checks, seen = yield from self._neighbours_here.counted(
            standing, copies, len(batch.sizes)
        )
        pairs = counts > self._point["pair"]
        kept = (pairs | (whole > WHOLE))[: batch.pages]
        checks = torch.where(pairs | (whole > TOLD), checks, checks ^ DOUBT)
        counts = torch.maximum(counts, whole)
        (many,) = yield from fetch(kept.sum()[None])
        places = rows_of(kept.view(-1), int(many[0]))
        columns = (column.view(-1)[places] for column in (counts, checks, seen))
        return [kept.sum(1), places % PAIRS, *columns]

    def _joined(
        self,
        words: Sequence[SparseVector],
        lengths: NDArray[Any],
        each: NDArray[Any],
        numbers: NDArray[Any],
        counts: NDArray[Any],
        checks: NDArray[Any],
        terms: NDArray[Any],
    ) -> list[SparseVector]:
        """The vectors of the pages' words with their pairs, as ``_pairs`` has them."""
        self._neighbours.note(numbers, terms >> 32, terms & (1 << 32) - 1)
        return [
            self._add_pairs(vector, Kept(*columns), length)
            for vector, columns, length in zip(
                words, _by_page(each, numbers, counts, checks), lengths.tolist(), strict=True
            )
        ]


def _certainty(found: Found, probability: Tensor, pages: int) -> Tensor:
    """(4, pages) what a ``Reading`` of each page sums up."""
    best = probability[:, 0]
    each = torch.stack([torch.ones_like(best), best, best * best, best * probability.sum(1)])
    return torch.zeros(4, pages, device=best.device).index_add_(1, found.page, each)


def _readings(sums: NDArray[Any]) -> list[Reading]:
    return [Reading(int(places), *chances) for places, *chances in sums.T.tolist()]


def _by_page(each: NDArray[Any], *columns: NDArray[Any]) -> list[tuple[NDArray[Any], ...]]:
    """The columns cut into pages; ``each`` has how many rows."""
    ends = np.cumsum(each)
    cut = (np.split(column[: ends[-1]], ends[:-1]) for column in columns)
    return list(zip(*cut, strict=True))
