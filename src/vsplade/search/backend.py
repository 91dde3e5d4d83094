"""What the rest of vsplade needs of a place that keeps vectors and finds pages.

``Index`` (with ``IndexWriter``) is one; the same on an outside engine needs only these methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vsplade.search.hits import Hit
from vsplade.types import Metadata, SparseVector


@runtime_checkable
class SearchBackend(Protocol):
    """The reading half. ``filter`` takes what ``vsplade.search.filters.Filter.of`` takes."""

    @property
    def pages(self) -> int: ...

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]: ...

    def search_vector(
        self,
        vector: SparseVector,
        k: int = 10,
        filter: Mapping[str, object] | str | Iterable[str] | None = None,
    ) -> list[Hit]: ...

    def search_batch(
        self,
        queries: Sequence[str | SparseVector],
        k: int = 10,
        filter: Mapping[str, object] | str | Iterable[str] | None = None,
    ) -> Sequence[Sequence[Hit]]: ...

    def metadata(self, id: str) -> Metadata: ...

    def refresh(self) -> bool: ...


@runtime_checkable
class WriteBackend(Protocol):
    """The writing half; nothing is visible before ``commit``."""

    def add(
        self, id: str, vector: SparseVector, metadata: Metadata | None = None, thumbnail: bytes | None = None
    ) -> None: ...

    def delete(self, id: str) -> None: ...

    def commit(self) -> int: ...
