"""Verify an index: every byte against its checksum, and every array against the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vsplade.errors import VspladeError
from vsplade.index.invert import DENSE, Inverted, row_stride
from vsplade.index.segment import FIRST_STAGE, FULL, Segment
from vsplade.index.snapshot import LiveSegment, Snapshot


def check(folder: Path) -> list[str]:
    """Problems in the newest commit, in words; an empty list for a sound index."""
    try:
        snapshot = Snapshot.load(folder)
        snapshot.state.read()
    except VspladeError as error:
        return [str(error)]
    problems: list[str] = []
    seen: dict[str, str] = {}
    for live in snapshot.segments:
        damaged = list(live.segment.container.problems())
        problems += damaged or [
            f"{live.segment.container.path}: {problem}" for problem in _check_segment(live, seen)
        ]
    return problems


def _check_segment(live: LiveSegment, seen: dict[str, str]) -> Iterator[str]:
    segment = live.segment
    if int(segment.starts[-1]) != segment.postings or len(segment.starts) != segment.pages + 1:
        yield "the pages' vectors do not add up"
    name = segment.container.path.name
    for page in range(segment.pages):
        if live.live is not None and not live.live[page]:
            continue
        page_id = segment.id(page)
        if page_id in seen:
            yield f"page {page_id!r} is also in {seen[page_id]}"
        seen[page_id] = name
    structures = [(FULL, segment.full, segment.postings)]
    if segment.container.header["first_stage_terms"]:
        first = segment.first_stage(segment.container.header["first_stage_terms"])
        structures.append((FIRST_STAGE, first, first.postings))
    for prefix, inverted, postings in structures:
        if inverted.postings != postings or not _sound(segment, inverted):
            yield f"the searchable structure {prefix.rstrip('.')!r} does not fit the pages"


def _sound(segment: Segment, inverted: Inverted) -> bool:
    listed = (inverted.places & DENSE) == 0
    ends = inverted.places[listed].astype(np.int64) + inverted.counts[listed]
    rows = int(np.count_nonzero(~listed))
    return (
        int(inverted.counts[listed].sum(dtype=np.int64)) == len(inverted.offsets) == len(inverted.levels)
        and (not len(ends) or int(ends.max()) <= len(inverted.offsets))
        and rows * row_stride(segment.pages) == len(inverted.dense)
        and (not len(inverted.offsets) or int(inverted.offsets.max()) < segment.pages)
        and bool(np.all(inverted.terms[1:] > inverted.terms[:-1]))
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
