"""Which pairs make which step's batch, and pairs to tensors, a few steps ahead of the network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vsplade.encode.modernvbert.processor import Grid, PageProcessor
from vsplade.errors import InputError
from vsplade.train.pairs import ImagePair, ImagePairs, TextPairs, shuffled
from vsplade.train.training_config import PaperConfig


@dataclass(frozen=True)
class Tokens:
    ids: Tensor
    mask: Tensor

    def to(self, device: torch.device) -> Tokens:
        return Tokens(self.ids.to(device, non_blocking=True), self.mask.to(device, non_blocking=True))


@dataclass(frozen=True)
class TrainingBatch:
    """``tiles`` is None for a batch of texts, whose ``pages`` are the passages: right ones, then hard
    negatives.
    """

    queries: Tokens
    pages: Tokens
    tiles: Tensor | None
    captions: Tokens | None

    def to(self, device: torch.device) -> TrainingBatch:
        tiles = None if self.tiles is None else self.tiles.to(device, non_blocking=True)
        captions = None if self.captions is None else self.captions.to(device)
        return TrainingBatch(self.queries.to(device), self.pages.to(device), tiles, captions)


class BatchPlan:
    """Batch by batch, its kind and the rows in it: a function of the configuration and the data alone. A step
    takes ``accumulate`` batches.
    """

    def __init__(
        self, config: PaperConfig, images: Sequence[int], texts: Sequence[int] | None, processes: int = 1
    ) -> None:
        self._config, self._images, self._texts = config, images, texts
        self.batch = config.batch * processes
        for name, groups in (("image", images), ("text", texts)):
            if groups is not None and sum(groups) < self.batch:
                raise InputError(f"There are {sum(groups)} {name} pairs, but one step takes {self.batch}.")
        self._block = 1 + (config.texts_per_image if texts is not None else 0)
        passes = int(sum(images) // self.batch * config.epochs)
        self.steps = config.steps or max(1, max(1, passes) * self._block // config.accumulate)
        self.batches = self.steps * config.accumulate
        self._order = lru_cache(maxsize=4)(self._shuffle)

    def kind(self, batch: int) -> str:
        """``image`` once in every block, at a place drawn for that block; ``text`` otherwise."""
        block, place = divmod(batch, self._block)
        drawn = np.random.default_rng([self._config.seed, 7, block]).integers(self._block)
        return "image" if place == drawn else "text"

    def rows(self, batch: int) -> NDArray[np.int64]:
        """Row numbers of the whole batch, of all processes."""
        epoch, at = self._place(batch)
        return self._order(self.kind(batch), epoch)[at * self.batch : (at + 1) * self.batch]

    def epoch(self, batch: int) -> int:
        """Which pass over its source a batch belongs to."""
        return self._place(batch)[0]

    def _place(self, batch: int) -> tuple[int, int]:
        kind = self.kind(batch)
        block, place = divmod(batch, self._block)
        if kind == "image":
            number, groups = block, self._images
        else:
            before = sum(self.kind(block * self._block + p) == "text" for p in range(place))
            number, groups = block * self._config.texts_per_image + before, self._texts or ()
        return divmod(number, sum(groups) // self.batch)

    def _shuffle(self, kind: str, epoch: int) -> NDArray[np.int64]:
        groups = self._images if kind == "image" else self._texts or ()
        return shuffled(groups, self._config.seed + (0 if kind == "image" else 1), epoch)


class Loader:
    """Batches of one process, prepared by threads while the step before runs."""

    def __init__(
        self, config: PaperConfig, plan: BatchPlan, processor: PageProcessor, images: ImagePairs,
        texts: TextPairs | None = None, process: int = 0, threads: int = 4,
    ) -> None:  # fmt: skip
        self._config, self._plan, self._processor = config, plan, processor
        self._images, self._texts = images, texts
        self._share = slice(process * config.batch, (process + 1) * config.batch)
        self._threads = threads

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

    def _make(self, batch: int, cutters: ThreadPoolExecutor) -> TrainingBatch:
        rows = [int(row) for row in self._plan.rows(batch)[self._share]]
        if self._plan.kind(batch) == "image":
            return self._image_batch([self._images[row] for row in rows], cutters)
        texts = self._texts
        if texts is None:
            raise InputError("A batch of texts was asked for, but there are no text pairs.")
        epoch = self._plan.epoch(batch)
        pairs = [texts.take(row, epoch) for row in rows]
        passages = [pair.passages[n] for n in range(1 + self._config.hard_negatives) for pair in pairs]
        return TrainingBatch(
            self._query_tokens([pair.query for pair in pairs]),
            self._text_tokens(passages, self._config.longest_text), None, None,
        )  # fmt: skip

    def _image_batch(self, pairs: list[ImagePair], cutters: ThreadPoolExecutor) -> TrainingBatch:
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
            torch.from_numpy(np.concatenate([tiles for tiles, _ in cut])),
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


def padded(rows: list[list[int]], processor: PageProcessor) -> Tokens:
    """Token ids of several texts or prompts as one tensor, with its mask."""
    padding = processor.tokenizer.token_to_id("[PAD]") or 0
    ids = torch.full((len(rows), max(1, *map(len, rows))), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[number, : len(row)] = 1
    return Tokens(ids, mask)
