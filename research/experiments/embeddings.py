"""Dense vectors of a data set's pages and queries, by whatever model made them: kept in a file, searched flat
or by HNSW, over all pages or over the first of them.

``research.experiments.dense --embeddings`` makes them of page texts. Of page pictures, any model's rows in a
.npz with ``pages``, ``page_rows``, ``queries``, ``query_rows`` and ``query_ms`` will do.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.experiments.dense import DenseIndex, set_threads
from vsplade.errors import InputError
from vsplade.evaluate.runs import Run

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Embeddings:
    """Rows of length 1: their product is the cosine."""

    pages: tuple[str, ...]
    page_rows: Matrix
    queries: tuple[str, ...]
    query_rows: Matrix
    query_ms: float = 0.0
    """What embedding one query took."""

    def __post_init__(self) -> None:
        for ids, rows, name in (
            (self.pages, self.page_rows, "pages"),
            (self.queries, self.query_rows, "queries"),
        ):
            if rows.ndim != 2 or len(ids) != len(rows) or not np.isfinite(rows).all():
                raise InputError(f"The embeddings of {name} do not fit: {len(ids)} ids, rows {rows.shape}.")
        if len(self.pages) and self.page_rows.shape[1] != self.query_rows.shape[1]:
            raise InputError("Embeddings of pages and queries have different widths.")

    @classmethod
    def load(cls, path: Path) -> Embeddings:
        try:
            with np.load(path, allow_pickle=False) as kept:
                return cls(
                    tuple(map(str, kept["pages"])), kept["page_rows"].astype(np.float32),
                    tuple(map(str, kept["queries"])), kept["query_rows"].astype(np.float32),
                    float(kept["query_ms"]),
                )  # fmt: skip
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} holds no embeddings ({error}). Make them again.") from error

    @classmethod
    def joined(cls, several: Sequence[Embeddings]) -> Embeddings:
        """The pages of all, with the queries of the first. Pages are named ``N/ID``, N counting from 0."""
        pages = tuple(f"{n}/{page}" for n, one in enumerate(several) for page in one.pages)
        rows = np.concatenate([one.page_rows for one in several])
        return cls(pages, rows, several[0].queries, several[0].query_rows, several[0].query_ms)

    def among(self, pages: Sequence[str]) -> Embeddings:
        """Only these pages, in this order."""
        place = {page: number for number, page in enumerate(self.pages)}
        missing = [page for page in pages if page not in place]
        if missing:
            raise InputError(f"There is no embedding of the page {missing[0]!r}.")
        rows = self.page_rows[[place[page] for page in pages]]
        return Embeddings(tuple(pages), rows, self.queries, self.query_rows, self.query_ms)

    def run(self, kind: str = "flat", k: int = 100) -> Run:
        return self.timed_run(kind, k)[0]

    def timed_run(
        self, kind: str = "flat", k: int = 100, threads: Sequence[int] = (1,)
    ) -> tuple[Run, dict[int, float]]:
        """The run, and milliseconds a query with each number of threads, all queries in one call."""
        index = DenseIndex(self.page_rows, kind)
        spent = {}
        for number in threads:
            set_threads(number)
            start = time.perf_counter()
            scores, numbers = index.search(self.query_rows, k)
            spent[number] = 1000 * (time.perf_counter() - start) / max(1, len(self.queries))
        run: Run = {}
        for query, row, found in zip(self.queries, scores.tolist(), numbers.tolist(), strict=True):
            run[query] = {self.pages[n]: score for score, n in zip(row, found, strict=True) if n >= 0}
        return run, spent
