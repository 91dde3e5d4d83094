"""One commit of an index as a reader sees it: segments, their deleted pages, and page numbers over all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import DamagedFileError, IndexFormatError
from vsplade.store import manifest as manifests
from vsplade.store.damage import Damage, DamagedPart
from vsplade.store.durable import damaged, missing
from vsplade.store.layout import array_problems
from vsplade.store.manifest import Manifest, SegmentEntry
from vsplade.store.segment import Segment, hash_id
from vsplade.store.sources import damaged_sources
from vsplade.store.state import StateFiles, StateReader
from vsplade.store.tombstones import read_live
from vsplade.types import Metadata, SparseVector

_ATTEMPTS = 200
VERIFY_UP_TO = 1 << 24
"""Segments of up to this many bytes are verified when opened (milliseconds); larger ones by ``check``."""


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment and its live pages in one commit (``None``: all of them)."""

    segment: Segment
    live: NDArray[np.bool_] | None
    base: int
    """Number of its first page in the snapshot."""

    @property
    def live_pages(self) -> int:
        return self.segment.pages if self.live is None else int(np.count_nonzero(self.live))


def open_segment(folder: Path, entry: SegmentEntry, manifest: Manifest) -> Segment:
    """The segment of an entry: the very file, and one whose places can be followed."""
    segment = Segment(folder / entry.file)
    check_entry(segment, entry, manifest)
    return segment


def check_entry(segment: Segment, entry: SegmentEntry, manifest: Manifest) -> None:
    container = segment.container
    if (
        (segment.pages, container.size) != (entry.pages, entry.bytes)
        or entry.header_crc32 not in (None, container.header_crc32)
        or segment.vocabulary != manifest.vocabulary
    ):
        raise damaged(container.path, "it is not the file that the manifest describes")


def _open_to_search(folder: Path, entry: SegmentEntry, manifest: Manifest) -> Segment:
    segment = open_segment(folder, entry, manifest)
    if segment.container.size > VERIFY_UP_TO:
        segment.expect_random_reads()
        return segment
    for problem in segment_problems(segment):
        raise damaged(segment.container.path, problem)
    return segment


def _damaged_part(
    folder: Path, entry: SegmentEntry, error: DamagedFileError | FileNotFoundError
) -> DamagedPart:
    """Of a segment whose own file, or whose list of deleted pages, cannot be read."""
    broken = Path(error.path if isinstance(error, DamagedFileError) else error.filename)
    reason = error.reason if isinstance(error, DamagedFileError) else "it is missing"
    if broken.name != entry.file:
        reason = f"{broken.name}: {reason}"
    return DamagedPart(folder / entry.file, reason, entry.pages - entry.deleted)


def segment_problems(segment: Segment) -> Iterator[str]:
    """What a full read of a segment finds wrong, without its path."""
    found = False
    for problem in segment.container.problems():
        found = True
        yield problem.removeprefix(f"{segment.container.path}: ")
    if not found:
        yield from array_problems(segment.container)


class Snapshot:
    """Immutable; page numbers run over all segments in their order, deleted pages included."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        segments: Sequence[LiveSegment],
        state: StateReader,
        damaged_parts: Sequence[DamagedPart] = (),
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.state = state
        self.segments = tuple(segments)
        self.damaged_parts = tuple(damaged_parts)
        """Of the commit, but not among ``segments``: of a snapshot that may be reduced."""
        self.bases = np.array([segment.base for segment in segments], dtype=np.int64)
        self.pages: int = sum(segment.live_pages for segment in segments)
        self.postings = sum(segment.segment.postings for segment in segments)

    @classmethod
    def load(cls, folder: Path, previous: Snapshot | None = None, *, reduced: bool = False) -> Snapshot:
        """The newest commit. ``reduced``: a damaged segment is left out, and told in ``damage``; else it is
        an error.

        A writer may remove files between our reads of the manifest and of them: then there is a newer
        manifest, and we begin again.
        """
        for _ in range(_ATTEMPTS):
            manifest = manifests.load(folder)
            try:
                found = cls._load(folder, manifest, previous, reduced)
            except FileNotFoundError as error:
                if manifests.load(folder) == manifest:
                    raise missing(folder, error) from error
                continue
            if not found.damaged_parts or manifests.load(folder) == manifest:
                return found
        raise IndexFormatError(f"{folder}: the index changes faster than it can be opened. Try again later.")

    @classmethod
    def _load(cls, folder: Path, manifest: Manifest, previous: Snapshot | None, reduced: bool) -> Snapshot:
        """Raises FileNotFoundError for a file that is gone."""
        known = (
            {live.segment.container.path.name: live.segment for live in previous.segments} if previous else {}
        )
        given_up = (
            {part.path.name: part for part in previous.damaged_parts if part.read_whole} if previous else {}
        )
        segments: list[LiveSegment] = []
        parts: list[DamagedPart] = []
        base = 0
        for entry in manifest.segments:
            if entry.file in given_up:
                parts.append(given_up[entry.file])
                continue
            try:
                segment = known.get(entry.file) or _open_to_search(folder, entry, manifest)
                check_entry(segment, entry, manifest)
                live = read_live(folder, entry)
            except (DamagedFileError, FileNotFoundError) as error:
                if not reduced:
                    raise
                parts.append(_damaged_part(folder, entry, error))
                continue
            segments.append(LiveSegment(segment, live, base))
            base += entry.pages
        return cls(folder, manifest, segments, StateFiles(folder, manifest.state), parts)

    def shows_same_as(self, other: Snapshot) -> bool:
        """Whether the same commit, and as much of it."""
        return (self.manifest, self.damaged_parts) == (other.manifest, other.damaged_parts)

    @cached_property
    def damage(self) -> Damage | None:
        """What is out of reach; None for a whole index."""
        if not self.damaged_parts:
            return None
        broken = [part.path.name for part in self.damaged_parts]
        sources = damaged_sources(self.folder, self.manifest, broken)
        return Damage(self.damaged_parts, self.pages, tuple(sources))

    def without(self, problems: Mapping[Segment, str]) -> Snapshot:
        """The same commit without these segments, in which reading all of them found this."""
        kept: list[LiveSegment] = []
        parts = list(self.damaged_parts)
        base = 0
        for live in self.segments:
            if live.segment in problems:
                path, reason = live.segment.container.path, problems[live.segment]
                parts.append(DamagedPart(path, reason, live.live_pages, read_whole=True))
            else:
                kept.append(replace(live, base=base))
                base += live.segment.pages
        return Snapshot(self.folder, self.manifest, kept, self.state, parts)

    def locate(self, number: int) -> tuple[Segment, int]:
        """The segment of a page number, and the page's place in it."""
        return next(self.locate_all(np.array([number])))

    def locate_all(self, numbers: NDArray[np.int64]) -> Iterator[tuple[Segment, int]]:
        places = np.searchsorted(self.bases, numbers, side="right") - 1
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            live = self.segments[place]
            yield live.segment, number - live.base

    def live_pages(self) -> Iterator[tuple[Segment, int]]:
        """Every live page as its segment and its place there, in page order."""
        for live in self.segments:
            live.segment.expect_random_reads(False)
            pages = range(live.segment.pages) if live.live is None else np.flatnonzero(live.live).tolist()
            for page in pages:
                yield live.segment, page
            live.segment.expect_random_reads()

    def ids(self, numbers: NDArray[np.int64]) -> list[str]:
        """Ids of pages by their numbers."""
        return [segment.id(page) for segment, page in self.locate_all(numbers)]

    def vector(self, number: int) -> SparseVector:
        segment, page = self.locate(number)
        return segment.vector(page)

    def metadata(self, number: int) -> Metadata:
        segment, page = self.locate(number)
        return segment.metadata(page)

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """Page numbers of those ``ids`` that are live."""
        hashes = np.array([hash_id(page_id) for page_id in ids], dtype=np.uint64)
        return {
            ids[position]: live.base + page
            for live in self.segments
            for position, page in live.segment.find(ids, hashes)
            if live.live is None or live.live[page]
        }

    @cached_property
    def frequencies(self) -> NDArray[np.int64]:
        """Number of live pages of every term of the vocabulary."""
        total = np.zeros(self.manifest.vocabulary, dtype=np.int64)
        for live in self.segments:
            total[live.segment.full.terms] += live.segment.full.counts
            if live.live is not None:
                for page in np.flatnonzero(~live.live):
                    total[live.segment.vector(int(page)).terms] -= 1
        return total
