"""The index as its users see it: open, search, look pages up. Reads one commit; ``refresh`` moves on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vsplade.encode import as_built
from vsplade.errors import IndexFormatError, InputError, VspladeWarning
from vsplade.search.adaptive_engine import WorkBudget, checked_engine
from vsplade.search.commit_view import CommitView
from vsplade.search.conditions import Conditions
from vsplade.search.contents import Contents, contents_of_snapshot
from vsplade.search.filters import Filter
from vsplade.search.hits import FoundPages
from vsplade.search.page_index import NO_CONDITIONS, BatchRequest, FilterLike, PageIndex, Query
from vsplade.search.query_plan import WORDS_ALONE, Mix, Ranking
from vsplade.search.word_lookup import status
from vsplade.store import verify
from vsplade.store.damage import Damage
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.segment import StoredPage
from vsplade.store.several import load_commit
from vsplade.store.snapshot import Snapshot
from vsplade.types import Encoder, Metadata, SparseVector, WordMatch

if TYPE_CHECKING:
    from PIL import Image

Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One index, or several that are read as one."""


class Index(PageIndex):
    """Many readers may have an index open while one writer changes it; each sees the commit it opened.

    Safe to use from several threads. ``engine``: "auto" (numpy first, compiled code when it pays), "numpy" or
    "numba".
    """

    def __init__(
        self, folder: Folders, encoder: Encoder | None = None, *, engine: str = "auto", whole: bool = False
    ) -> None:
        super().__init__(encoder)
        self._whole = whole
        several = [folder] if isinstance(folder, str | os.PathLike) else folder
        self.folders = tuple(map(Path, several))
        self.where = " + ".join(map(str, self.folders))
        self._choice = checked_engine(engine)
        self._budget = WorkBudget()
        self._use(load_commit(self.folders, reduced=not whole))

    @classmethod
    def open(
        cls, folder: Folders, encoder: Encoder | None = None, *, engine: str = "auto", whole: bool = False
    ) -> Index:
        """Open the newest commit. Without ``encoder`` the one that the index names is loaded when needed.

        A list of folders opens several indexes as one, with the results of the one that ``vsplade merge``
        would make of them. They must be of one encoder, and no id may be in two of them.

        Segments that are damaged are left out, with a VspladeWarning, and ``damage`` tells of them.
        ``whole``: they are an error instead.
        """
        return cls(folder, encoder, engine=engine, whole=whole)

    @property
    def places(self) -> Sequence[Path | str]:
        return self.folders

    @property
    def folder(self) -> Path:
        if len(self.folders) > 1:
            raise InputError(f"{self.where}: these are several indexes. Open one of them to change it.")
        return self.folders[0]

    def _use(self, snapshot: Snapshot) -> None:
        if snapshot.damage is not None:
            if not snapshot.segments:
                raise IndexFormatError(
                    f"{self.where}: no part of this index is sound. {snapshot.damage.message}"
                )
            warnings.warn(f"{self.where}: {snapshot.damage.message}", VspladeWarning, stacklevel=4)
        if self._encoder is not None:
            stored = EncoderIdentity.named_by(snapshot.manifest)
            self._encoder = as_built(self._encoder, stored.fingerprint)
            check_encoder(self.where, stored, EncoderIdentity.of(self._encoder))
        self._view = CommitView(snapshot, self._choice, self._budget)

    def refresh(self) -> bool:
        """Move to the newest commit; says whether there was one."""
        snapshot = load_commit(self.folders, self._view.snapshot, reduced=not self._whole)
        changed = not snapshot.shows_same_as(self._view.snapshot)
        if changed:
            self._use(snapshot)
        return changed

    # -- what the index is ----------------------------------------------------------------------------

    @property
    def pages(self) -> int:
        return self._view.snapshot.pages

    @property
    def generation(self) -> int:
        """Number of the commit that is being read."""
        return self._view.snapshot.manifest.generation

    @property
    def commit(self) -> Snapshot:
        """The commit that is being read; another object after every ``refresh`` that found a new one."""
        return self._view.snapshot

    @property
    def damage(self) -> Damage | None:
        return self._view.snapshot.damage

    @property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity.named_by(self._view.snapshot.manifest)

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Number of live pages that have each term; 0 for terms beyond the vocabulary."""
        frequencies = self._view.snapshot.frequencies
        known = np.asarray(terms, dtype=np.int64)
        inside = known < len(frequencies)
        return np.where(inside, frequencies[np.where(inside, known, 0)], 0)

    def statistics(self) -> dict[str, int | float]:
        """Sizes, for people and reports: pages, postings, bytes on disk and bytes a posting to search."""
        return verify.statistics(self._view.snapshot)

    def state(self, prefix: str = "") -> dict[str, JsonValue]:
        """What a job kept with ``IndexWriter.set_state``, as of this commit."""
        stored = self._view.snapshot.state.read()
        return {key: value for key, value in stored.items() if key.startswith(prefix)}

    def check(self) -> list[str]:
        """Read every byte and verify it; the problems found, none for a sound index.

        Segments in which there are any are searched no more.
        """
        problems = [problem for folder in self.folders for problem in verify.check(folder)]
        if problems and not self._whole:
            self._leave_out_damaged()
        return problems

    def _leave_out_damaged(self) -> bool:
        """A large segment is not read whole when it is opened: do that now. Whether one was left out."""
        view = self._view
        problems = verify.damaged_segments(view.snapshot)
        view.read_whole = True
        if problems:
            self._use(view.snapshot.without(problems))
        return bool(problems)

    # -- pages ----------------------------------------------------------------------------------------

    def ids(self, filter: FilterLike = None) -> Iterator[str]:
        """Ids of the live pages that pass ``filter``, in page order."""
        view = self._view
        for live, mask in zip(view.snapshot.segments, view.masks(Filter.of(filter)), strict=True):
            pages = range(live.segment.pages) if mask is None else np.flatnonzero(mask).tolist()
            for page in pages:
                yield live.segment.id(page)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(self._view.snapshot.find([id]))

    def _number(self, id: str) -> int:
        found = self._view.snapshot.find([id])
        if id not in found:
            damage = f" {self.damage.summary}" if self.damage else ""
            raise InputError(f"{self.where}: there is no page {id!r} in this index.{damage}")
        return found[id]

    def metadata(self, id: str) -> Metadata:
        return self._view.snapshot.metadata(self._number(id))

    def metadata_keys(self) -> list[str]:
        """What pages can be filtered by, in alphabetical order."""
        segments = (live.segment for live in self._view.snapshot.segments)
        return sorted({key for segment in segments for key in segment.column_keys})

    def contents(self, keys: Iterable[str]) -> Contents:
        return contents_of_snapshot(self.commit, keys)

    def vector(self, id: str) -> SparseVector:
        return self._view.snapshot.vector(self._number(id))

    def thumbnail(self, id: str) -> bytes | None:
        segment, page = self._view.snapshot.locate(self._number(id))
        return segment.thumbnail(page) or None

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        """Without reading the metadata."""
        return (
            (segment.id(page), segment.vector(page)) for segment, page in self._view.snapshot.live_pages()
        )

    def stored_pages(self) -> Iterator[StoredPage]:
        return (segment.stored(page) for segment, page in self._view.snapshot.live_pages())

    def known(self, ids: Sequence[str]) -> dict[str, Metadata]:
        found = self._view.snapshot.find(ids)
        return {id: self._view.snapshot.metadata(number) for id, number in found.items()}

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        """Every live page's id, vector and metadata, in page order."""
        for segment, page in self._view.snapshot.live_pages():
            yield segment.id(page), segment.vector(page), segment.metadata(page)

    def add(
        self,
        source: Image.Image | bytes | str | os.PathLike[str],
        id: str | None = None,
        metadata: Metadata | None = None,
    ) -> list[str]:
        """Add a picture, the bytes of a PDF or picture, or a file, in one commit; returns its pages' ids.

        A page of the same id is replaced. A path needs no ``id``: its stem is one. For many files
        ``index_paths`` is quicker, skips what has not changed, and follows changes.
        """
        from vsplade.ingest.single import add_pages  # it loads the renderer, which no search needs

        if id is None:
            if not isinstance(source, str | os.PathLike):
                raise InputError("A picture or bytes need an id: index.add(picture, id=...).")
            id = Path(source).stem
        added = add_pages(self.folder, self.encoder, source, id, metadata)
        self.refresh()
        return added

    # -- search ---------------------------------------------------------------------------------------

    def _find(self, request: BatchRequest) -> list[tuple[FoundPages, SparseVector, Ranking]]:
        """Where damage shows only now, the search is made again, without the damaged segments."""
        view = self._view
        try:
            return self._find_in(view, request)
        except IndexFormatError:
            if self._whole or view.read_whole or not self._leave_out_damaged():
                raise
            return self._find_in(self._view, request)

    def _find_in(
        self, view: CommitView, request: BatchRequest
    ) -> list[tuple[FoundPages, SparseVector, Ranking]]:
        """Queries without conditions together, on all threads; the others one by one."""
        queries, wanted = request.queries, request.conditions
        answer = partial(view.answer, name_terms=lambda: self.name_terms)
        how = (request.encode, request.k, request.filter, request.threads)
        if not any(wanted):
            answers = answer(queries, *how)
        else:
            asked = list(zip(queries, wanted, strict=True))
            together = iter(answer([query for query, conditions in asked if not conditions], *how))
            answers = [
                answer([query], *how, conditions)[0] if conditions else next(together)
                for query, conditions in asked
            ]
        return [(view.snapshot, vector, ranking) for vector, ranking in answers]

    def rank(
        self, vectors: Sequence[SparseVector], k: int = 10, filter: FilterLike = None, threads: int = 1
    ) -> list[Ranking]:
        """Bare page numbers and scores, for those who need no more; ``page_ids`` names the pages."""
        request = BatchRequest(
            vectors, [NO_CONDITIONS] * len(vectors), self.encode_query, k, Filter.of(filter), threads
        )
        return [ranking for _, _, ranking in self._find_in(self._view, request)]

    def page_ids(self, ranking: Ranking) -> list[str]:
        """Ids of a ranking made since the last ``refresh``."""
        return ranking.ids(self._view.snapshot)

    def warm_up(self) -> None:
        """Compile the fast engine now (a server's start), instead of after the first few queries."""
        self._view.engine.warm_up()

    def look_up(self, query: Query, filter: FilterLike = None) -> list[WordMatch]:
        """Each word of a query, and whether any page that passes ``filter`` holds it: as a whole (``found``),
        only pieces of it (``in part``), or nothing (``not found``).
        """
        view, masks = self._view, self._view.masks(Filter.of(filter))
        parts = list(zip((live.segment for live in view.snapshot.segments), masks, strict=True))
        return [WordMatch(word.typed, status(parts, word)) for word in self.query_words(query)]

    def _mix(self, query: SparseVector, filter: Filter, conditions: Conditions) -> Mix:
        if query.meaning is None:
            return WORDS_ALONE
        request = BatchRequest([query], [conditions], self.encode_query, 1, filter, 1)
        return self._find_in(self._view, request)[0][2].mix
