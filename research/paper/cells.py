"""What the shipped reader sees on pages, kept for training on top of it: the backbone of the ablation.

The reader's network runs once over every page. Kept of each word cell: the 256 numbers its head names terms
from, the place, and the sum that turns its logits to log-probabilities. Nothing is named yet: the vocabulary
is projected and pooled in training, as the paper's model does it.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from vsplade.encode.gpu.network import Reader, cell_features
from vsplade.encode.reader.ink_windows import CELL

FLOOR = -3.0
"""Logit of "a word piece is here" under which a cell is not kept."""
SCALES = (1.0, 0.4, 0.16)
_BATCH = 16
_AHEAD = 16
"""Batches that are being decoded or wait for the network."""
_NAMED = {"cpu": 128}
"""Cells named at a time; on a CPU their logits stay in the cache."""


@dataclass(frozen=True)
class PageCells:
    """Cells of all pages one after the other."""

    features: Tensor
    """(cells, width), float16."""
    offset: Tensor
    """(cells,): added to a cell's logits, it makes them log-probabilities of a term standing there."""
    place: Tensor
    """(cells, 3), float16: x and y as shares of the page, and the copy's scale as a power of two."""
    best: Tensor
    """(cells,): the likeliest term."""
    logit: Tensor
    """(cells,): its logit."""
    starts: Tensor
    """(pages + 1,): where each page's cells begin."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def to(self, device: torch.device) -> PageCells:
        """All but the starts: batches are put together on the CPU."""
        moved = {field.name: getattr(self, field.name).to(device) for field in fields(self)}
        return PageCells(**{**moved, "starts": self.starts})

    def reading(self, page: int, least: float = 0.5) -> list[int]:
        """The terms that stand on a page with a probability of ``least`` or more."""
        here = slice(int(self.starts[page]), int(self.starts[page + 1]))
        sure = (self.logit[here] + self.offset[here]).exp() >= least
        return [int(term) for term in self.best[here][sure]]

    def batch(self, pages: Sequence[int] | NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Features, offset, place and mask of some pages, padded to the longest of them."""
        chosen = torch.as_tensor(np.asarray(pages))
        first, length = self.starts[chosen], self.starts[chosen + 1] - self.starts[chosen]
        number = torch.arange(max(1, int(length.max())))
        mask = number[None] < length[:, None]
        mask[:, 0] = True  # a page without a word still is a page: one empty cell
        index = torch.where(
            number[None] < length[:, None], first[:, None] + number[None], len(self.features) - 1
        )
        index, mask = index.to(self.features.device), mask.to(self.features.device)
        offset = self.offset[index].masked_fill(~mask, 0.0)
        empty = (length == 0).to(self.features.device)
        offset[empty, 0] = -1e4
        return self.features[index].float(), offset, self.place[index].float(), mask


def read_pages(
    reader: Reader, paths: Sequence[Path], longest_edge: int, most: int, device: torch.device
) -> PageCells:
    """The cells of every picture, the ``most`` likeliest words of each."""
    order = sorted(range(len(paths)), key=lambda n: Image.open(paths[n]).size)
    kept: dict[int, tuple[Tensor, ...]] = {}
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        waiting: deque[tuple[list[int], list[Future[NDArray[np.uint8]]]]] = deque()
        batches = iter([order[at : at + _BATCH] for at in range(0, len(order), _BATCH)])
        while True:
            for batch in islice(batches, _AHEAD - len(waiting)):
                waiting.append((batch, [pool.submit(_grey, paths[n], longest_edge) for n in batch]))
            if not waiting:
                break
            batch, loading = waiting.popleft()
            read = _read_batch(reader, [one.result() for one in loading], most, device)
            kept.update(zip(batch, read, strict=True))
    lengths = torch.tensor([0] + [len(kept[number][0]) for number in range(len(paths))])
    columns = zip(*(kept[number] for number in range(len(paths))), strict=True)
    # One cell more at the end: what padding points at.
    features, offset, place, best, logit = (
        torch.cat([*one, one[0].new_zeros(1, *one[0].shape[1:])]) for one in columns
    )
    return PageCells(features, offset, place, best, logit, lengths.cumsum(0))


def _grey(path: Path, longest_edge: int) -> NDArray[np.uint8]:
    from vsplade.pages.resize import fit

    return np.asarray(fit(Image.open(path).convert("L"), longest_edge, enlarge=True))


@torch.inference_mode()
def _read_batch(
    reader: Reader, greys: list[NDArray[np.uint8]], most: int, device: torch.device
) -> list[tuple[Tensor, ...]]:
    height, width = max(g.shape[0] for g in greys), max(g.shape[1] for g in greys)
    stack = torch.full((len(greys), 1, height, width), 255, dtype=torch.uint8)
    for n, grey in enumerate(greys):
        stack[n, 0, : grey.shape[0], : grey.shape[1]] = torch.from_numpy(grey.copy())
    dark = 1 - stack.to(device).float() / 255
    found = [_read_copy(reader, dark, scale) for scale in SCALES if min(height, width) * scale >= 32]
    page, word, features, offset, place, best, logit = (
        torch.cat(parts) for parts in zip(*found, strict=True)
    )
    shape = torch.tensor([[g.shape[1], g.shape[0], 1.0] for g in greys], device=device)
    result = []
    for n in range(len(greys)):
        mine = (page == n).nonzero().squeeze(1)
        mine = mine[word[mine].argsort(descending=True)[:most]].sort().values
        columns = (
            features[mine].half(),
            offset[mine],
            (place[mine] / shape[n]).half(),
            best[mine],
            logit[mine],
        )
        result.append(tuple(column.cpu() for column in columns))
    return result


def _read_copy(reader: Reader, dark: Tensor, scale: float) -> tuple[Tensor, ...]:
    """Of every word cell: page, word logit, features, offset, place in pixels of the page, likeliest term
    and its logit.
    """
    x = (
        dark
        if scale == 1
        else functional.interpolate(dark, scale_factor=scale, mode="bilinear", antialias=True)
    )
    x = functional.pad(x, (0, -x.shape[-1] % 16, 0, -x.shape[-2] % 16))
    with torch.autocast(x.device.type, torch.float16, enabled=x.is_cuda):
        word, fine, coarse, *_ = reader.trunk(x)
        page, row, column = (word > FLOOR).nonzero(as_tuple=True)
        seen = cell_features(fine, coarse, page, row, column)
        head = reader.head
        features = head.narrow(functional.relu(head.hidden(seen))).float()
        rows = _NAMED.get(x.device.type, 16_384)
        named = [_name(head.vocabulary(part).float()) for part in features.split(rows)]
    total, top, best = (torch.cat(parts) for parts in zip(*named, strict=True))
    logit = word[page, row, column].float()
    offset = functional.logsigmoid(logit) - total
    middle = [(column + 0.5) * CELL / scale, (row + 0.5) * CELL / scale]
    place = torch.stack([*middle, torch.full_like(logit, math.log2(scale))], 1)
    return page, logit, features, offset, place, best, top


def _name(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    top = logits.max(1)
    return torch.logsumexp(logits, 1), top.values, top.indices
