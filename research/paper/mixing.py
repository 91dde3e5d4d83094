"""The paper's training over that of the package: batches of texts between those of pages, both layouts at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from research.paper import sentence_layout
from research.paper.fast_layers import Speed, fast_passes
from vsplade.encode.modernvbert.processor import PageProcessor
from vsplade.errors import InputError
from vsplade.train.batches import BatchPlan, Loader, TrainingBatch
from vsplade.train.distributed import World
from vsplade.train.loop import Run, Trainer, train
from vsplade.train.losses import Parts, Side, flops, info_nce
from vsplade.train.pairs import ImagePairs, shuffled
from vsplade.train.passes import Passes
from vsplade.train.training_config import PaperConfig


@dataclass(frozen=True)
class MixedConfig(PaperConfig):
    """What the paper's own data need beside what any training does."""

    texts_per_image: int = 3
    """Batches of text pairs for each batch of image pairs, where there are text pairs."""
    hard_negatives: int = 2
    """Of each text query, beside the batch's other passages."""
    text_sample: int = 300_000
    """Text pairs that are drawn from the source, once; 0: all."""
    random_passages: bool = True
    """Draw a text query's right passage and hard negatives anew in every pass; otherwise the first ones."""
    text_titles: bool = False
    """Put a passage's title before its text."""
    shortest_query: int = 6
    """Characters; pairs with a shorter query are left out."""
    longest_text: int = 512
    """Tokens of a passage."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.longest_text:
            raise InputError("longest_text must be above 0, not 0.")


@dataclass(frozen=True)
class TextPair:
    query: str
    passages: tuple[str, ...]
    """The right one, then the hard negatives."""


class TextPairs(Protocol):
    @property
    def groups(self) -> Sequence[int]: ...

    def take(self, number: int, epoch: int) -> TextPair:
        """A row as it is in one pass over the source: which of its passages, may differ from pass to pass."""
        ...


class TextBatch(TrainingBatch):
    """``pages`` are the passages: right ones, then hard negatives."""

    prefix: ClassVar[str] = "text_"


class MixedPlan(BatchPlan):
    """Batch by batch, its kind and the rows in it."""

    def __init__(
        self, config: MixedConfig, images: Sequence[int], texts: Sequence[int] | None, processes: int = 1
    ) -> None:
        super().__init__(config, images, processes)
        self._texts, self._texts_per_image = texts or (), config.texts_per_image
        if texts is not None and sum(texts) < self.batch:
            raise InputError(f"There are {sum(texts)} text pairs, but one step takes {self.batch}.")
        self._block = 1 + (config.texts_per_image if texts is not None else 0)
        passes = int(sum(images) // self.batch * config.epochs)
        self.steps = config.steps or max(1, max(1, passes) * self._block // config.accumulate)
        self.batches = self.steps * config.accumulate

    def kind(self, batch: int) -> str:
        """``image`` once in every block, at a place drawn for that block; ``text`` otherwise."""
        block, place = divmod(batch, self._block)
        drawn = np.random.default_rng([self._config.seed, 7, block]).integers(self._block)
        return "image" if place == drawn else "text"

    def rows(self, batch: int) -> NDArray[np.int64]:
        block, place = divmod(batch, self._block)
        if self.kind(batch) == "image":
            return super().rows(block)
        epoch, at = self._text_place(block, place)
        return self._text_order(epoch)[at * self.batch : (at + 1) * self.batch]

    def epoch(self, batch: int) -> int:
        """Which pass over the texts a batch of them belongs to."""
        return self._text_place(*divmod(batch, self._block))[0]

    def _text_place(self, block: int, place: int) -> tuple[int, int]:
        before = sum(self.kind(block * self._block + p) == "text" for p in range(place))
        return divmod(block * self._texts_per_image + before, sum(self._texts) // self.batch)

    def _text_order(self, epoch: int) -> NDArray[np.int64]:
        return shuffled(self._texts, self._config.seed + 1, epoch)


class MixedLoader(Loader):
    def __init__(
        self, config: MixedConfig, plan: MixedPlan, processor: PageProcessor, images: ImagePairs,
        texts: TextPairs, process: int = 0, threads: int = 4, pinned: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(config, plan, processor, images, process, threads, pinned)
        self._mixed, self._mixed_plan, self._texts = config, plan, texts

    def _make(self, batch: int, cutters: ThreadPoolExecutor) -> TrainingBatch:
        if self._mixed_plan.kind(batch) == "image":
            return super()._make(batch, cutters)
        epoch = self._mixed_plan.epoch(batch)
        pairs = [self._texts.take(row, epoch) for row in self._rows(batch)]
        passages = [pair.passages[n] for n in range(1 + self._mixed.hard_negatives) for pair in pairs]
        queries = self._query_tokens([pair.query for pair in pairs])
        return TextBatch(queries, self._text_tokens(passages, self._mixed.longest_text), None, None)


class PaperTrainer(Trainer):
    """One process's part of a run on the paper's data."""

    def __init__(
        self,
        config: MixedConfig,
        run: Run,
        images: ImagePairs,
        texts: TextPairs | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(config, run, images, world)
        self.material["text_pairs"] = 0 if texts is None else sum(texts.groups)
        if texts is not None:
            plan = MixedPlan(config, images.groups, texts.groups, self.world.size)
            self.plan = plan
            self.loader = MixedLoader(
                config, plan, self.processor, images, texts, self.world.rank, run.threads, self.pinned
            )

    def fast_passes(self) -> Passes:
        return fast_passes(self.model, Speed(), self.kind, self.config.gradient_checkpointing, self.settings)

    def losses(self, batch: TrainingBatch) -> tuple[Parts, float]:
        if not isinstance(batch, TextBatch):
            return super().losses(batch)
        queries, passage, active = self._forward(batch)
        first = self.world.rank * len(passage.weights)
        passages = Side(passage.weights, self.world.gather(passage.weights))
        return text_losses(self.config, queries, passages, first, self.flops_share), active

    def export(self, folder: Path) -> None:
        super().export(folder)
        sentence_layout.save(self.source, folder)


def text_losses(config: PaperConfig, queries: Tensor, passage: Side, first: int, ramp: float) -> Parts:
    """A batch of texts: positives come first in each process's share, hard negatives after them."""
    parts = {
        "rank": info_nce(queries, passage.everyone, config.temperature, first, config.score_clamp),
        "flops": flops(passage.everyone),
    }
    return Parts(parts["rank"] + ramp * config.page_flops * parts["flops"], parts)


def train_mixed(
    config: MixedConfig,
    run: Run,
    images: ImagePairs,
    texts: TextPairs | None = None,
    say: Callable[[str], None] = lambda _: None,
    make: Callable[..., PaperTrainer] = PaperTrainer,
) -> dict[str, Any]:
    """As ``train``, with texts between the pages where there are some."""

    def begin(config: Any, run: Run, images: ImagePairs, world: World) -> Trainer:
        return make(config, run, images, texts, world)

    return train(config, run, images, say, begin)
