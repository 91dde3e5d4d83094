"""The segments of an index as the next commit will have them: added to, thinned out, joined."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.index import merging
from vsplade.index.first_stage import read_term_values
from vsplade.index.invert import MAX_PAGES
from vsplade.index.manifest import Manifest, SegmentEntry
from vsplade.index.segment import Segment, StoredPage, hash_id, write_segment
from vsplade.index.snapshot import pack_tombstones, read_live
from vsplade.index.storage import write_durably

MAX_BYTES = 384 << 20
"""Size, roughly, at which buffered pages become a segment; bounds the writer's memory."""


def size_on_disk(page: StoredPage) -> int:
    """In bytes, about: 3 a posting to search, 6 to rescore, text and picture."""
    return 9 * len(page.vector) + len(page.thumbnail) + 256


def fills_a_segment(pages: int, size: int) -> bool:
    return pages >= MAX_PAGES or size >= MAX_BYTES


class FileNames:
    """Numbers for new files: only ever larger, so that no name is used twice."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self.number = number

    def new(self, kind: str, ending: str) -> Path:
        self.number += 1
        return self._folder / f"{kind}-{self.number - 1:08d}.{ending}"


@dataclass(slots=True)
class _Working:
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


class WorkingSegments:
    """Begins as the segments of ``manifest``. Files it writes belong to no commit until a manifest names
    them; when a write fails, the live pages are those of before the call."""

    def __init__(self, folder: Path, manifest: Manifest, names: FileNames) -> None:
        self._manifest = manifest
        self._names = names
        self._term_values = read_term_values(folder, manifest)
        self._all: list[_Working] = []
        for entry in manifest.segments:
            live = read_live(folder, entry)
            deleted = np.zeros(entry.pages, dtype=bool) if live is None else ~live
            self._all.append(_Working(Segment(folder / entry.file), deleted, entry))

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

    def _write(self, pages: list[StoredPage]) -> _Working:
        path = self._names.new("segment", "vsp")
        facts = self._manifest
        write_segment(path, pages, facts.vocabulary, facts.first_stage_terms, self._term_values)
        return _Working(Segment(path), np.zeros(len(pages), dtype=bool), None)

    def merge(self, fan_out: int) -> None:
        """Join runs of at least ``fan_out`` small neighbours; rewrite what is mostly deleted."""
        while True:
            run = merging.find_run(
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
        """The live pages of segments first..last-1, in order."""
        fresh: list[_Working] = []
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

    def differ_from(self, committed: Sequence[SegmentEntry]) -> bool:
        return [working.entry for working in self._occupied()] != list(committed)

    def write_entries(self) -> tuple[SegmentEntry, ...]:
        """For a manifest, with new tombstones on disk; ``committed`` is told when that is stored."""
        return tuple(working.entry or self._write_entry(working) for working in self._occupied())

    def committed(self, entries: Sequence[SegmentEntry]) -> None:
        self._all = self._occupied()
        for working, entry in zip(self._all, entries, strict=True):
            working.entry = entry

    def _occupied(self) -> list[_Working]:
        return [working for working in self._all if working.live_pages]

    def _write_entry(self, working: _Working) -> SegmentEntry:
        segment = working.segment
        entry = SegmentEntry(segment.container.path.name, segment.pages, segment.container.size)
        count = int(np.count_nonzero(working.deleted))
        if not count:
            return entry
        body = pack_tombstones(working.deleted)
        path = self._names.new("deleted", "bits")
        write_durably(path, [body])
        return SegmentEntry(entry.file, entry.pages, entry.bytes, count, path.name, zlib.crc32(body))
