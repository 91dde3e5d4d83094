"""Verify an index: every byte against its checksum, and every array against the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vsplade.errors import VspladeError
from vsplade.store.layout import FULL
from vsplade.store.snapshot import Snapshot, segment_problems


def check(folder: Path) -> list[str]:
    """Problems in the newest commit, in words; an empty list for a sound index."""
    try:
        snapshot = Snapshot.load(folder)
        snapshot.state.read()
    except VspladeError as error:
        return [str(error)]
    problems: list[str] = []
    for live in snapshot.segments:
        live.segment.expect_random_reads(False)
        problems += [f"{live.segment.container.path}: {one}" for one in segment_problems(live.segment)]
    return problems or list(_ids_that_are_live_twice(snapshot))


def _ids_that_are_live_twice(snapshot: Snapshot) -> Iterator[str]:
    """By hash first: the ids of a large index would not fit into memory as Python strings."""
    hashes, numbers = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    for live in snapshot.segments:
        pages = live.segment.container["hash.pages"].astype(np.int64)
        kept = slice(None) if live.live is None else live.live[pages]
        hashes.append(live.segment.container["hash.values"][kept])
        numbers.append(live.base + pages[kept])
    joined, numbered = np.concatenate(hashes), np.concatenate(numbers)
    order = np.argsort(joined, kind="stable")
    twins = np.flatnonzero(joined[order][1:] == joined[order][:-1])
    for one, other in zip(numbered[order[twins]].tolist(), numbered[order[twins + 1]].tolist(), strict=True):
        (first, first_page), (second, second_page) = snapshot.locate(one), snapshot.locate(other)
        if first.id(first_page) == second.id(second_page):
            yield (
                f"page {first.id(first_page)!r} is in {first.container.path} and again in "
                f"{second.container.path}"
            )


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
