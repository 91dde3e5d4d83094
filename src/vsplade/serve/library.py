"""The index as a server uses it: always at the newest commit, with what the page shows of it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from vsplade.encode.with_text import PairedEncoder
from vsplade.ingest import OWN_KEYS
from vsplade.pages import Limits
from vsplade.pages.viewer import PageViewer
from vsplade.search.contents import ListedDocument, documents_of
from vsplade.search.index import Index
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex
from vsplade.search.page_view import PageViews
from vsplade.serve.request_errors import RequestError, not_found
from vsplade.serve.settings import Settings
from vsplade.store import manifest
from vsplade.types import Json, MeaningEncoder, Metadata

THREADS = 4
VIEW_SECONDS = 20.0
"""For a page that somebody wants to look at, at most."""
FACET_VALUES = 50
"""Values of one metadata key that are offered for filtering."""
ASK_SECONDS = 1.0
"""Between two questions to an engine whether there is something new."""
HIDDEN = frozenset({"path", "hash"})
"""Metadata that only a server with ``show_paths`` tells."""

_COMPILE = (
    "import sys; from vsplade import Index; from vsplade.serve.library import warm; "
    "warm(Index.open(sys.argv[1], engine='numba'))"
)

Value = TypeVar("Value")


def warm(index: PageIndex) -> None:
    """Everything that a search needs is loaded and compiled: by words, and by meaning."""
    index.warm_up()
    index.search("warm up", 1)


class Library:
    """Everything here may be called from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.index = self._open()
        self._viewer = PageViewer(1, Limits(max_seconds=min(settings.limits.seconds, VIEW_SECONDS)))
        self.views = PageViews(self._viewer)
        self.ready = False
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="serve")
        self._working = 0
        self._refreshing = threading.Lock()
        self._seen = self._stamp()
        self._contents: tuple[object, dict[str, ListedDocument], list[dict[str, Any]]] | None = None
        self.trouble: str | None = None
        """Why it does not get ready, or cannot follow the index."""

    def _open(self) -> PageIndex:
        where = self._settings.where
        # A folder answers at once; the compiled engine takes over when it is ready.
        return Index.open(where, engine="numpy") if isinstance(where, Path) else open_index(where)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._viewer.close()
        self.index.close()

    def warm_up(self) -> None:
        """The encoder and the compiled search, before the first query needs them.

        On a machine that never searched before, the code is first compiled (up to a minute). A process of its
        own does that, one for all workers, because no thread here could run meanwhile.
        """
        self.index.encode_query("warm up")
        if isinstance(self.index, Index):
            self._compile(self.index.folder)
        else:
            warm(self.index)
        self.ready = True
        if self.index.identity.name.startswith(
            "reader"
        ):  # there may be scans, whose words are read to be marked
            self.views.warm_up()

    def _compile(self, folder: Path) -> None:
        with open(Path(self._settings.uploads) / ".jobs" / "warm.lock", "w") as lock:
            _lock(lock)
            subprocess.run([sys.executable, "-P", "-c", _COMPILE, str(folder)], env=_same_path(), check=True)
        compiled = Index.open(folder, self.index.encoder, engine="numba")
        warm(compiled)
        with self._refreshing:
            self.index = compiled
            self._seen = ()

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
        """Changes with every commit of a folder: a manifest is replaced whole. Of an engine it is the time:
        it must be asked, which is not done as often.
        """
        where = self._settings.where
        if not isinstance(where, Path):
            return (int(time.monotonic() / ASK_SECONDS),)
        try:
            state = os.stat(where / manifest.NAME)
        except OSError:
            return ()
        # A damaged file may be put back, which changes no manifest: it is asked for now and then.
        again = (int(time.monotonic() / ASK_SECONDS),) if self.index.damage else ()
        return state.st_mtime_ns, state.st_ino, state.st_size, *again

    def refresh(self, always: bool = False) -> None:
        """Move to the newest commit, if there is one."""
        with self._refreshing:
            stamp = self._stamp()
            if always or stamp != self._seen:
                if self.index.refresh() and self.ready:
                    warm(self.index)
                self._seen = stamp

    @property
    def damage(self) -> dict[str, Any] | None:
        """What of the index is out of reach, as a server may tell it."""
        found = self.index.damage
        return None if found is None else found.brief(self._settings.show_paths)

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
        return isinstance(encoder, MeaningEncoder) and encoder.has_meaning

    @property
    def inline_pages(self) -> int:
        """Pages that a search in this very process goes through; 0 where an engine elsewhere does that."""
        return self.index.pages if isinstance(self.index, Index) else 0

    @property
    def bytes(self) -> int | None:
        """On disk; an engine keeps that to itself."""
        known = self.index.statistics().get("bytes")
        return None if known is None else int(known)

    def contents(self) -> tuple[dict[str, ListedDocument], list[dict[str, Any]]]:
        """The documents by name, in the order that they were added, and what pages can be filtered by."""
        index = self.index
        commit = index.commit
        if self._contents is None or self._contents[0] is not commit:
            found = index.contents(key for key in index.metadata_keys() if key not in OWN_KEYS)
            facets = [facet(key, counts) for key, counts in found.values.items()]
            self._contents = (commit, found.documents, facets)
        return self._contents[1:]

    def document(self, doc_id: str) -> ListedDocument:
        found = self.contents()[0].get(doc_id)
        if found is None:  # an engine may have too many to be listed
            ids = list(self.index.ids({"doc_id": doc_id}))
            found = documents_of(self.index.known(ids).items()).get(doc_id)
        if found is None:
            raise not_found(f"There is no document {doc_id!r}.")
        return found


def facet(key: str, counts: Counter[Json]) -> dict[str, Any]:
    """What pages can be filtered by, as the page offers it."""
    best = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:FACET_VALUES]
    return {
        "key": key,
        "values": [{"value": value, "pages": count} for value, count in best],
        "more": max(0, len(counts) - len(best)),
    }


def _same_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(entry) for entry in sys.path)}


def _lock(stream: IO[str]) -> None:
    """Until it is closed; where the system has no such locks, the work is done once for each worker."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX)
