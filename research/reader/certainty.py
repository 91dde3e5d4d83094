"""How often does a term stand on the page where the reader reads it?

A long word is seldom misread, a single letter often. The share is counted on pages whose text layer tells,
and a term that came up too seldom takes the share of its kind: word, beginning, middle or end, letters or
digits, of so many characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.command import main
from research.reader.options import CertaintyOptions
from vsplade.cli.common import progress_bar
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import ReaderOptions
from vsplade.encode.tokenizer import GOES_ON, Tokenizer, letters_of
from vsplade.errors import InputError
from vsplade.pages import FileProblem, discover, name_files, render
from vsplade.types import Page

READ = 0.4
"""An expected count above this is a reading."""
WORDS = 50
"""Pages with fewer words in their text layer do not count."""
TRUST = 20
"""Readings after which a term's own share weighs as much as that of its kind."""
LONGEST = 6
LEAST = 0.05


def kinds(tokenizer: Tokenizer) -> NDArray[np.int64]:
    """A number for the kind of each term."""
    numbers: dict[tuple[Any, ...], int] = {}
    found = []
    for token in map(tokenizer.token, range(len(tokenizer))):
        letters = letters_of(token)
        kind = (
            token.startswith(GOES_ON), token.endswith(GOES_ON), letters.isdigit(), min(len(letters), LONGEST)
        )  # fmt: skip
        found.append(numbers.setdefault(kind, len(numbers)))
    return np.array(found)


def shares(
    seen: NDArray[np.float64], true: NDArray[np.float64], kind: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of each term, drawn to the share of its kind, which is drawn to that of all."""
    overall = (true.sum() + 1) / (seen.sum() + 1)
    of_kind = (np.bincount(kind, true) + overall * TRUST) / (np.bincount(kind, seen) + TRUST)
    own: NDArray[np.float64] = (true + of_kind[kind] * TRUST) / (seen + TRUST)
    return own.clip(LEAST, 1)


def text_pages(file: str, edge: int, pages: int) -> Iterator[Page]:
    """Some pages of a PDF: of the first ones with enough text, every third."""
    results = render(name_files([file]), edge)
    read = (result.page for result in results if not isinstance(result, FileProblem))
    yield from islice((page for page in read if len((page.text or "").split()) >= WORDS), 0, 3 * pages, 3)


def measure_certainty(
    options: CertaintyOptions, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    reader, tokenizer = ReaderEncoder(ReaderOptions(model=str(options.model))), Tokenizer.load()
    seen, true = np.zeros(len(tokenizer)), np.zeros(len(tokenizer))
    pages, files = 0, discover([options.pdfs]).files
    for number, file in enumerate(files, 1):
        for page in text_pages(file, reader.longest_edge, options.pages):
            cells = reader.read(page.image)
            count = np.bincount(cells.term.ravel(), cells.probability.ravel(), len(tokenizer))
            read = np.flatnonzero(count > READ)
            seen[read] += 1
            true[np.intersect1d(read, tokenizer.encode(page.text or ""))] += 1
            pages += 1
        progress(number, len(files))
    if not pages:
        raise InputError(f"No PDF page with a text layer of {WORDS} words or more in {options.pdfs}.")
    table = shares(seen, true, kinds(tokenizer))
    np.save(options.out, table.astype(np.float16))
    return {
        "out": str(options.out),
        "pages": pages,
        "readings": int(seen.sum()),
        "true": true.sum() / seen.sum(),
    }


def certainty(options: CertaintyOptions) -> dict[str, Any]:
    """Measure how often each term stands on the page where it was read."""
    with progress_bar(None, "files") as progress:
        return measure_certainty(options, progress)


if __name__ == "__main__":
    main(certainty, CertaintyOptions)
