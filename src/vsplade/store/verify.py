"""Verify an index: every byte against its checksum, and every array against the others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import VspladeError, VspladeWarning
from vsplade.store import manifest as manifests
from vsplade.store.layout import FULL
from vsplade.store.segment import Segment
from vsplade.store.snapshot import LiveSegment, Snapshot, segment_problems

AT_ONCE = 1 << 24
"""Pages whose ids are compared at a time."""


def check(folder: Path) -> list[str]:
    """Problems in the newest commit, in words; an empty list for a sound index."""
    try:
        snapshot = Snapshot.load(folder, reduced=True)
    except VspladeError as error:
        return [str(error)]
    problems = [f"{part.path}: {part.reason}" for part in snapshot.damaged_parts]
    try:
        snapshot.state.read()
    except VspladeError as error:
        problems.append(str(error))
    for live in snapshot.segments:
        live.segment.expect_random_reads(False)
        problems += [f"{live.segment.container.path}: {one}" for one in segment_problems(live.segment)]
    return problems or list(_ids_that_are_live_twice(snapshot))


def warn_of_damage(folder: Path) -> None:
    """For who adds to an index: what is damaged stays so, for files that count as done are not read again."""
    damage = Snapshot.load(folder, reduced=True).damage if manifests.exists(folder) else None
    if damage is not None:
        warnings.warn(f"{folder}: {damage.message}", VspladeWarning, stacklevel=3)


def damaged_segments(snapshot: Snapshot) -> dict[Segment, str]:
    """Those in which reading every byte finds something wrong, and what first."""
    problems: dict[Segment, str] = {}
    for live in snapshot.segments:
        live.segment.expect_random_reads(False)
        for problem in segment_problems(live.segment):
            problems[live.segment] = problem
            break
        live.segment.expect_random_reads()
    return problems


def _ids_that_are_live_twice(snapshot: Snapshot) -> Iterator[str]:
    for id, first, second in live_twice(snapshot):
        yield f"page {id!r} is in {first.container.path} and again in {second.container.path}"


def live_twice(snapshot: Snapshot, at_once: int = AT_ONCE) -> Iterator[tuple[str, Segment, Segment]]:
    """Ids that two live pages have. By hash, a range of hashes at a time: the ids of a large index would not
    fit into memory."""
    pages = sum(live.segment.pages for live in snapshot.segments)
    edges = [(part << 64) // (pages // at_once + 1) for part in range(pages // at_once + 2)]
    for first, end in pairwise(edges):
        parts = [_live_hashes(live, first, end - 1) for live in snapshot.segments]
        hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *parts]))
        for value in np.unique(hashes[1:][hashes[1:] == hashes[:-1]]):
            seen: dict[str, Segment] = {}
            for live in snapshot.segments:
                for id in _ids_of(live, value):
                    if id in seen:
                        yield id, seen[id], live.segment
                    seen.setdefault(id, live.segment)


def _live_hashes(live: LiveSegment, first: int, last: int) -> NDArray[np.uint64]:
    values = live.segment.container["hash.values"]
    start = int(np.searchsorted(values, np.uint64(first), "left"))
    end = int(np.searchsorted(values, np.uint64(last), "right"))
    found: NDArray[np.uint64] = values[start:end]
    return found if live.live is None else found[live.live[live.segment.container["hash.pages"][start:end]]]


def _ids_of(live: LiveSegment, value: np.uint64) -> Iterator[str]:
    """Of the live pages with this hash."""
    values, pages = live.segment.container["hash.values"], live.segment.container["hash.pages"]
    start, end = np.searchsorted(values, value, "left"), np.searchsorted(values, value, "right")
    for page in pages[start:end].tolist():
        if live.live is None or live.live[page]:
            yield live.segment.id(page)


def statistics(snapshot: Snapshot) -> dict[str, int | float]:
    """Sizes of a commit. ``search_bytes`` is what a query may read; the rest rescoring, ids and pictures."""
    search = sum(live.segment.container.nbytes(FULL) for live in snapshot.segments)
    return {
        "pages": snapshot.pages,
        "deleted": sum(live.segment.pages for live in snapshot.segments) - snapshot.pages,
        "segments": len(snapshot.segments),
        "postings": snapshot.postings,
        "bytes": sum(live.segment.container.size for live in snapshot.segments),
        "search_bytes": search,
        "search_bytes_per_posting": search / snapshot.postings if snapshot.postings else 0.0,
    }
