"""Which source files a damaged segment held pages of: they are to be indexed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from vsplade.errors import DamagedSegmentError, VspladeError
from vsplade.store.damage import listed
from vsplade.store.manifest import Manifest
from vsplade.store.segment import Segment
from vsplade.store.state import FILE_RECORDS, State, StateFiles


def damaged_segments(folder: Path, manifest: Manifest, problems: dict[str, str]) -> DamagedSegmentError:
    """The error for segments (by file name, with what is wrong) that must not be read on."""
    sources = damaged_sources(folder, manifest, list(problems))
    first, reason = next(iter(problems.items()))
    return DamagedSegmentError(
        f"{folder / first}: this segment is damaged: {reason}. Nothing was rewritten or removed. "
        + (f"It holds pages of: {listed(sources)}. " if sources else "")
        + f"Run `vsplade index --recover --index {folder}`: it sets the damaged segment aside, the other "
        "pages stay searchable, and the next `vsplade index` of these files reads them again.",
        tuple(sources),
    )


def damaged_sources(folder: Path, manifest: Manifest, broken: Sequence[str]) -> list[str]:
    """From what the segments still tell of themselves, else from what is missing in all others."""
    found: set[str] = set()
    for name in broken:
        paths = stored_paths(folder / name)
        if paths is None:
            return sorted(found | _missing_paths(folder, manifest, set(broken)))
        found |= paths
    return sorted(found)


def stored_paths(path: Path) -> set[str] | None:
    """The ``path`` values of a segment's pages; None where that part is damaged itself."""
    try:
        segment = Segment(path)
        if "path" not in segment.column_keys:
            return set()
        number = segment.column_keys.index("path")
        if not segment.container.is_whole(f"column.{number}.values"):
            return None
        column = segment.column("path")
    except (VspladeError, OSError):
        return None
    return {value for value in column.values if isinstance(value, str)} if column else set()


def _missing_paths(folder: Path, manifest: Manifest, broken: set[str]) -> set[str]:
    """Files of which the records say that there are more pages than the sound segments hold."""
    try:
        state = StateFiles(folder, manifest.state).read()
        counts = count_pages(folder / entry.file for entry in manifest.segments if entry.file not in broken)
    except (VspladeError, OSError):
        return set()
    return {path for path, pages in recorded_pages(state).items() if pages > counts[path]}


def recorded_pages(state: State) -> dict[str, int]:
    """By path: how many pages of a file the job's record says are done."""
    found: dict[str, int] = {}
    for key, record in state.items():
        done = record.get("done") if isinstance(record, dict) else None
        if key.startswith(FILE_RECORDS) and isinstance(done, list):
            spans = [span for span in done if isinstance(span, list) and len(span) == 2]
            whole = [span for span in spans if all(type(number) is int for number in span)]
            found[key.removeprefix(FILE_RECORDS)] = sum(last - first + 1 for first, last in whole)  # type: ignore[operator, misc]
    return found


def count_pages(segments: Iterable[Path]) -> Counter[str]:
    """By ``path`` value: pages in the segments, deleted ones too."""
    counts: Counter[str] = Counter()
    for path in segments:
        column = Segment(path).column("path")
        if column is None:
            continue
        of_code = np.bincount(column.codes, minlength=len(column.values) + 1)[1:]
        for value, pages in zip(column.values, of_code.tolist(), strict=True):
            if isinstance(value, str):
                counts[value] += pages
    return counts
