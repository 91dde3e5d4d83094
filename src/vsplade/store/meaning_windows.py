"""The windows of a segment's pages, sorted by cluster: what a search by meaning reads.

docs/index-format.md describes the arrays. A page may have none; a segment without any has no such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.store.array_file import Array, Container
from vsplade.store.durable import damaged
from vsplade.types import Windows

PREFIX = "meaning."
MAX_DIMENSIONS, MAX_CLUSTERS, MAX_WINDOWS = 4096, 1 << 16, 64
"""Of an index; of an index; of a page."""


@dataclass(frozen=True, slots=True)
class StoredWindows:
    """The windows of one segment."""

    codes: NDArray[np.int8]  # (windows, dimensions), sorted by cluster
    lengths: NDArray[np.float32]  # of the vectors, as rounded
    pages: NDArray[np.uint16]
    starts: NDArray[np.uint32]  # of each cluster, and the end
    by_page: NDArray[np.uint32]  # windows in the order of pages
    page_starts: NDArray[np.uint32]  # of each page in ``by_page``, and the end

    def __len__(self) -> int:
        return len(self.pages)

    def rows(self, page: int) -> NDArray[np.uint32]:
        return self.by_page[int(self.page_starts[page]) : int(self.page_starts[page + 1])]

    def of_page(self, page: int) -> Windows | None:
        rows = self.rows(page)
        if not len(rows):
            return None
        clusters = np.searchsorted(self.starts, rows, side="right") - 1
        return Windows(self.codes[rows], clusters.astype(np.uint16))


def checked_windows(id: str, windows: Windows) -> Windows | None:
    """As it will be stored; None for a page without any."""
    codes = np.ascontiguousarray(windows.codes)
    clusters = np.ascontiguousarray(windows.clusters)
    if codes.dtype != np.int8 or clusters.dtype != np.uint16 or codes.shape[:1] != clusters.shape:
        raise InputError(f"page {id!r}: its windows must be 8-bit codes with a cluster each.")
    if codes.ndim != 2 or len(codes) > MAX_WINDOWS or not 1 <= codes.shape[1] <= MAX_DIMENSIONS:
        raise InputError(f"page {id!r}: at most {MAX_WINDOWS} windows of {MAX_DIMENSIONS} numbers are kept.")
    if len(codes) and not codes.any(axis=1).all():
        raise InputError(f"page {id!r}: a window without any direction cannot be kept.")
    return Windows(codes, clusters) if len(codes) else None


def window_arrays(pages: Sequence[Windows | None]) -> dict[str, Array]:
    """The arrays of a segment; none where no page has windows."""
    given = [windows for windows in pages if windows is not None]
    if not given:
        return {}
    if len({windows.codes.shape[1] for windows in given}) > 1:
        raise InputError("the pages' windows differ in their dimensions: they are of several models.")
    counts = np.array([0 if windows is None else len(windows) for windows in pages])
    owner = np.repeat(np.arange(len(pages)), counts)
    codes = np.concatenate([windows.codes for windows in given])
    clusters = np.concatenate([windows.clusters for windows in given]).astype(np.int64)
    order = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[order], np.arange(int(clusters.max()) + 2))
    codes, owner = codes[order], owner[order]
    return {
        PREFIX + "codes": codes.view(np.uint8).reshape(-1),
        PREFIX + "lengths": np.linalg.norm(codes.astype(np.float32), axis=1).astype(np.float32),
        PREFIX + "pages": owner.astype(np.uint16),
        PREFIX + "starts": starts.astype(np.uint32),
        PREFIX + "by_page": np.argsort(owner, kind="stable").astype(np.uint32),
        PREFIX + "page_starts": np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
    }


def read_windows(container: Container) -> StoredWindows | None:
    """Checked, so that no search can read outside of the file; None for a segment without any."""
    if PREFIX + "codes" not in container:
        return None
    kinds = {"codes": "<u1", "lengths": "<f4", "pages": "<u2", "starts": "<u4", "by_page": "<u4"}
    arrays: dict[str, Array] = {}
    for name, kind in (kinds | {"page_starts": "<u4"}).items():
        if PREFIX + name not in container or container[PREFIX + name].dtype != np.dtype(kind):
            raise damaged(container.path, f"the array {PREFIX}{name} is missing or of a wrong type")
        arrays[name] = container[PREFIX + name]
    count, pages = len(arrays["pages"]), int(container.header["pages"])
    if not _fit(arrays, count, pages):
        raise damaged(container.path, "the windows of its pages do not fit each other")
    codes = arrays.pop("codes").view(np.int8).reshape(count, -1)
    return StoredWindows(codes, **arrays)


def _fit(arrays: dict[str, Array], count: int, pages: int) -> bool:
    starts, page_starts = arrays["starts"], arrays["page_starts"]
    dimensions, rest = divmod(len(arrays["codes"]), count) if count else (0, 1)
    return (
        rest == 0
        and 1 <= dimensions <= MAX_DIMENSIONS
        and len(arrays["lengths"]) == len(arrays["by_page"]) == count
        and 2 <= len(starts) <= MAX_CLUSTERS + 1
        and len(page_starts) == pages + 1
        and all(
            edge[0] == 0 and edge[-1] == count and (edge[1:] >= edge[:-1]).all()
            for edge in (starts, page_starts)
        )
        and int(arrays["pages"].max()) < pages
        and int(arrays["by_page"].max()) < count
        and bool((arrays["lengths"] >= 1).all() and np.isfinite(arrays["lengths"]).all())
    )
