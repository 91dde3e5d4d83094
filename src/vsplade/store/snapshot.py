"""One commit of an index as a reader sees it: segments, their deleted pages, and page numbers over all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import IndexFormatError
from vsplade.store import manifest as manifests
from vsplade.store.durable import damaged, missing
from vsplade.store.layout import array_problems
from vsplade.store.manifest import Manifest, SegmentEntry
from vsplade.store.segment import Segment, hash_id
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
        self, folder: Path, manifest: Manifest, segments: Sequence[LiveSegment], state: StateReader
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.state = state
        self.segments = tuple(segments)
        self.bases = np.array([segment.base for segment in segments], dtype=np.int64)
        self.pages = sum(segment.live_pages for segment in segments)
        self.postings = sum(segment.segment.postings for segment in segments)

    @classmethod
    def load(cls, folder: Path, previous: Snapshot | None = None) -> Snapshot:
        """The newest commit. A writer may remove files between our reads of the manifest and of them:
        then there is a newer manifest, and we begin again."""
        for _ in range(_ATTEMPTS):
            manifest = manifests.load(folder)
            try:
                return cls._load(folder, manifest, previous)
            except FileNotFoundError as error:
                if manifests.load(folder) == manifest:
                    raise missing(folder, error) from error
        raise IndexFormatError(f"{folder}: the index changes faster than it can be opened. Try again later.")

    @classmethod
    def _load(cls, folder: Path, manifest: Manifest, previous: Snapshot | None) -> Snapshot:
        """Raises FileNotFoundError for a file that is gone."""
        known = (
            {live.segment.container.path.name: live.segment for live in previous.segments} if previous else {}
        )
        segments: list[LiveSegment] = []
        base = 0
        for entry in manifest.segments:
            segment = known.get(entry.file)
            if segment is None:
                segment = _open_to_search(folder, entry, manifest)
            check_entry(segment, entry, manifest)
            segments.append(LiveSegment(segment, read_live(folder, entry), base))
            base += entry.pages
        return cls(folder, manifest, segments, StateFiles(folder, manifest.state))

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
