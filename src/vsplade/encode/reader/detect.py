"""Pixels to cells: which terms stand where on a page, by onnxruntime.

A page is read at one size and on two small copies, for large type; where most of its type turns out to be
tiny, it is read again at a larger size (``second_look`` does so for parts of it). On each, the trunk finds
the cells where a word piece has its middle, in windows around the ink, and the head names it. What was read
on the page and is too small on a copy counts as blank there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.reader import ink_windows
from vsplade.encode.reader.ink_windows import BLOCK, CELL, FOLD, Rectangle
from vsplade.encode.reader.orientation import Reading
from vsplade.encode.reader.second_look import (
    laid_back,
    may_be_upside_down,
    on_end,
    part_of,
    stands_on_end,
    stretched,
)

if TYPE_CHECKING:
    from PIL import Image

HEAD_ROWS = 64
"""Cells named at a time: their logits over the vocabulary stay in the cache."""
LEAST_READ = 3.0
"""Words, at least, by which the size of a page's type is judged."""

SURE = 0.3
"""Words with at least this chance of standing on the page are not looked for on a copy that is too small."""
AROUND = 2.5
"""Ems around the middle of a word piece, each way, that are taken for it."""
TINY_PART = 9.0
"""Em in px: a part of a page is read again, larger, if half of its type is smaller than this."""


@dataclass(frozen=True)
class Cells:
    """What was read: one row a cell, the best few terms of each."""

    middle: NDArray[np.float32]  # (n, 2) x, y in fractions of the page
    pixel: NDArray[np.float32]  # (n, 2) one pixel of the copy it was read on, in fractions of the page
    probability: NDArray[np.float32]  # (n, best), that the term stands there
    term: NDArray[np.int32]
    em: NDArray[np.float32]  # (n,) of the type, in pixels of the copy
    chance: NDArray[np.float32] | None = None  # (n,) that a word stands there at all, where that was kept

    def and_(self, other: Cells) -> Cells:
        columns = ((getattr(some, field.name) for some in (self, other)) for field in fields(self))
        return Cells(*(np.concatenate(list(column)) for column in columns))


@dataclass(frozen=True)
class Words:
    """Where words stand on a copy of the page: one row a cell that holds the middle of a piece."""

    place: NDArray[np.int64]  # (n, 2) x, y in pixels of the copy
    chance: NDArray[np.float32]
    features: NDArray[np.float32]
    size: tuple[int, int]
    """Of the copy: width, height."""
    windows: list[Rectangle]
    """What was read of the copy, in cells."""
    owner: NDArray[np.int32]
    """(rows, columns) of cells: the window that each belongs to."""

    @property
    def pixel(self) -> NDArray[np.float32]:
        """(n, 2) one pixel of the copy, in fractions of the page."""
        return np.repeat(np.array([[1 / side for side in self.size]], np.float32), len(self.place), axis=0)

    def only(self, rows: NDArray[np.bool_]) -> Words:
        return replace(self, place=self.place[rows], chance=self.chance[rows], features=self.features[rows])

    @property
    def window(self) -> NDArray[np.int32]:
        """(n,) the window of each."""
        return self.owner[self.place[:, 1] // CELL, self.place[:, 0] // CELL]


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


def at_size(grey: Image.Image, edge: int) -> Image.Image:
    """The page at the size that it is read at."""
    from vsplade.pages.lanczos import fit_grey  # here, for it loads numba: questions do not need it

    return fit_grey(grey, edge, enlarge=True)


class CellReader:
    def __init__(self, folder: Path, config: dict[str, Any], edge: int) -> None:
        """``edge`` is the longest edge that most pages are read at, in pixels."""
        self._config, self._edge = config, edge
        self._trunk, self._size = (onnx_session(folder / name) for name in ("trunk.onnx", "size.onnx"))
        self._name = namer(folder / "head.onnx", int(config["best"]))

    def read(self, image: Image.Image) -> Cells:
        """Every word cell of a page, over all the sizes it is read at."""
        grey = stretched(image if image.mode == "L" else image.convert("L"))
        page = read = at_size(grey, self._edge)
        words = self.find_words(page)
        em = self.type_sizes(words)
        if type_size(em, words.chance) < self._config["tiny"]:
            read = at_size(grey, round(self._edge * float(self._config["zoom"])))
            words = self.find_words(read)
            em = self.type_sizes(words)
            copies = [words]
        else:
            copies = self._with_closer(grey, words, em)
        for scale in self._config["scales"]:
            copy = self._copy(page, scale)
            large = self.find_words(copy, self._known(words, em, copy.size))
            copies.append(large.only(self.type_sizes(large) >= self._config["large"]))
        cells = self.name(copies)
        return cells if Reading.of(cells).is_doubtful else self._with_turned(read, words, cells)

    def _with_closer(self, grey: Image.Image, words: Words, em: NDArray[np.float32]) -> list[Words]:
        """The words without those in parts of tiny type, and these parts in more detail."""
        zoom, window, found = float(self._config["zoom"]), words.window, []
        for number, area in enumerate(words.windows):
            rows = window == number
            if type_size(em[rows], words.chance[rows]) >= TINY_PART:
                continue
            picture, begin = part_of(grey, words.size, area, zoom)
            part = self.find_words(picture)
            place = part.place + np.round(begin).astype(np.int64)
            cell = np.minimum(place // (CELL * zoom), np.array(words.owner.shape[::-1]) - 1)
            column, row = cell.astype(np.int64).T
            larger = replace(
                part, place=place, size=(round(words.size[0] * zoom), round(words.size[1] * zoom))
            )
            found.append(larger.only(words.owner[row, column] == number))
            window[rows] = -1
        return [words.only(window >= 0), *found]

    def _with_turned(self, page: Image.Image, words: Words, cells: Cells) -> Cells:
        """What was read, and what stands on end in narrow parts where nothing was."""
        from PIL import Image

        for number in on_end(words):
            top, left, bottom, right = (side * CELL for side in words.windows[number])
            part = page.crop((left, top, min(right, page.width), min(bottom, page.height)))
            read = self.read_as_it_is(part.transpose(Image.Transpose.ROTATE_270))
            quarters, reading = 3, Reading.of(read)
            if may_be_upside_down(reading):
                other = self.read_as_it_is(part.transpose(Image.Transpose.ROTATE_90))
                if Reading.of(other).squared > reading.squared:
                    quarters, read, reading = 1, other, Reading.of(other)
            if stands_on_end(reading):
                middle, pixel = laid_back(read, quarters, part.size, words.windows[number], page.size)
                cells = cells.and_(replace(read, middle=middle, pixel=pixel))
        return cells

    def read_as_it_is(self, picture: Image.Image) -> Cells:
        """A grey picture at its own size, without copies: enough to tell how surely it is read."""
        return self.name([self.find_words(picture)])

    def _known(self, words: Words, em: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.bool_]:
        """Cells of a copy of this size where words stand that were read on the page and are too small now."""
        scale = size[0] / words.size[0]
        small = (words.chance > SURE) & (em * scale < self._config["large"])
        middle = (words.place[small, ::-1] + CELL / 2) * scale
        around = em[small, None] * scale * AROUND
        sides = np.concatenate([middle - around, middle + around], axis=1)
        shape = (-(-size[1] // BLOCK) * 2, -(-size[0] // BLOCK) * 2)
        return ink_windows.filled(np.round(sides / CELL).astype(np.int64), shape)

    @staticmethod
    def _copy(page: Image.Image, scale: float) -> Image.Image:
        from vsplade.pages.lanczos import fit_grey

        return fit_grey(page, max(BLOCK, round(max(page.size) * scale)))

    def find_words(self, copy: Image.Image, known: NDArray[np.bool_] | None = None) -> Words:
        """Where words stand on a copy; ``known`` cells of it need not be looked at."""
        from vsplade.encode.reader.window_loops import folded, gathered
        from vsplade.pages import grey_levels

        grey = grey_levels(copy)
        padding = ((0, -grey.shape[0] % BLOCK), (0, -grey.shape[1] % BLOCK))
        padded = np.pad(grey, padding, mode="edge") if any(map(any, padding)) else grey
        width = self._config["network"]["middle"] + self._config["network"]["coarse"]
        places, logits = [np.zeros((2, 0), np.int64)], [np.zeros(0, np.float32)]
        features = [np.zeros((0, width), np.float32)]
        shown, owner = ink_windows.windows(padded, known)
        for number, (top, left, bottom, right) in enumerate(shown):
            window = padded[top * CELL : bottom * CELL, left * CELL : right * CELL]
            word, fine, coarse = self._trunk.run(None, {"picture": folded(window)})
            own = owner[top:bottom, left:right] == number
            rows, columns = np.nonzero((word[0] > self._config["floor"]) & own)
            features.append(gathered(fine[0], coarse[0], rows, columns))
            logits.append(word[0][rows, columns])
            places.append(np.stack([columns + left, rows + top]))
        place = np.concatenate(places, axis=1).T * CELL
        chance = np.asarray(1 / (1 + np.exp(-np.concatenate(logits))), np.float32)
        return Words(place, chance, np.concatenate(features), copy.size, shown, owner)

    def type_sizes(self, words: Words) -> NDArray[np.float32]:
        """The em of each word in pixels of the copy: a small part of the head, done before naming."""
        if not len(words.features):
            return np.zeros(0, np.float32)
        em: NDArray[np.float32] = self._size.run(None, {"features": words.features})[0]
        return em

    def name(self, copies: Sequence[Words]) -> Cells:
        """The best few terms of each cell, of all copies together: few cells stand on the small ones."""
        probability, term, em = self._name(np.concatenate([words.features for words in copies]))
        pixel = np.concatenate([words.pixel for words in copies])
        middle = np.concatenate([(words.place + CELL / 2) * words.pixel for words in copies])
        chance = np.concatenate([words.chance for words in copies])
        probability = probability * chance[:, None] ** self._config["doubt"]
        return Cells(middle.astype(np.float32), pixel, probability, term, em, chance)


Named = tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]
"""The chances of each cell's best few terms, these terms, and the em of the type there."""


def namer(head: Path, best: int) -> Callable[[NDArray[np.float32]], Named]:
    """What names cells by their features: compiled loops where the processor can, else onnxruntime.

    ``best`` is how many terms the file's graph gives.
    """
    from vsplade.encode.reader.term_namer import TermNamer
    from vsplade.encode.reader.term_scan import BEST, has_instruction

    if best == BEST and has_instruction() and (found := TermNamer.load(head)) is not None:
        return found.name
    session = onnx_session(head)

    def name(features: NDArray[np.float32]) -> Named:
        nothing = np.zeros((0, best), np.float32), np.zeros((0, best), np.int32), np.zeros(0, np.float32)
        some = [features[at : at + HEAD_ROWS] for at in range(0, len(features), HEAD_ROWS)]
        parts = [nothing, *(session.run(None, {"features": rows}) for rows in some)]
        chances, terms, ems = (np.concatenate(column) for column in zip(*parts, strict=True))
        return chances, terms, ems

    return name


def onnx_session(path: Path) -> Any:
    # Its official builds tell their maker how they are used, and keep a file for that in the home folder.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1  # pages run side by side instead: no waiting in a small layer
    settings.inter_op_num_threads = 1
    # what holds the logits is kept for the next cells: the system would clear new memory each time
    settings.enable_cpu_mem_arena = path.name in ("head.onnx", "speller.onnx")
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
