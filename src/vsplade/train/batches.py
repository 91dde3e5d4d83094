"""Which pairs make which step's batch, and pairs to tensors, a few steps ahead of the network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsplade.encode.modernvbert.processor import Grid, PageProcessor
from vsplade.errors import InputError
from vsplade.train.pairs import ImagePair, ImagePairs, shuffled
from vsplade.train.training_config import PaperConfig


@dataclass(frozen=True)
class Tokens:
    ids: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> Tokens:
        return Tokens(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True))


@dataclass(frozen=True)
class TrainingBatch:
    """Tensors of one batch of pairs."""

    prefix: ClassVar[str] = ""
    """Of the names under which its losses are logged."""
    queries: Tokens
    pages: Tokens
    tiles: Tensor | None
    captions: Tokens | None

    def to(self, device: torch.device) -> TrainingBatch:
        tiles = None if self.tiles is None else self.tiles.to(device, non_blocking=True)
        captions = None if self.captions is None else self.captions.to(device)
        return type(self)(self.queries.to(device), self.pages.to(device), tiles, captions)


class BatchPlan:
    """Batch by batch, the rows in it: a function of the configuration and the data alone. A step takes
    ``accumulate`` batches.
    """

    def __init__(self, config: PaperConfig, images: Sequence[int], processes: int = 1) -> None:
        self._config, self._images = config, images
        self.batch = config.batch * processes
        if sum(images) < self.batch:
            raise InputError(f"There are {sum(images)} image pairs, but one step takes {self.batch}.")
        passes = int(sum(images) // self.batch * config.epochs)
        self.steps = config.steps or max(1, max(1, passes) // config.accumulate)
        self.batches = self.steps * config.accumulate
        self._order = lru_cache(maxsize=4)(partial(shuffled, images, config.seed))

    def rows(self, batch: int) -> NDArray[np.int64]:
        """Row numbers of the whole batch, of all processes."""
        epoch, at = divmod(batch, sum(self._images) // self.batch)
        return self._order(epoch)[at * self.batch : (at + 1) * self.batch]


class Loader:
    """Batches of one process, prepared by threads while the step before runs."""

    def __init__(
        self, config: PaperConfig, plan: BatchPlan, processor: PageProcessor, images: ImagePairs,
        process: int = 0, threads: int = 4, pinned: bool = False,
    ) -> None:  # fmt: skip
        """``pinned``: tiles lie where a GPU fetches them without a copy by the system."""
        self._config, self._plan, self._processor, self._images = config, plan, processor, images
        self._share = slice(process * config.batch, (process + 1) * config.batch)
        self._threads, self._pinned = threads, pinned

    def run(self, first: int, last: int) -> Iterator[TrainingBatch]:
        """The batches from number ``first`` up to, not including, ``last``."""
        with (
            ThreadPoolExecutor(2, thread_name_prefix="batches") as ahead,
            ThreadPoolExecutor(self._threads) as cutters,
        ):
            waiting: list[Future[TrainingBatch]] = []
            for batch in range(first, last):
                waiting.append(ahead.submit(self._make, batch, cutters))
                if len(waiting) > 2:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def make(self, batch: int) -> TrainingBatch:
        with ThreadPoolExecutor(self._threads) as cutters:
            return self._make(batch, cutters)

    def _rows(self, batch: int) -> list[int]:
        """This process's share of a batch."""
        return [int(row) for row in self._plan.rows(batch)[self._share]]

    def _make(self, batch: int, cutters: ThreadPoolExecutor) -> TrainingBatch:
        pairs = [self._images[row] for row in self._rows(batch)]
        cut = list(cutters.map(self._cut, pairs))
        captions = None
        if self._config.captions != "none":
            without = [pair.id for pair in pairs if pair.caption is None]
            if without:
                raise InputError(
                    f"The page {without[0]} has no caption, but this configuration trains with captions. "
                    "Make captions first, or set captions to 'none'."
                )
            captions = self._text_tokens([pair.caption or "" for pair in pairs], self._config.longest_caption)
        return TrainingBatch(
            self._query_tokens([pair.query for pair in pairs]),
            padded([list(self._processor.prompt_ids(grid)) for _, grid in cut], self._processor),
            joined([tiles for tiles, _ in cut], self._pinned),
            captions,
        )

    def _cut(self, pair: ImagePair) -> tuple[NDArray[np.uint8], Grid]:
        try:
            return self._processor.tiles(Image.open(io.BytesIO(pair.image)))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise InputError(f"The picture of the page {pair.id} cannot be read ({error}).") from error

    def _query_tokens(self, texts: list[str]) -> Tokens:
        encode = self._processor.tokenizer.encode
        ids = [encode(text, add_special_tokens=False).ids[: self._config.longest_query] for text in texts]
        return padded(ids, self._processor)

    def _text_tokens(self, texts: list[str], longest: int) -> Tokens:
        return padded([self._processor.text_ids(text, longest) for text in texts], self._processor)


def joined(tiles: Sequence[NDArray[np.uint8]], pinned: bool) -> Tensor:
    """The tiles of all pages; torch keeps pinned memory and gives it to a later batch."""
    together = torch.empty((sum(map(len, tiles)), *tiles[0].shape[1:]), dtype=torch.uint8, pin_memory=pinned)
    np.concatenate(tiles, out=together.numpy())
    return together


def padded(rows: list[list[int]], processor: PageProcessor) -> Tokens:
    """Token ids of several texts or prompts as one tensor, with its mask."""
    padding = processor.tokenizer.token_to_id("[PAD]") or 0
    ids = torch.full((len(rows), max(1, *map(len, rows))), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[number, : len(row)] = 1
    return Tokens(ids, mask)
