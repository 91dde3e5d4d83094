"""The one writer of an index: add, replace, delete, commit. Nothing is visible before ``commit``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import IndexFormatError, InputError, StorageError, VspladeWarning
from vsplade.store import file_names, pending, state
from vsplade.store import manifest as manifests
from vsplade.store.durable import WriterLock, missing
from vsplade.store.file_names import FileNames
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import Manifest
from vsplade.store.page_writer import PageWriter, ReadPage
from vsplade.store.pending import PendingSegments, fills_a_segment
from vsplade.store.postings import MAX_VOCABULARY
from vsplade.store.segment import Segment
from vsplade.store.snapshot import Snapshot, segment_problems
from vsplade.types import Encoder


class IndexWriter(PageWriter):
    """Use as a context manager: leaving it commits, an exception leaves the last commit as it was.

    ``encoder`` may be left out when the index exists already.
    """

    def __init__(self, folder: str | Path, encoder: Encoder | EncoderIdentity | None = None) -> None:
        super().__init__()
        self.folder = self.where = Path(folder)
        identity = encoder if isinstance(encoder, EncoderIdentity | None) else EncoderIdentity.of(encoder)
        if not manifests.exists(self.folder) and identity is None:
            raise IndexFormatError(
                f"{self.folder}: there is no index here yet; name the encoder to begin one."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.folder}: this folder cannot be made ({error.strerror}).") from error
        if not manifests.exists(self.folder):
            _check_free(self.folder)
        self._committed: Snapshot | None = None
        self._sound: dict[Segment, bool] = {}
        self._lock = WriterLock(self.folder)
        self._lock.acquire()
        try:
            if not manifests.exists(self.folder):
                _check_free(self.folder)  # again: another process may have begun meanwhile
                self._begin(identity)
            self._manifest = manifests.load(self.folder)
            check_encoder(self.folder, EncoderIdentity.named_by(self._manifest), identity)
            self._names = FileNames(self.folder, self._manifest.next_file)
            self._restore()
            self._remove_strays()
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, identity: EncoderIdentity | None) -> None:
        if identity is None:
            raise IndexFormatError(
                f"{self.folder}: there is no index here yet; name the encoder to begin one."
            )
        if not 1 <= identity.terms <= MAX_VOCABULARY:
            raise InputError(f"a vocabulary of {identity.terms} terms cannot be indexed.")
        manifests.store(self.folder, Manifest(identity.name, identity.fingerprint, identity.terms))

    def _restore(self) -> None:
        """The working state is the last commit."""
        try:
            self._segments = PendingSegments(self.folder, self._manifest, self._names)
            self._begin_changes(state.StateFiles(self.folder, self._manifest.state).read())
        except FileNotFoundError as error:
            raise missing(self.folder, error) from error

    @property
    def pages(self) -> int:
        return self._segments.live_pages

    @property
    def vocabulary(self) -> int:
        return self._manifest.vocabulary

    def _is_full(self) -> bool:
        return fills_a_segment(len(self._pending), self._bytes)

    def stored(self, ids: Sequence[str]) -> dict[str, ReadPage | None]:
        """Those in damaged segments cannot be trusted: written again, a wrong byte would get a right
        checksum."""
        if self._committed is None or self._committed.manifest != self._manifest:
            self._committed, self._sound = Snapshot.load(self.folder), {}
        found: dict[str, ReadPage | None] = {}
        for id, number in self._committed.find(ids).items():
            segment, page = self._committed.locate(number)
            if segment not in self._sound:
                self._sound[segment] = not any(segment_problems(segment))
            found[id] = partial(segment.stored, page) if self._sound[segment] else None
        return found

    def adopt(self, segment: Segment, live: NDArray[np.bool_] | None = None) -> None:
        """Add the live pages of a segment of another index (None: all of it), behind all others. Its ids must
        not be in this index; nobody looks."""
        self.flush()
        self._segments.adopt(segment, live)

    # -- to disk ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what is buffered to disk (still invisible); ``add`` calls this when memory fills up."""
        self._open()
        if not self._pending:
            return
        self._segments.change(self._pending)
        self._pending = {}
        self._bytes = 0

    def commit(self) -> int:
        """Make every change so far visible, all at once, and durable; returns the commit's number.

        After a StorageError (disk full) nothing is lost: the index is at its last commit, this writer
        still holds the changes, and commit can be tried again. Small segments are joined afterwards; when the
        disk has no room for that, the commit stands, and a warning says so.
        """
        self.flush()
        generation = self._publish()
        try:
            return self._merge(pending.FAN_OUT)
        except StorageError as error:
            warnings.warn(
                f"{self.folder}: everything is committed, but small segments could not be joined: {error}",
                VspladeWarning,
                stacklevel=2,
            )
            return generation

    def _merge(self, fan_out: int) -> int:
        """Join segments and commit that; when it fails, the segments are those of the last commit."""
        before = self._segments.all()
        try:
            self._segments.merge(fan_out)
            return self._publish()
        except BaseException:
            self._segments.reset(before)
            self._remove_unfinished()  # what was written of it may be what fills the disk
            raise

    def _publish(self) -> int:
        if not self._segments.differ_from(self._manifest.segments) and not self._state_changes:
            return self._manifest.generation
        entries = self._segments.write_entries()
        state_entries = self._write_state()
        manifest = self._manifest.with_changes(
            generation=self._manifest.generation + 1,
            next_file=self._names.number,
            segments=entries,
            state=state_entries,
        )
        manifests.store(self.folder, manifest)
        self._manifest = manifest
        self._segments.committed(entries)
        self._state = self.state()
        self._state_changes = {}
        self._remove_strays()
        return manifest.generation

    def _write_state(self) -> tuple[manifests.StateEntry, ...]:
        if not self._state_changes:
            return self._manifest.state
        path = self._names.new("state")
        if len(self._manifest.state) >= state.MAX_FILES:
            return (state.write_changes(path, self.state()),)
        return (*self._manifest.state, state.write_changes(path, self._state_changes))

    # -- upkeep ----------------------------------------------------------------------------------------

    def merge(self) -> int:
        """Join neighbouring small segments now, and commit. ``commit`` does so by itself, less eagerly."""
        self.flush()
        self._publish()
        return self._merge(2)

    def compact(self) -> int:
        """Rewrite all pages without the deleted ones into as few segments as possible, and commit."""
        self.flush()
        self._segments.compact()
        return self._publish()

    def _remove_unfinished(self) -> None:
        """After a failure the manifest on disk may be the newer one: it was swapped, then a sync failed."""
        self._remove_strays(manifests.load(self.folder).files())

    def _remove_strays(self, also_needed: frozenset[str] | set[str] = frozenset()) -> None:
        """Files that no commit names: left by a killed writer, or replaced by the commit just made."""
        needed = self._manifest.files() | self._segments.files() | also_needed
        for path in self.folder.iterdir():
            ours = file_names.parse_name(path.name) is not None or file_names.is_spare(path.name)
            if ours and path.name not in needed and file_names.is_plain_file(path):
                try:
                    path.unlink(missing_ok=True)
                except PermissionError:
                    continue  # Windows: a reader still maps it; the next writer tries again

    def rollback(self) -> None:
        """Drop every change since the last commit."""
        self._open()
        self._restore()
        self._remove_unfinished()

    def close(self) -> None:
        """Release the lock without committing."""
        self._lock.release()
        super().close()


def _check_free(folder: Path) -> None:
    """A new index begins only in a folder of its own: it would not be clear what belongs to whom."""
    try:
        segments, others = file_names.own_files(folder, "segment"), file_names.strangers(folder)
    except OSError as error:
        raise StorageError(f"{folder}: this folder cannot be listed ({error.strerror}).") from error
    if segments:
        raise IndexFormatError(
            f"{folder}: this index has lost its {manifests.NAME} file, but its pages are still here. Run "
            f"`vsplade index --recover --index {folder}` to get them back, or give the new index "
            "another folder."
        )
    if others:
        raise InputError(
            f"{folder}: there is no index here, but other things are, such as {others[0]!r}. Give the index "
            "a folder of its own: one that is empty, or does not exist yet."
        )
