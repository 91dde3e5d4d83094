"""Real pages with their own labels: a PDF's text layer tells where every word is.

Worker processes render pages and read the places of their characters; the pages then live on the GPU as one
flat array, and windows of them are cut with fresh geometry every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from research.reader.draw import cut_pages
from research.reader.scenes import SIZE
from research.reader.synthesis import ragged, random_affine, take
from research.reader.text_layers import Letter, characters_of
from research.reader.typeset import Labels
from research.reader.words import CODE, character_classes, spell
from vsplade.encode.tokenizer import Tokenizer

_CLASSES = character_classes()


@dataclass(frozen=True)
class RealPage:
    pixels: NDArray[np.uint8]  # (height, width) grey
    pieces: NDArray[np.float32]  # (n, 6) x, y, em, term (-1: cannot be set), word's left and right end
    characters: NDArray[np.float32]  # (n, 4) x, y, em, class


Rows = list[tuple[float, ...]]


def _label(word: list[Letter], goes_on: str, tokenizer: Tokenizer) -> tuple[Rows, Rows]:
    """Piece and character rows of one printed word; nothing for text that runs up or down the page.

    ``goes_on`` is the next line's first word if this one ends in a hyphen.
    """
    across, down = word[-1][2] - word[0][1], abs(word[-1][3] - word[0][3])
    if across <= 0 or down > 0.5 * across:
        return [], []
    letters = "".join(entry[0] for entry in word)
    characters: Rows = [
        ((c[1] + c[2]) / 2, c[3], c[4], float(_CLASSES[CODE[c[0]]]) if c[0] in CODE else 37.0) for c in word
    ]
    found = spell(letters, tokenizer, goes_on)
    ends = (word[0][1], word[-1][2])
    if found is None:
        return [(entry[0], entry[1], entry[2], -1.0, *ends) for entry in characters], characters
    pieces: Rows = []
    for term, start, end in found[1]:
        x = (word[start][1] + word[end - 1][2]) / 2
        pieces.append((x, word[start][3], word[start][4], float(term), *ends))
    return pieces, characters


def _words(page: Any, scale: float) -> Iterator[list[Letter]]:
    word: list[Letter] = []
    for entry in [*characters_of(page, scale), (" ", 0.0, 0.0, 0.0, 0.0)]:
        # a new line or a wide jump also ends a word, where the layer forgot the space
        if word and (
            entry[0] == " "
            or abs(entry[3] - word[-1][3]) > 0.6 * word[-1][4]
            or entry[1] - word[-1][2] > word[-1][4]
        ):
            yield word
            word = []
        if entry[0] != " ":
            word.append(entry)


def _goes_on(word: list[Letter], after: list[Letter]) -> str:
    """The letters of ``after``, if ``word`` was broken at the end of its line and they begin the next one."""
    if not after or word[-1][0] != "-" or len(word) < 2:
        return ""
    down = after[0][3] - word[-1][3]
    begins = 0.6 * word[-1][4] < down < 4 * word[-1][4] and after[0][1] < word[0][1]
    return "".join(entry[0] for entry in after) if begins else ""


def read_page(path: str, number: int, longest_edge: int) -> RealPage | None:
    """None for pages without a text layer or with too little of it."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
        page = document[number]
        width, height = page.get_size()
        scale = longest_edge / max(width, height)
        if page.get_rotation() or min(width, height) * scale < SIZE / 2:
            return None
        picture = page.render(scale=scale, grayscale=True).to_numpy()
        pixels = np.ascontiguousarray(picture[..., 0] if picture.ndim == 3 else picture)
        tokenizer = Tokenizer.load()
        pieces: Rows = []
        characters: Rows = []
        words = [*_words(page, scale), []]
        for word, after in pairwise(words):
            found = _label(word, _goes_on(word, after), tokenizer)
            pieces += found[0]
            characters += found[1]
        document.close()
    except (pypdfium2.PdfiumError, ValueError, IndexError):
        return None
    if len(pieces) < 20:
        return None
    return RealPage(pixels, np.array(pieces, np.float32), np.array(characters, np.float32))


def read_pages(jobs: Sequence[tuple[str, int, int]], workers: int) -> Iterator[RealPage]:
    """In the order of the jobs, so that two runs hold the same pages."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(read_page, *job) for job in jobs]:
            page = future.result()
            if page is not None:
                yield page


class PagePool:
    """Pages on the GPU, to cut windows from."""

    def __init__(self, pages: Sequence[RealPage], device: torch.device) -> None:
        self.device = device
        sizes = np.array([page.pixels.size for page in pages])
        self.offset = torch.from_numpy(np.cumsum(sizes) - sizes).to(device)
        self.shape = torch.tensor([page.pixels.shape for page in pages], device=device)
        self.pixels = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=device)
        for start, page in zip(self.offset.tolist(), pages, strict=True):
            flat = torch.from_numpy(page.pixels.reshape(-1))
            self.pixels[start : start + len(flat)] = flat.to(device)
        self.pieces = ragged([page.pieces for page in pages], device)
        self.characters = ragged([page.characters for page in pages], device)

    def windows(self, n: int) -> tuple[Tensor, Labels]:
        """Pictures (n, SIZE, SIZE) around random words of random pages, with their labels."""
        page = torch.randint(len(self.offset), (n,), device=self.device)
        rows, starts = self.pieces
        at = starts[page] + (torch.rand(n, device=self.device) * (starts[page + 1] - starts[page])).long()
        forward = random_affine(n, self.device)
        zoom = torch.exp((torch.rand(n, device=self.device) - 0.5) * 0.9)[:, None, None]
        matrix = forward[:, :, :2] * zoom
        aim = (torch.rand(n, 2, 1, device=self.device) * 0.8 + 0.1) * SIZE
        forward = torch.cat([matrix, aim - matrix @ rows[at, :2, None]], 2)
        return self._cut(page, forward), self._labels(page, forward)

    def _cut(self, page: Tensor, forward: Tensor) -> Tensor:
        back = torch.linalg.inv(forward[:, :, :2])
        inverse = torch.cat([back, -(back @ forward[:, :, 2:])], 2).reshape(-1, 6)
        return cut_pages(self.pixels, self.offset[page], self.shape[page], inverse)

    def _labels(self, page: Tensor, forward: Tensor) -> Labels:
        scale = torch.linalg.det(forward[:, :, :2]).abs().sqrt()

        def place(xy: Tensor, window: Tensor) -> Tensor:
            return (forward[window, :, :2] @ xy[:, :, None])[..., 0] + forward[window, :, 2]

        rows, window = take(self.pieces, page)
        xy, em = place(rows[:, :2], window), rows[:, 2] * scale[window]
        left, right = (place(torch.stack([rows[:, i], rows[:, 1]], 1), window) for i in (4, 5))
        margin = (em * 0.35)[:, None]
        whole = ((left > margin) & (left < SIZE - margin) & (right > margin) & (right < SIZE - margin)).all(1)
        inside = ((xy > 0) & (xy < SIZE)).all(1)
        term = rows[:, 3].long()
        characters, c_window = take(self.characters, page)
        c_xy = place(characters[:, :2], c_window)
        c_in = ((c_xy > 0) & (c_xy < SIZE)).all(1)
        return Labels(
            window[inside], xy[inside], em[inside], term[inside].clamp(min=0), (whole & (term >= 0))[inside],
            c_window[c_in], c_xy[c_in], (characters[:, 2] * scale[c_window])[c_in],
            characters[c_in, 3].long(),
        )  # fmt: skip
