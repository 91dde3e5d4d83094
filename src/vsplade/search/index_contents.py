"""What an index holds: its pages, their vectors and metadata, as of the commit that is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.encode import as_built
from vsplade.errors import InputError
from vsplade.search.adaptive_engine import WorkBudget, checked_engine
from vsplade.search.commit_view import CommitView
from vsplade.search.filters import Filter
from vsplade.search.page_index import FilterLike, PageIndex
from vsplade.store import verify
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.segment import StoredPage
from vsplade.store.several import load_commit
from vsplade.store.snapshot import Snapshot
from vsplade.types import Encoder, Metadata, SparseVector

Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One index, or several that are read as one."""


class IndexContents(PageIndex):
    """The half of ``Index`` that looks pages up; ``refresh`` moves on to a newer commit."""

    def __init__(self, folder: Folders, encoder: Encoder | None = None, *, engine: str = "auto") -> None:
        super().__init__(encoder)
        several = [folder] if isinstance(folder, str | os.PathLike) else folder
        self.folders = tuple(map(Path, several))
        self.where = " + ".join(map(str, self.folders))
        self._choice = checked_engine(engine)
        self._budget = WorkBudget()
        self._use(load_commit(self.folders))

    @property
    def places(self) -> Sequence[Path | str]:
        return self.folders

    @property
    def folder(self) -> Path:
        if len(self.folders) > 1:
            raise InputError(f"{self.where}: these are several indexes. Open one of them to change it.")
        return self.folders[0]

    def _use(self, snapshot: Snapshot) -> None:
        if self._encoder is not None:
            stored = EncoderIdentity.named_by(snapshot.manifest)
            self._encoder = as_built(self._encoder, stored.fingerprint)
            check_encoder(self.where, stored, EncoderIdentity.of(self._encoder))
        self._view = CommitView(snapshot, self._choice, self._budget)

    def refresh(self) -> bool:
        """Move to the newest commit; says whether there was one."""
        snapshot = load_commit(self.folders, self._view.snapshot)
        changed = snapshot.manifest != self._view.snapshot.manifest
        if changed:
            self._use(snapshot)
        return changed

    # -- what the index is ----------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        return self._view.snapshot.pages

    @property
    def generation(self) -> int:
        """Number of the commit that is being read."""
        return self._view.snapshot.manifest.generation

    @property
    def commit(self) -> Snapshot:
        """The commit that is being read; another object after every ``refresh`` that found a new one."""
        return self._view.snapshot

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity.named_by(self._view.snapshot.manifest)

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Number of live pages that have each term; 0 for terms beyond the vocabulary."""
        frequencies = self._view.snapshot.frequencies
        known = np.asarray(terms, dtype=np.int64)
        inside = known < len(frequencies)
        return np.where(inside, frequencies[np.where(inside, known, 0)], 0)

    def statistics(self) -> dict[str, int | float]:
        """Sizes, for people and reports: pages, postings, bytes on disk and bytes a posting to search."""
        return verify.statistics(self._view.snapshot)

    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        """What a job kept with ``IndexWriter.set_state``, as of this commit."""
        stored = self._view.snapshot.state.read()
        return {key: value for key, value in stored.items() if key.startswith(prefix)}

    def check(self) -> list[str]:
        """Read every byte and verify it; the problems found, none for a sound index."""
        return [problem for folder in self.folders for problem in verify.check(folder)]

    # -- pages ----------------------------------------------------------------------------------------

    def ids(self, filter: FilterLike = None) -> Iterator[str]:
        """Ids of the live pages that pass ``filter``, in page order."""
        view = self._view
        for live, mask in zip(view.snapshot.segments, view.masks(Filter.of(filter)), strict=True):
            pages = range(live.segment.pages) if mask is None else np.flatnonzero(mask).tolist()
            for page in pages:
                yield live.segment.id(page)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(self._view.snapshot.find([id]))

    def _number(self, id: str) -> int:
        found = self._view.snapshot.find([id])
        if id not in found:
            raise InputError(f"{self.where}: there is no page {id!r} in this index.")
        return found[id]

    def metadata(self, id: str) -> Metadata:
        return self._view.snapshot.metadata(self._number(id))

    def metadata_keys(self) -> list[str]:
        """What pages can be filtered by, in alphabetical order."""
        segments = (live.segment for live in self._view.snapshot.segments)
        return sorted({key for segment in segments for key in segment.column_keys})

    def vector(self, id: str) -> SparseVector:
        return self._view.snapshot.vector(self._number(id))

    def thumbnail(self, id: str) -> bytes | None:
        segment, page = self._view.snapshot.locate(self._number(id))
        return segment.thumbnail(page) or None

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        """Every live page's id and vector, in page order."""
        return (
            (segment.id(page), segment.vector(page)) for segment, page in self._view.snapshot.live_pages()
        )

    def stored_pages(self) -> Iterator[StoredPage]:
        return (segment.stored(page) for segment, page in self._view.snapshot.live_pages())

    def known(self, ids: Sequence[str]) -> dict[str, Metadata]:
        found = self._view.snapshot.find(ids)
        return {id: self._view.snapshot.metadata(number) for id, number in found.items()}

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        """Every live page's id, vector and metadata, in page order."""
        for segment, page in self._view.snapshot.live_pages():
            yield segment.id(page), segment.vector(page), segment.metadata(page)
