"""What every writer does, wherever the pages go: checks them, holds them back, and keeps a job's records."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from vsplade.errors import InputError
from vsplade.store.columns import check_metadata
from vsplade.store.manifest import JsonValue
from vsplade.store.meaning_windows import checked_windows
from vsplade.store.pending import size_on_disk
from vsplade.store.postings import WEIGHTS
from vsplade.store.segment import StoredPage
from vsplade.types import Metadata, SparseVector, Windows

ReadPage = Callable[[], StoredPage]


class PageWriter(ABC):
    """Use as a context manager: leaving it commits, an exception leaves out what was not committed."""

    where: Path | str
    """The folder or the address of the index, as errors name it."""

    def __init__(self) -> None:
        self._closed = False
        self._begin_changes({})

    def _begin_changes(self, state: dict[str, JsonValue]) -> None:
        """Nothing is held back, and the state is that of the last commit."""
        self._state = state
        self._state_changes: dict[str, JsonValue] = {}
        self._pending: dict[str, StoredPage | None] = {}
        self._bytes = 0

    @property
    @abstractmethod
    def pages(self) -> int:
        """Live pages, uncommitted changes that are still held back not counted."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Terms of pages are below this."""

    @abstractmethod
    def stored(self, ids: Sequence[str]) -> dict[str, ReadPage | None]:
        """How to read what the last commit has of these pages; None where it cannot be trusted."""

    @abstractmethod
    def flush(self) -> None:
        """Hand on what is held back; ``add`` calls this when memory fills up."""

    @abstractmethod
    def commit(self) -> int:
        """Make every change so far visible and durable; returns the commit's number."""

    @abstractmethod
    def _is_full(self) -> bool:
        """Whether enough is held back to be handed on."""

    # -- changes ---------------------------------------------------------------------------------------

    def add(
        self, id: str, vector: SparseVector, metadata: Metadata | None = None, thumbnail: bytes | None = None
    ) -> None:
        """Add a page, or replace the page of that id. Replaced pages move to the end of the page order."""
        self._open()
        if not isinstance(id, str) or not id:
            raise InputError(f"a page's id must be a non-empty string, not {id!r}.")
        page = StoredPage(id, self._checked(id, vector), check_metadata(id, metadata or {}), thumbnail or b"")
        self._forget(id)
        self._pending[id] = page
        self._bytes += size_on_disk(page)
        if self._is_full():
            self.flush()

    def delete(self, id: str) -> None:
        """Delete the page of that id; unknown ids are no error (deleting twice changes nothing)."""
        self._open()
        self._forget(id)
        self._pending[id] = None

    def _forget(self, id: str) -> None:
        old = self._pending.pop(id, None)
        if old is not None:
            self._bytes -= size_on_disk(old)

    def _checked(self, id: str, vector: SparseVector) -> SparseVector:
        terms = np.ascontiguousarray(vector.terms, dtype=np.uint32)
        weights = np.array(vector.weights, dtype=np.float32)
        if len(terms) != len(weights) or terms.ndim != 1:
            raise InputError(f"page {id!r}: {len(terms)} terms but {len(weights)} weights.")
        given = vector.meaning
        meaning = checked_windows(id, given) if isinstance(given, Windows) else None
        if not len(terms):
            return SparseVector(terms, weights, meaning)
        if (terms[1:] <= terms[:-1]).any() or terms[-1] >= self.vocabulary:
            raise InputError(
                f"page {id!r}: terms must increase strictly and stay below the vocabulary's "
                f"{self.vocabulary}."
            )
        if not (weights.min() >= WEIGHTS[0] and weights.max() <= WEIGHTS[1]):
            raise InputError(f"page {id!r}: weights must be positive: from {WEIGHTS[0]} to {WEIGHTS[1]}.")
        return SparseVector(terms.copy(), weights, meaning)

    def set_state(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value under ``key``, committed together with the pages; None removes it."""
        self._open()
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"the state of {key!r} cannot be kept as JSON: {error}.") from error
        self._state_changes[key] = value

    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        """The state with this writer's uncommitted changes, keys that begin with ``prefix``."""
        both = {**self._state, **self._state_changes}
        return {key: value for key, value in both.items() if key.startswith(prefix) and value is not None}

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let others write, without committing."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise InputError(f"{self.where}: this writer is closed; open a new one.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._closed:
                self.commit()
        finally:
            self.close()
