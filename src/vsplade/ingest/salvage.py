"""What the segments of a broken index still say: whose they are, which of their pages count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vsplade.ingest.records import CHANGED, FileRecord
from vsplade.store import file_names
from vsplade.store.segment import Segment


@dataclass(slots=True)
class FoundSegment:
    """A segment that verifies."""

    segment: Segment
    deleted: NDArray[np.bool_]

    @property
    def name(self) -> str:
        return self.segment.container.path.name


def encoder_of(segment: Segment) -> tuple[str | None, str | None, int]:
    header = segment.container.header
    texts = [
        header.get(key) if isinstance(header.get(key), str) else None for key in ("encoder", "fingerprint")
    ]
    return texts[0], texts[1], segment.vocabulary


def decide_live(found: list[FoundSegment], records: dict[str, FileRecord]) -> None:
    """Without the manifest a page may be there twice. What the records contradict is of before; of the rest
    the newest counts (a segment's number tells: when it was written, all its pages were live)."""
    seen: set[str] = set()
    for one in sorted(found, key=lambda one: file_names.parse_name(one.name) or ("", 0), reverse=True):
        for page in np.flatnonzero(~one.deleted).tolist():
            metadata = one.segment.metadata(page)
            path, digest = metadata.get("path"), metadata.get("hash")
            record = records.get(path) if isinstance(path, str) and isinstance(digest, str) else None
            stale = record is not None and (
                record.hash not in (CHANGED, digest) or metadata.get("page_num") not in record.done
            )
            id = one.segment.id(page)
            one.deleted[page] = stale or id in seen
            if not stale:
                seen.add(id)


def pages_present(found: list[FoundSegment]) -> dict[tuple[str, str], set[int]]:
    """By path and hash: the numbers of the pages that the segments hold, deleted ones too: these were removed
    on purpose, and stay away."""
    present: dict[tuple[str, str], set[int]] = {}
    for one in found:
        for page in range(one.segment.pages):
            metadata = one.segment.metadata(page)
            path, digest, number = (metadata.get(key) for key in ("path", "hash", "page_num"))
            if isinstance(path, str) and isinstance(digest, str) and isinstance(number, int):
                present.setdefault((path, digest), set()).add(number)
    return present


def source_files(found: list[FoundSegment]) -> list[str]:
    """The files of all live pages."""
    paths: set[str] = set()
    for one in found:
        column = one.segment.column("path")
        if column is not None:
            live = np.unique(column.codes[~one.deleted])
            values = (column.values[code - 1] for code in live.tolist() if code)
            paths.update(value for value in values if isinstance(value, str))
    return sorted(paths)
