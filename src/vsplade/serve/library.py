"""The index as a server uses it: always at the newest commit, with what the page shows of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from vsplade.encode.with_text import PairedEncoder
from vsplade.ingest import OWN_KEYS
from vsplade.pages import Limits
from vsplade.pages.viewer import PageViewer
from vsplade.search.index import Index
from vsplade.search.page_view import Sight
from vsplade.serve.request_errors import RequestError, not_found
from vsplade.serve.settings import Settings
from vsplade.store import manifest
from vsplade.types import Json, MeaningEncoder, Metadata

THREADS = 4
FACET_VALUES = 50
"""Values of one metadata key that are offered for filtering."""
HIDDEN = frozenset({"path", "hash"})
"""Metadata that only a server with ``show_paths`` tells."""

_COMPILE = (
    "import sys; from vsplade import Index; from vsplade.serve.library import warm; "
    "warm(Index.open(sys.argv[1], engine='numba'))"
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ListedDocument:
    doc_id: str
    name: str
    """The file's name, for people."""
    pages: int
    path: str | None


def warm(index: Index) -> None:
    """Everything that a search needs is loaded and compiled: by words, and by meaning."""
    index.warm_up()
    index.search("warm up", 1)


class Library:
    """Everything here may be called from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Answers at once; the compiled engine takes over when it is ready.
        self.index = Index.open(settings.index_dir, engine="numpy")
        self.folder = Path(settings.index_dir)
        asked = settings.limits
        limits = Limits(max_pages=asked.pages, max_pixels=asked.pixels, max_seconds=min(asked.seconds, 20.0))
        self._viewer = PageViewer(1, limits)
        self.sight = Sight(self._viewer)
        self.ready = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="serve")
        self._working = 0
        self._refreshing = threading.Lock()
        self._seen = self._stamp()
        self._documents: tuple[int, dict[str, ListedDocument]] | None = None
        self._facets: tuple[int, list[dict[str, Any]]] | None = None

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._viewer.close()

    def warm_up(self) -> None:
        """The encoder and the compiled search, before the first query needs them.

        On a machine that never searched before, the code is first compiled (up to a minute). A process of its
        own does that, one for all workers, because no thread here could run meanwhile.
        """
        self.index.encode_query("warm up")
        with open(Path(self._settings.uploads) / ".jobs" / "warm.lock", "w") as lock:
            _lock(lock)
            subprocess.run(
                [sys.executable, "-P", "-c", _COMPILE, str(self.folder)], env=_same_path(), check=True
            )
        compiled = Index.open(self.folder, self.index.encoder, engine="numba")
        warm(compiled)
        with self._refreshing:
            self.index = compiled
            self._seen = ()
        self.ready = True

    async def run(self, work: Callable[[], Value]) -> Value:
        """In a thread; when too many wait already, the caller is sent away instead."""
        if self._working >= self._settings.limits.waiting:
            raise RequestError(503, "overloaded", "Too many requests are waiting. Try again in a moment.", 1)
        self._working += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._working -= 1

    # -- following the index ----------------------------------------------------------------------------

    def _stamp(self) -> tuple[int, ...]:
        """Changes with every commit: a manifest is replaced whole."""
        try:
            state = os.stat(self.folder / manifest.NAME)
        except OSError:
            return ()
        return state.st_mtime_ns, state.st_ino, state.st_size

    def refresh(self, always: bool = False) -> None:
        """Move to the newest commit, if there is one."""
        with self._refreshing:
            stamp = self._stamp()
            if always or stamp != self._seen:
                if self.index.refresh() and self.ready:
                    warm(self.index)
                self._seen = stamp

    # -- what is in it ----------------------------------------------------------------------------------

    def metadata(self, page_id: str) -> Metadata:
        if page_id not in self.index:
            raise not_found(f"There is no page {page_id!r}.")
        return self.index.metadata(page_id)

    def shown(self, metadata: Metadata) -> dict[str, Json]:
        if self._settings.show_paths:
            return dict(metadata)
        return {key: value for key, value in metadata.items() if key not in HIDDEN}

    @property
    def fusable(self) -> bool:
        return isinstance(self.index.encoder, PairedEncoder)

    @property
    def by_meaning(self) -> bool:
        """Whether pages are also found by what they are about."""
        encoder = self.index.encoder
        return isinstance(encoder, MeaningEncoder) and encoder.encode_meaning("meaning") is not None

    def documents(self) -> dict[str, ListedDocument]:
        """By name, in the order that they were added."""
        view = self.index.commit
        generation = view.manifest.generation
        if self._documents is None or self._documents[0] != generation:
            self._documents = (generation, _documents(view))
        return self._documents[1]

    def facets(self) -> list[dict[str, Any]]:
        """What pages can be filtered by: the users' own keys, with their most frequent values."""
        view = self.index.commit
        generation = view.manifest.generation
        if self._facets is None or self._facets[0] != generation:
            keys = [key for key in self.index.metadata_keys() if key not in OWN_KEYS]
            self._facets = (generation, [_facet(view, key) for key in keys])
        return self._facets[1]


def _same_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path)}


def _lock(stream: IO[str]) -> None:
    """Until it is closed; where the system has no such locks, the work is done once for each worker."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX)


def _documents(snapshot: Any) -> dict[str, ListedDocument]:
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
                doc_id = str(column.values[int(code) - 1]) if code else path or segment.id(page)
                before = found.get(doc_id)
                number = int(count) if code else 1
                found[doc_id] = ListedDocument(
                    doc_id,
                    os.path.basename(path) if path else doc_id,
                    number + (before.pages if before else 0),
                    path,
                )
    return found


def _facet(snapshot: Any, key: str) -> dict[str, Any]:
    counts: dict[Json, int] = {}
    for live in snapshot.segments:
        column = live.segment.column(key)
        if column is None:
            continue
        codes = np.asarray(column.codes) if live.live is None else np.asarray(column.codes)[live.live]
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            if code:
                for value in _each(column.values[int(code) - 1]):
                    counts[value] = counts.get(value, 0) + int(count)
    best = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:FACET_VALUES]
    return {
        "key": key,
        "values": [{"value": value, "pages": count} for value, count in best],
        "more": max(0, len(counts) - len(best)),
    }


def _each(value: Any) -> list[Json]:
    return list(value) if isinstance(value, list | tuple) else [value]
