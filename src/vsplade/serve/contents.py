"""What an index holds, as the page lists it: documents, and values to filter by."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsplade.ingest import OWN_KEYS
from vsplade.search.collection_index import CollectionIndex
from vsplade.search.index import Index
from vsplade.search.page_index import PageIndex
from vsplade.store.snapshot import Snapshot
from vsplade.types import Json, Metadata

FACET_VALUES = 50
"""Values of one metadata key that are offered for filtering."""
LISTED_PAGES = 100_000
"""An engine has no list of documents: so many of its pages are looked through for one."""


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
    facets: list[dict[str, Any]]
    """What pages can be filtered by: the users' own keys, with their most frequent values."""


def contents(index: PageIndex) -> Contents:
    keys = [key for key in index.metadata_keys() if key not in OWN_KEYS]
    if isinstance(index, CollectionIndex):
        pages = index.listed(LISTED_PAGES)
        facets = [_facet(key, _counted(metadata.get(key) for _, metadata in pages)) for key in keys]
        return Contents(documents_of(pages), facets)
    assert isinstance(index, Index)
    snapshot = index.commit
    return Contents(_documents(snapshot), [_facet(key, _column_counts(snapshot, key)) for key in keys])


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


def _facet(key: str, counts: Counter[Json]) -> dict[str, Any]:
    best = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:FACET_VALUES]
    return {
        "key": key,
        "values": [{"value": value, "pages": count} for value, count in best],
        "more": max(0, len(counts) - len(best)),
    }


def _each(value: Any) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else [value]
