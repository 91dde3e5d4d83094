"""Pages of a data set's files, through the one renderer, to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vsplade.evaluate.dataset import Dataset
from vsplade.types import Encoder, SparseVector


def encode_files(
    dataset: Dataset,
    encoder: Encoder,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[str, SparseVector]]:
    raise NotImplementedError
