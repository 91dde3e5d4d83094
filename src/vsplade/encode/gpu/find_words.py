"""Where words stand on the pages of a batch, and what each may be: the reader's networks on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vsplade.encode.gpu.batch import PageBatch, padded
from vsplade.encode.gpu.batch_queue import SIDE
from vsplade.encode.gpu.detect_torch import Found, best_terms
from vsplade.encode.gpu.network import Reader, cell_features
from vsplade.encode.gpu.pipeline import Steps
from vsplade.encode.gpu.resize_torch import shrink
from vsplade.encode.gpu.transfers import fetch, rows_of, to_device
from vsplade.encode.reader.detect import LEAST_READ
from vsplade.encode.reader.ink_windows import BLOCK, CELL
from vsplade.pages.resize import fit_size

LARGER_PAGES = 4
"""Pages with tiny type that are read again at a time. Always as many, because their number differs from batch
to batch, and cuDNN would prepare for each."""
HEAD_CELLS = 8192


class WordFinder:
    """The half of the GPU encoder that runs the networks; the other half makes vectors of what they find."""

    device: torch.device
    kind: torch.dtype
    network: Reader
    trunk: Callable[[Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]
    reading_edge: int
    longest_edge: int
    _config: dict[str, Any]

    def find(self, batch: PageBatch) -> Steps[Found]:
        """Every word cell of the pages, over all the sizes they are read at."""
        whole = batch.picture(SIDE).to(self.kind)
        sizes = [reading_size(size, self.reading_edge) for size in batch.sizes]
        page = whole if sizes == batch.sizes else shrink(whole, batch.sizes, sizes, *padded(sizes, SIDE))
        copies = [(page, sizes)]
        for scale in self._config["scales"]:
            small = [_copy_size(size, scale) for size in sizes]
            room = (round(page.shape[1] * scale), round(page.shape[2] * scale))
            copies.append((shrink(page, sizes, small, *padded([*small, room], SIDE // 4)), small))
        found, counts = yield from self._look(copies)
        on_page = counts[0]
        tiny = self._with_tiny_type(found, on_page, len(batch.sizes))
        wanted = [~tiny[found.page[:on_page]], found.em[on_page:] >= self._config["large"]]
        keep = torch.cat(wanted)
        ((*flags, kept),) = yield from fetch(torch.cat([tiny, keep.sum()[None]]))
        found = found.only(rows_of(keep, int(kept)))
        again = [n for n in range(batch.pages) if flags[n]]
        if again:
            found = Found.join([(yield from self._read_larger(batch, whole, again)), found])
        return found

    def _read_larger(self, batch: PageBatch, whole: Tensor, numbers: list[int]) -> Steps[Found]:
        """Some pages of the batch at the larger size: a few at a time, so that there are few shapes."""
        larger = [reading_size(size, self.longest_edge) for size in batch.sizes]
        room, copies, chosen = padded(larger, SIDE), [], []
        together = min(LARGER_PAGES, len(batch.sizes))
        for some in (numbers[at : at + together] for at in range(0, len(numbers), together)):
            spare = together - len(some)
            these = to_device(some + some[:1] * spare, self.device, torch.int64)
            old, new = ([sizes[n] for n in some] + [(1, 1)] * spare for sizes in (batch.sizes, larger))
            copies.append((shrink(whole[these], old, new, *room), new))
            chosen.append(these)
        found, counts = yield from self._look(copies)
        found.page = torch.cat(
            [some[page] for some, page in zip(chosen, found.page.split(counts), strict=True)]
        )
        found.copy = torch.zeros_like(found.copy)  # in place of the page itself
        return found

    def _with_tiny_type(self, found: Found, on_page: int, pages: int) -> Tensor:
        """Which pages have a ``type_size`` below ``tiny``: half of what was read is smaller than that."""
        page, chance = found.page[:on_page], found.chance[:on_page]
        small = chance * (found.em[:on_page] < self._config["tiny"])
        sums = torch.zeros(2, pages, device=page.device)
        sums.index_add_(1, page, torch.stack([chance, small]))
        return (sums[0] >= LEAST_READ) & (sums[1] >= sums[0] / 2)

    def _look(self, copies: Sequence[tuple[Tensor, list[tuple[int, int]]]]) -> Steps[tuple[Found, list[int]]]:
        """The word cells of all copies of the pages, one copy after the other, and how many each has."""
        device, seen = self.device, []
        all_sizes = to_device([sizes for _, sizes in copies], device, torch.int64)
        for (picture, _), size in zip(copies, all_sizes, strict=True):
            word, fine, coarse, _ = self.trunk((255 - picture)[:, None] / 255)
            rows = torch.arange(word.shape[1], device=device) * CELL + CELL // 2
            columns = torch.arange(word.shape[2], device=device) * CELL + CELL // 2
            # what lies beyond a page repeats its edge
            inside = (rows < size[:, :1])[:, :, None] & (columns < size[:, 1:])[:, None, :]
            mask = ((word > self._config["floor"]) & inside).reshape(-1)
            seen.append((mask, word, fine, coarse, 1 / size.flip(1)))
        (counts,) = yield from fetch(torch.stack([mask.sum() for mask, *_ in seen]))
        parts = []
        many = counts.tolist()
        for copy, ((mask, word, fine, coarse, pixels), count) in enumerate(zip(seen, many, strict=True)):
            place = rows_of(mask, count)
            height, width = word.shape[1:]
            page, row, column = place // (height * width), place // width % height, place % width
            pixel = pixels[page]
            middle = (torch.stack([column, row], 1) * CELL + CELL / 2) * pixel
            features = cell_features(fine, coarse, page, row, column)
            number = torch.full_like(page, copy)
            parts.append((page, middle, pixel, word.reshape(-1)[place], features, number))
        page, middle, pixel, word, features, number = map(torch.cat, zip(*parts, strict=True))
        looked = self.network.head.look(features)
        em = torch.exp2(self.network.size(looked)[:, 0].float())
        return Found(page, middle, pixel, torch.sigmoid(word.float()), looked, em, number), many

    def name_words(self, found: Found) -> tuple[Tensor, Tensor]:
        """Probabilities and terms of the best few of each cell."""
        named = [
            best_terms(self.network.head.name(part), self._config["best"])
            for part in found.looked.split(HEAD_CELLS)
        ]
        probability, term = (torch.cat(column) for column in zip(*named, strict=True))
        return probability.float() * found.chance[:, None] ** self._config["doubt"], term


def reading_size(size: tuple[int, int], edge: int) -> tuple[int, int]:
    """(height, width) that ``ReaderEncoder`` reads a page of this size at."""
    width, height = fit_size(size[1], size[0], edge, enlarge=True)
    return height, width


def _copy_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """(height, width) of its small copy."""
    width, height = fit_size(size[1], size[0], max(BLOCK, round(max(size) * scale)))
    return height, width
