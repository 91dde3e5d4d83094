"""Files in, readings of their pages out, in order: rendered in processes of their own, read on every core."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from vsplade.errors import InputError
from vsplade.pages import (
    Discovery,
    FileProblem,
    Limits,
    RenderedPage,
    discover,
    name_files,
    render_for,
    usable,
)
from vsplade.reading.page_reading import PageReading, ReadBlock, ReadLine, ReadWord
from vsplade.types import Box

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.encode.reader.page_text import Word
    from vsplade.encode.reader.reader import ReaderEncoder
    from vsplade.encode.reader.spelled_text import SpelledText
    from vsplade.pages.viewer import LayerWord

LAYER_WORDS = 10
"""A page with fewer words in its text layer counts as one without: a stamp, or a page number."""


def read(
    path: str | os.PathLike[str], *, text_layer: bool = False, limits: Limits | None = None
) -> Iterator[PageReading]:
    """The pages of a file as text, in order, from their pixels.

    ``text_layer`` takes the words of the file's own text layer instead, for pages that have one. A page that
    cannot be read is a ``PageError``.
    """
    yield from usable(read_files(discover([path]), text_layer=text_layer, limits=limits))


def read_files(
    found: Discovery,
    *,
    text_layer: bool = False,
    limits: Limits | None = None,
    workers: int | None = None,
) -> Iterator[PageReading | FileProblem]:
    """The same for all that was found; what cannot be read is a ``FileProblem`` in its place."""
    if not found.files and found.problems:
        raise InputError(f"{found.problems[0].path} {found.problems[0].reason}.")
    yield from found.problems
    reader, _ = shared_reader()
    threads = os.cpu_count() or 1
    waiting: deque[Future[PageReading] | FileProblem] = deque()
    results = render_for(reader, name_files(found.files), limits=limits, workers=workers)
    with closing(results), ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:
        for result in results:
            if isinstance(result, FileProblem):
                waiting.append(result)
            else:
                waiting.append(pool.submit(_reading, result, text_layer))
            while len(waiting) > threads:
                yield _ready(waiting.popleft())
        while waiting:
            yield _ready(waiting.popleft())


def _ready(waiting: Future[PageReading] | FileProblem) -> PageReading | FileProblem:
    return waiting if isinstance(waiting, FileProblem) else waiting.result()


def _reading(result: RenderedPage, text_layer: bool) -> PageReading:
    page = result.page
    width, height = (float(str(page.metadata[side])) for side in ("width", "height"))
    shown = page.path, page.number, result.pages, width, height
    if text_layer and page.text and len(page.text.split()) >= LAYER_WORDS:
        from vsplade.pages.viewer import shared_viewer

        words = shared_viewer().view(page.path, page.number, 0, words=True).words
        return PageReading(*shown, layer_blocks(words), from_text_layer=True)
    blocks, quarters = read_picture(page.image)
    return PageReading(*shown, blocks, quarters)


@cache
def shared_reader() -> tuple[ReaderEncoder, SpelledText]:
    """The reader that ships, loaded once."""
    from vsplade.encode.reader.reader import ReaderEncoder
    from vsplade.encode.reader.reader_queries import ReaderOptions
    from vsplade.encode.reader.spelled_text import SpelledText
    from vsplade.encode.tokenizer import Tokenizer

    reader = ReaderEncoder(ReaderOptions(meaning=False))
    _ = reader.cells, reader.speller  # loaded here, before several threads ask for them
    return reader, SpelledText(Tokenizer.load())


def read_picture(image: Image.Image) -> tuple[tuple[ReadBlock, ...], int]:
    """The blocks of a page's picture, and the quarter turns that bring it upright."""
    reader, spelled = shared_reader()
    pose, cells = reader.read_upright(image)
    grey = np.asarray(pose.turned(image.convert("L")))

    def placed(word: Word) -> ReadWord:
        tokens = tuple(map(reader.vocabulary.token, word.terms))
        return ReadWord(word.text, pose.box_on_page(word.box, image.size), word.certainty, tokens)

    blocks = tuple(
        ReadBlock(tuple(ReadLine(tuple(map(placed, line))) for line in block))
        for block in spelled.blocks(cells, grey)
    )
    return blocks, pose.quarters


def layer_blocks(words: Sequence[LayerWord]) -> tuple[ReadBlock, ...]:
    """Words of a text layer, in its own order, as lines and blocks."""
    lines: list[list[ReadWord]] = []
    blocks: list[list[list[ReadWord]]] = []
    for word in words:
        one = ReadWord(word.text, word.box, 1.0)
        last = lines[-1][-1].box if lines else None
        if last is not None and _goes_on(last, word.box):
            lines[-1].append(one)
            continue
        lines.append([one])
        if last is not None and _is_below(lines[-2][0].box, word.box):
            blocks[-1].append(lines[-1])
        else:
            blocks.append([lines[-1]])
    return tuple(ReadBlock(tuple(ReadLine(tuple(line)) for line in block)) for block in blocks)


def _goes_on(last: Box, box: Box) -> bool:
    """Whether a word stands on the line of the one before it."""
    height = max(last.bottom - last.top, box.bottom - box.top)
    return abs(last.bottom + last.top - box.bottom - box.top) < height and box.left > last.left


def _is_below(first: Box, box: Box) -> bool:
    """Whether a line, which begins with this word, is near the one before it."""
    height = max(first.bottom - first.top, box.bottom - box.top)
    return 0 < box.top - first.top < 2.2 * height
