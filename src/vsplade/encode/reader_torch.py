"""The reader on a GPU: the same 8-bit weights, unpacked into torch, whole pages in batches.

A page crosses to the GPU once, as grey bytes, in one transfer a batch from pinned memory; its smaller copies
are made there, and only terms and weights come back. Two batches are under way at a time, each on a stream of
its own: while one waits for its bytes or for the number of its words, the other computes.

Activations are not rounded to 8 bits here and blank paper is read too, so vectors differ from onnxruntime's
by a little (docs/model-card.md says how much); the fingerprint is the same, and an index may be filled by
both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vsplade.encode.batching import SIDE, PageQueue
from vsplade.encode.fused import can_fuse, fuse
from vsplade.encode.ink import BLOCK
from vsplade.encode.network import CELL, NetworkConfig, Reader, cell_features, fold_norms
from vsplade.encode.onnx_weights import unpacked
from vsplade.encode.reader import Cells, ReaderEncoder, ReaderOptions, type_size
from vsplade.encode.shrink import shrink
from vsplade.errors import InputError
from vsplade.pages import grey_levels
from vsplade.pages.resize import fit_size
from vsplade.types import Page, SparseVector

if TYPE_CHECKING:
    from PIL import Image

BATCH, SMALL_BATCH = 32, 8
"""Pages at a time: every kernel is started once a batch, so large ones cost less. The small one is for GPUs
with less than ``LARGE_GPU`` bytes of memory.
"""
LARGE_GPU = 20 << 30
LANES = 2
"""Batches under way at a time."""
HEAD_CELLS = 8192
GROUPS = 512
"""Terms of which only the best is looked at first: the best few of all are among the best few groups."""


def load_network(folder: Path, config: dict[str, Any]) -> Reader:
    """The network with its norms folded, strictly: every weight must be there."""
    reader: Reader = Reader(NetworkConfig(**config["network"])).eval()
    fold_norms(reader)
    found = {
        name: torch.from_numpy(w)
        for part in ("trunk", "head")
        for name, w in unpacked(folder / f"{part}.onnx").items()
    }
    wanted = {name for name in reader.state_dict() if not name.startswith("characters.")}
    if wanted != found.keys():
        odd = sorted(wanted ^ found.keys())
        raise InputError(f"{folder} does not fit the network; missing or unexpected: {', '.join(odd[:5])}.")
    reader.load_state_dict(found, strict=False)
    return reader


def best_terms(logits: Tensor, best: int) -> tuple[Tensor, Tensor]:
    """Probabilities and terms of the ``best`` likeliest of each row: an exact top-k that sorts little."""
    if logits.is_cuda and _kernels() is not None and _kernels().fits(logits.shape[1], best):
        return _kernels().best_terms(logits, best)
    chance = torch.softmax(logits, 1)
    rows, terms = chance.shape
    if terms % GROUPS:
        return tuple(chance.topk(best, 1))
    members = chance.view(rows, terms // GROUPS, GROUPS)  # a group is a column
    chosen = members.amax(1).topk(best, 1).indices
    near = members.gather(2, chosen[:, None, :].expand(-1, terms // GROUPS, -1)).flatten(1)
    values, place = near.topk(best, 1)
    return values, place // best * GROUPS + chosen.gather(1, place % best)


@cache
def _kernels() -> Any:
    """Triton comes with torch for CUDA, but not on every system."""
    try:
        from vsplade.encode import reader_kernels
    except ImportError:
        return None
    return reader_kernels


@dataclass
class Batch:
    """Grey pages on the device, end to end, and where each begins."""

    levels: Tensor
    start: Tensor
    sizes: list[tuple[int, int]]
    """(height, width); those beyond ``pages`` only fill the batch up."""
    pages: int

    def picture(self, side: int) -> Tensor:
        """(n, H, W), sides multiples of ``side``, the last row and column of each repeated to the end."""
        height, width = padded(self.sizes, side)
        device, size = self.levels.device, on(self.sizes, self.levels.device, torch.int32)
        row = torch.arange(height, device=device, dtype=torch.int32)[None].minimum(size[:, :1] - 1)
        column = torch.arange(width, device=device, dtype=torch.int32)[None].minimum(size[:, 1:] - 1)
        place = (self.start[:, None] + row * size[:, 1:])[:, :, None] + column[:, None]
        return self.levels.index_select(0, place.view(-1)).view(len(size), height, width)


@dataclass
class Found:
    """Cells that hold the middle of a word piece, on the device."""

    page: Tensor
    middle: Tensor
    """(n, 2) x, y in fractions of the page."""
    pixel: Tensor
    """(n, 2) one pixel of the copy it was read on."""
    chance: Tensor
    looked: Tensor
    """What the head sees there."""
    em: Tensor

    def only(self, which: Tensor) -> Found:
        """By a mask: turned into rows once, since each use of a mask would wait for the device."""
        rows = which.nonzero()[:, 0]
        return Found(*(getattr(self, field.name).index_select(0, rows) for field in fields(self)))

    @staticmethod
    def join(parts: Sequence[Found]) -> Found:
        return Found(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Found)))


def padded(sizes: Sequence[tuple[int, int]], side: int) -> tuple[int, int]:
    height, width = (max(size[axis] for size in sizes) for axis in (0, 1))
    return height + -height % side, width + -width % side


def on(numbers: Sequence[Any], device: torch.device, kind: Any) -> Tensor:
    """A small tensor, without waiting for the device."""
    plain = torch.tensor(numbers, dtype=kind)
    return plain.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else plain.to(device)


class TorchReaderEncoder(ReaderEncoder):
    on_gpu = True

    def __init__(self, options: ReaderOptions) -> None:
        super().__init__(options)
        self.device = torch.device(options.device)
        cuda = self.device.type == "cuda"
        if cuda and not torch.cuda.is_available():
            raise InputError("There is no GPU that torch can use; leave the reader's option 'device' out.")
        large = cuda and torch.cuda.get_device_properties(self.device).total_memory >= LARGE_GPU
        self.batch = BATCH if large else SMALL_BATCH
        self.kind = torch.float16 if cuda else torch.float32
        self.network = load_network(self._folder, self._config).to(self.device, self.kind)
        if cuda:
            self.network = self.network.to(memory_format=torch.channels_last)
        self.trunk: Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]] = (
            fuse(self.network.trunk) if cuda and can_fuse() else self.network.trunk
        )
        self._worth_here = torch.from_numpy(self._worth).to(self.device)
        self._idle: SimpleQueue[Any] = SimpleQueue()
        """Streams; a few that stay, because memory freed on one is of no use to another."""
        for _ in range(LANES):
            self._idle.put(torch.cuda.Stream(self.device) if cuda else None)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        lanes = ThreadPoolExecutor(LANES, thread_name_prefix="reader-gpu")
        queue = PageQueue(lambda images: lanes.submit(self.encode_batch, images), self.batch)
        try:
            for page in pages:
                queue.add(page.image)
                yield from queue.ready()
            yield from queue.rest()
        finally:
            lanes.shutdown(wait=True, cancel_futures=True)

    def encode_batch(self, images: Sequence[Image.Image]) -> list[SparseVector]:
        with torch.inference_mode(), self._stream():
            return self.vectors(self.upload(images))

    def read(self, image: Image.Image) -> Cells:
        with torch.inference_mode(), self._stream():
            found = self.find(self.upload([image]))
            probability, term = self.name_words(found)
            columns = (found.middle, found.pixel, probability, term.int(), found.em)
            return Cells(*(column.cpu().numpy() for column in columns))

    @contextmanager
    def _stream(self) -> Iterator[None]:
        """A stream for this thread alone, so that the batches of two threads overlap."""
        stream = self._idle.get()
        try:
            with torch.cuda.stream(stream) if stream is not None else nullcontext():
                yield
        finally:
            self._idle.put(stream)

    def _wait(self) -> None:
        """Until the device has done what it was given; asleep, where torch would keep a processor busy."""
        if self.device.type == "cuda":
            done = torch.cuda.Event(blocking=True)
            done.record()
            done.synchronize()

    def upload(self, images: Sequence[Image.Image]) -> Batch:
        """The grey bytes of the pages, one after the other, in one transfer."""
        pages = [grey_levels(image) for image in images]
        sizes = [page.shape for page in pages]
        ends = np.cumsum([page.size for page in pages])
        cuda = self.device.type == "cuda"
        levels = torch.empty(int(ends[-1]), dtype=torch.uint8, pin_memory=cuda)
        target = levels.numpy()
        for page, end in zip(pages, ends, strict=True):
            target[end - page.size : end].reshape(page.shape)[:] = page
        start = [0, *ends[:-1].tolist()]
        spare = next(size for size in (1, 8, self.batch, len(pages)) if size >= len(pages)) - len(pages)
        return Batch(
            levels.to(self.device, non_blocking=True),
            on(start + [0] * spare, self.device, torch.int32),
            [(height, width) for height, width in sizes] + [(1, 1)] * spare,
            len(pages),
        )

    def find(self, batch: Batch) -> Found:
        """Every word cell of the pages, over all the sizes they are read at."""
        whole = batch.picture(SIDE).to(self.kind)
        sizes = [_reading_size(size, self.reading_edge) for size in batch.sizes]
        page = whole if sizes == batch.sizes else shrink(whole, batch.sizes, sizes, *padded(sizes, SIDE))
        copies = [(page, sizes)]
        for scale in self._config["scales"]:
            small = [_copy_size(size, scale) for size in sizes]
            room = (round(page.shape[1] * scale), round(page.shape[2] * scale))
            copies.append((shrink(page, sizes, small, *padded([*small, room], SIDE // 4)), small))
        on_page, *on_copies = self._look(copies)
        tiny = self._with_tiny_type(on_page, batch.pages)
        if tiny:
            chosen = on(tiny, whole.device, torch.int64)
            old = [batch.sizes[number] for number in tiny]
            sizes = [_reading_size(size, self.longest_edge) for size in old]
            (larger,) = self._look([(shrink(whole[chosen], old, sizes, *padded(sizes, SIDE)), sizes)])
            larger.page = chosen[larger.page]
            on_page = Found.join([larger, on_page.only(~torch.isin(on_page.page, chosen))])
        large = [found.only(found.em >= self._config["large"]) for found in on_copies]
        return Found.join([on_page, *large])

    def _with_tiny_type(self, found: Found, pages: int) -> list[int]:
        """Pages of which half of the type is too small."""
        page, em, chance = (column.cpu().numpy() for column in (found.page, found.em, found.chance))
        return [n for n in range(pages) if type_size(em[page == n], chance[page == n]) < self._config["tiny"]]

    def _look(self, copies: Sequence[tuple[Tensor, list[tuple[int, int]]]]) -> list[Found]:
        """The word cells of each copy of the pages."""
        seen = []
        for picture, sizes in copies:
            word, fine, coarse, _ = self.trunk((255 - picture)[:, None] / 255)
            size = on(sizes, word.device, torch.int64)
            rows = torch.arange(word.shape[1], device=word.device) * CELL + CELL // 2
            columns = torch.arange(word.shape[2], device=word.device) * CELL + CELL // 2
            # what lies beyond a page repeats its edge
            inside = (rows < size[:, :1])[:, :, None] & (columns < size[:, 1:])[:, None, :]
            seen.append(((word > self._config["floor"]) & inside, word, fine, coarse, 1 / size.flip(1)))
        self._wait()
        found = []
        for mask, word, fine, coarse, pixels in seen:
            page, row, column = mask.nonzero(as_tuple=True)
            middle = (torch.stack([column, row], 1) * CELL + CELL / 2) * pixels[page]
            chance = torch.sigmoid(word[page, row, column].float())
            looked = self.network.head.look(cell_features(fine, coarse, page, row, column))
            em = torch.exp2(self.network.size(looked)[:, 0].float())
            found.append(Found(page, middle, pixels[page], chance, looked, em))
        return found

    def name_words(self, found: Found) -> tuple[Tensor, Tensor]:
        """Probabilities and terms of the best few of each cell."""
        named = [
            best_terms(self.network.head.name(part), self._config["best"])
            for part in found.looked.split(HEAD_CELLS)
        ]
        probability, term = (torch.cat(column) for column in zip(*named, strict=True))
        return probability.float() * found.chance[:, None], term

    def vectors(self, batch: Batch) -> list[SparseVector]:
        """As ``ReaderEncoder._pool``: the counts of all pages at once, on the device."""
        found, terms = self.find(batch), len(self._tokenizer)
        probability, term = self.name_words(found)
        counts = torch.zeros(len(batch.sizes) * terms, device=self.device)
        counts.scatter_add_(0, (found.page[:, None] * terms + term).view(-1), probability.view(-1))
        counts = counts.view(-1, terms)[: batch.pages]
        kept = counts * self._worth_here > self._point["least"]
        self._wait()
        row, column = kept.nonzero(as_tuple=True)
        values, column = counts[row, column].cpu().numpy(), column.int().cpu().numpy().astype(np.uint32)
        ends = np.cumsum(kept.sum(1).cpu().numpy())[:-1]
        lengths = counts.sum(1).cpu().numpy().tolist()
        parts = zip(np.split(column, ends), np.split(values, ends), lengths, strict=True)
        return [self.weigh(*part) for part in parts]


def _reading_size(size: tuple[int, int], edge: int) -> tuple[int, int]:
    """(height, width) that ``ReaderEncoder`` reads a page of this size at."""
    width, height = fit_size(size[1], size[0], edge, enlarge=True)
    return height, width


def _copy_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(height, width) of its small copy."""
    width, height = fit_size(size[1], size[0], max(BLOCK, round(max(size) * scale)))
    return height, width
