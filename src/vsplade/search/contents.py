"""The documents of an index and the values of its pages' metadata, counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsplade.store.snapshot import Snapshot
from vsplade.types import Json, Metadata


@dataclass(frozen=True, slots=True)
class ListedDocument:
    doc_id: str
    name: str
    """The file's name, for people."""
    pages: int
    path: str | None


@dataclass(frozen=True, slots=True)
class Contents:
    documents: dict[str, ListedDocument]
    """By name, in the order that they were added."""
    values: dict[str, Counter[Json]]
    """By metadata key: in how many pages each value stands."""


def contents_of_pages(pages: Sequence[tuple[str, Metadata]], keys: Iterable[str]) -> Contents:
    values = {key: _counted(metadata.get(key) for _, metadata in pages) for key in keys}
    return Contents(documents_of(pages), values)


def contents_of_snapshot(snapshot: Snapshot, keys: Iterable[str]) -> Contents:
    """The same from the columns of the segments, which are looked at once a value and not once a page."""
    return Contents(_documents(snapshot), {key: _column_counts(snapshot, key) for key in keys})


def documents_of(pages: Iterable[tuple[str, Metadata]]) -> dict[str, ListedDocument]:
    found: dict[str, ListedDocument] = {}
    for id, metadata in pages:
        path = metadata.get("path")
        doc_id = str(metadata.get("doc_id") or path or id)
        before = found.get(doc_id)
        if before is None:
            path = path if isinstance(path, str) else None
            found[doc_id] = ListedDocument(doc_id, os.path.basename(path) if path else doc_id, 1, path)
        else:
            found[doc_id] = replace(before, pages=before.pages + 1)
    return found


def _documents(snapshot: Snapshot) -> dict[str, ListedDocument]:
    found: dict[str, ListedDocument] = {}
    for live in snapshot.segments:
        segment = live.segment
        pages = np.arange(segment.pages) if live.live is None else np.flatnonzero(live.live)
        column, paths = segment.column("doc_id"), segment.column("path")
        codes = np.zeros(segment.pages, np.int64) if column is None else np.asarray(column.codes, np.int64)
        for code, first, count in zip(
            *np.unique(codes[pages], return_index=True, return_counts=True), strict=True
        ):
            members = pages[codes[pages] == code] if not code else pages[first : first + 1]
            for page in members.tolist():
                path_code = int(paths.codes[page]) if paths is not None else 0
                path = str(paths.values[path_code - 1]) if paths is not None and path_code else None
                doc_id = (
                    str(column.values[int(code) - 1])
                    if column is not None and code
                    else path or segment.id(page)
                )
                before = found.get(doc_id)
                number = int(count) if code else 1
                found[doc_id] = ListedDocument(
                    doc_id,
                    os.path.basename(path) if path else doc_id,
                    number + (before.pages if before else 0),
                    path,
                )
    return found


def _column_counts(snapshot: Snapshot, key: str) -> Counter[Json]:
    counts: Counter[Json] = Counter()
    for live in snapshot.segments:
        column = live.segment.column(key)
        if column is None:
            continue
        codes = np.asarray(column.codes) if live.live is None else np.asarray(column.codes)[live.live]
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            if code:
                for value in _each(column.values[int(code) - 1]):
                    counts[value] += int(count)
    return counts


def _counted(values: Iterable[Any]) -> Counter[Json]:
    return Counter(each for value in values if value is not None for each in _each(value))


def _each(value: Any) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else [value]
