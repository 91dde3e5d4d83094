"""Texts as `learn` takes them: pages as the reader would give them, queries as rows of the table.

`teachers` writes them beside what the teachers say, while these read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from research.meaning.query_words import LAST_SPECIAL, query_rows
from vsplade.encode.meaning.meaning_model import WINDOW
from vsplade.encode.meaning.wordpiece import WordPiece

Array = np.ndarray[Any, Any]


def padded(flat: Array, sizes: Array, padding: int) -> Array:
    column = np.arange(len(flat)) - np.repeat(np.cumsum(sizes, dtype=np.int64) - sizes, sizes)
    out = np.full((len(sizes), int(sizes.max())), padding, np.int32)
    out[np.repeat(np.arange(len(sizes)), sizes), column] = flat
    return out


def as_read(flat: Array, sizes: Array, pieces: WordPiece) -> Array:
    """Passages as the reader gives them to the page encoder: words without signs, 0 where there is none."""
    letters = [pieces.token(number).removeprefix("##").isalnum() for number in range(len(pieces))]
    kept = np.array(letters)[flat] & (flat > LAST_SPECIAL)
    left = np.add.reduceat(kept.astype(np.int64), np.cumsum(sizes, dtype=np.int64) - sizes)
    return padded(flat[kept], left, 0)[:, :WINDOW]


def write_tokens(work: Path, minilm: Path) -> None:
    """WORK/texts.npz to WORK/taught/tokens.npz."""
    given, pieces = np.load(work / "texts.npz"), WordPiece.load(minilm / "vocab.txt")
    words = (work / "words.txt").read_text("utf-8").splitlines()
    passages = as_read(given["passages"], given["passage_sizes"], pieces)
    flat, sizes = given["queries"], given["query_sizes"]
    np.savez(
        work / "taught" / "tokens.npz", kinds=given["kinds"],
        passages=passages, passage_sizes=(passages != 0).sum(axis=1),
        queries=padded(flat, sizes, len(pieces)), rows=query_rows(flat, sizes, pieces, words),
    )  # fmt: skip
