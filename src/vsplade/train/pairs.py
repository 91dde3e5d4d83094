"""Pairs of a query and a page: what training needs of a source, and the source that is a folder.

Rows are shuffled by whole groups and then inside each, so that a file of many groups is read once a pass. The
order is a function of seed and pass alone: a resumed run sees what the first one would have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.jsonl import read_objects


@dataclass(frozen=True)
class ImagePair:
    id: str
    query: str
    image: bytes
    """The encoded picture."""
    caption: str | None


class ImagePairs(Protocol):
    @property
    def groups(self) -> Sequence[int]: ...

    def __getitem__(self, number: int) -> ImagePair: ...


def shuffled(groups: Sequence[int], seed: int, epoch: int) -> NDArray[np.int64]:
    """A permutation of all rows in which the rows of a group stay together."""
    random = np.random.default_rng([seed, epoch])
    starts = np.concatenate([[0], np.cumsum(groups)])
    parts = [starts[g] + random.permutation(groups[g]) for g in random.permutation(len(groups))]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


class FolderPairs:
    """``pairs.jsonl``: {"image": a path beside the file, "query": ..., "caption": ...} a line."""

    def __init__(self, folder: Path, with_captions: bool) -> None:
        self._folder = folder
        self._rows = [row for _, row in read_objects(folder / "pairs.jsonl")]
        for number, row in enumerate(self._rows, 1):
            wanted = ("image", "query", "caption") if with_captions else ("image", "query")
            bad = [key for key in wanted if not isinstance(row.get(key), str)]
            if bad:
                raise InputError(f"{folder / 'pairs.jsonl'}, line {number}: {', '.join(bad)} must be a text.")
        if not self._rows:
            raise InputError(f"{folder / 'pairs.jsonl'} is empty: there is nothing to train on.")
        absent = [row["image"] for row in self._rows if not (folder / row["image"]).is_file()]
        if absent:
            raise InputError(
                f"{len(absent)} pictures of {folder / 'pairs.jsonl'} are missing, first {absent[0]}."
            )
        self.groups: Sequence[int] = [len(self._rows)]

    def __getitem__(self, number: int) -> ImagePair:
        row = self._rows[number]
        image = (self._folder / row["image"]).read_bytes()
        return ImagePair(str(row["image"]), row["query"], image, row.get("caption"))
