"""The segments of an index as the next commit will have them: added to, thinned out, joined."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.store.durable import damaged, write_durably
from vsplade.store.file_names import FileNames
from vsplade.store.manifest import Manifest, SegmentEntry
from vsplade.store.postings import MAX_PAGES
from vsplade.store.segment import Segment, StoredPage, hash_id, write_segment
from vsplade.store.snapshot import open_segment, segment_problems
from vsplade.store.sources import damaged_segments
from vsplade.store.tombstones import pack_tombstones, read_live
from vsplade.types import Windows

FAN_OUT = 8
"""Neighbours that are joined, at least, when a commit does it by itself."""
MAX_BYTES = 384 << 20
"""Size, roughly, at which buffered pages become a segment; bounds the writer's memory."""


def size_on_disk(page: StoredPage) -> int:
    """In bytes, about: 3 a posting to search, 6 to rescore, windows, text and picture."""
    windows = page.vector.meaning.codes.nbytes if isinstance(page.vector.meaning, Windows) else 0
    return 9 * len(page.vector) + windows + len(page.thumbnail) + 256


def fills_a_segment(pages: int, size: int) -> bool:
    return pages >= MAX_PAGES or size >= MAX_BYTES


@dataclass(slots=True)
class _PendingSegment:
    """A segment as the next commit will have it."""

    segment: Segment
    deleted: NDArray[np.bool_]
    entry: SegmentEntry | None
    """As committed; None while it is new or its tombstones have changed."""

    @property
    def live_pages(self) -> int:
        return self.segment.pages - int(np.count_nonzero(self.deleted))

    def pages(self) -> Iterator[StoredPage]:
        for page in np.flatnonzero(~self.deleted):
            yield self.segment.stored(int(page))


class PendingSegments:
    """Begins as the segments of ``manifest``. Files it writes belong to no commit until a manifest names
    them; when a write fails, the live pages are those of before the call."""

    def __init__(self, folder: Path, manifest: Manifest, names: FileNames) -> None:
        self._folder = folder
        self._manifest = manifest
        self._names = names
        self._all: list[_PendingSegment] = []
        for entry in manifest.segments:
            live = read_live(folder, entry)
            deleted = np.zeros(entry.pages, dtype=bool) if live is None else ~live
            self._all.append(_PendingSegment(open_segment(folder, entry, manifest), deleted, entry))

    @property
    def live_pages(self) -> int:
        return sum(working.live_pages for working in self._all)

    def change(self, pages: Mapping[str, StoredPage | None]) -> None:
        """Add the pages, in their order, as a new segment; delete what older ones hold under these ids."""
        kept = [page for page in pages.values() if page is not None]
        added = self._write(kept) if kept else None
        names = list(pages)
        hashes = np.array([hash_id(name) for name in names], dtype=np.uint64)
        # In the order of hashes: every segment is searched for them, and its memory is then read in order.
        order = np.argsort(hashes)
        hashes, ids = hashes[order], [names[place] for place in order.tolist()]
        for working in self._all:
            found = [page for _, page in working.segment.find(ids, hashes) if not working.deleted[page]]
            if found:
                working.deleted[found] = True
                working.entry = None
        if added is not None:
            self._all.append(added)

    def _write(self, pages: list[StoredPage]) -> _PendingSegment:
        path = self._names.new("segment")
        write_segment(path, pages, self._manifest)
        return _PendingSegment(Segment(path), np.zeros(len(pages), dtype=bool), None)

    def adopt(self, other: Segment, live: NDArray[np.bool_] | None) -> None:
        """Take over a segment of another index of the same encoder, as a copy that is verified."""
        path = self._names.new("segment")
        other.expect_random_reads(False)
        write_durably(path, [other.container.content])
        copy = Segment(path)
        deleted = np.zeros(copy.pages, dtype=bool) if live is None else ~live
        for problem in segment_problems(copy):
            raise damaged(path, problem)
        self._all.append(_PendingSegment(copy, deleted, None))

    def merge(self, fan_out: int) -> None:
        """Join runs of at least ``fan_out`` small neighbours; rewrite what is mostly deleted."""
        while True:
            run = find_run(
                [working.live_pages for working in self._all],
                [working.segment.pages for working in self._all],
                [working.segment.container.size for working in self._all],
                fan_out,
                MAX_PAGES,
                MAX_BYTES,
            )
            before = len(self._all)
            if run is None:
                return
            self._rewrite(*run)
            if run[1] - run[0] > 1 and len(self._all) == before:
                return  # too large to join after all

    def compact(self) -> None:
        """Rewrite all pages without the deleted ones into as few segments as possible."""
        self._rewrite(0, len(self._all))

    def _rewrite(self, first: int, last: int) -> None:
        """The live pages of segments first..last-1, in order. They are verified first: written again, a wrong
        byte would get a right checksum."""
        self._verify(self._all[first:last])
        fresh: list[_PendingSegment] = []
        buffered: list[StoredPage] = []
        size = 0
        for working in self._all[first:last]:
            if not buffered and working.live_pages == MAX_PAGES:
                fresh.append(working)
                continue
            for page in working.pages():
                buffered.append(page)
                size += size_on_disk(page)
                if fills_a_segment(len(buffered), size):
                    fresh.append(self._write(buffered))
                    buffered, size = [], 0
        if buffered:
            fresh.append(self._write(buffered))
        self._all[first:last] = fresh

    def _verify(self, chosen: Sequence[_PendingSegment]) -> None:
        problems: dict[str, str] = {}
        for working in chosen:
            for problem in segment_problems(working.segment):
                problems.setdefault(working.segment.container.path.name, problem)
                break
        if problems:
            raise damaged_segments(self._folder, self._manifest, problems)

    def all(self) -> list[_PendingSegment]:
        return list(self._all)

    def reset(self, segments: list[_PendingSegment]) -> None:
        self._all = list(segments)

    def files(self) -> set[str]:
        """Files of segments that the next commit will name."""
        return {working.segment.container.path.name for working in self._all}

    def differ_from(self, committed: Sequence[SegmentEntry]) -> bool:
        return [working.entry for working in self._occupied()] != list(committed)

    def write_entries(self) -> tuple[SegmentEntry, ...]:
        """For a manifest, with new tombstones on disk; ``committed`` is told when that is stored."""
        return tuple(
            replace(working.entry, header_crc32=working.segment.container.header_crc32)
            if working.entry
            else self._write_entry(working)
            for working in self._occupied()
        )

    def committed(self, entries: Sequence[SegmentEntry]) -> None:
        self._all = self._occupied()
        for working, entry in zip(self._all, entries, strict=True):
            working.entry = entry

    def _occupied(self) -> list[_PendingSegment]:
        return [working for working in self._all if working.live_pages]

    def _write_entry(self, working: _PendingSegment) -> SegmentEntry:
        segment = working.segment
        container = segment.container
        entry = SegmentEntry(
            container.path.name, segment.pages, container.size, header_crc32=container.header_crc32
        )
        count = int(np.count_nonzero(working.deleted))
        if not count:
            return entry
        body = pack_tombstones(working.deleted, entry.file)
        path = self._names.new("deleted")
        write_durably(path, [body])
        return replace(entry, deleted=count, tombstones=path.name, tombstones_crc32=zlib.crc32(body))


def _tier(pages: int) -> int:
    """0 for 1..7 pages, 1 for 8..63, ...: a page is rewritten at most once a tier."""
    return (max(pages, 1).bit_length() - 1) // 3


def find_run(
    live: Sequence[int],
    pages: Sequence[int],
    sizes: Sequence[int],
    fan_out: int,
    max_pages: int,
    max_bytes: int,
) -> tuple[int, int] | None:
    """Which segments to join, (first, last): ``fan_out`` or more neighbours of a tier or below that fit into
    one segment; else a segment of which most pages are deleted, alone; else None. Only neighbours: the page
    order, which breaks ties, must not change."""
    for tier in range(_tier(max_pages) + 1):
        first = 0
        while first < len(live):
            last, size, weight = first, 0, 0
            while last < len(live) and _tier(live[last]) <= tier:
                if size + live[last] > max_pages or weight + sizes[last] > max_bytes:
                    break
                size += live[last]
                weight += sizes[last]
                last += 1
            if last - first >= fan_out:
                return first, last
            first += 1
    for position, (alive, total) in enumerate(zip(live, pages, strict=True)):
        if 0 < alive * 2 < total:
            return position, position + 1
    return None
