"""The index as its users see it: open, search, look pages up. Reads one commit; ``refresh`` moves on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vsplade.errors import InputError
from vsplade.search.filters import Filter
from vsplade.search.hits import FoundPages
from vsplade.search.index_contents import Folders, IndexContents
from vsplade.search.page_index import BatchRequest, FilterLike, Query
from vsplade.search.query_plan import Ranking
from vsplade.search.word_lookup import status
from vsplade.types import Encoder, Metadata, SparseVector, WordMatch

if TYPE_CHECKING:
    from PIL import Image


class Index(IndexContents):
    """Many readers may have an index open while one writer changes it; each sees the commit it opened.

    Safe to use from several threads. ``engine``: "auto" (numpy first, compiled code when it pays), "numpy" or
    "numba".
    """

    @classmethod
    def open(cls, folder: Folders, encoder: Encoder | None = None, *, engine: str = "auto") -> Index:
        """Open the newest commit. Without ``encoder`` the one that the index names is loaded when needed.

        A list of folders opens several indexes as one, with the results of the one that ``vsplade merge``
        would make of them. They must be of one encoder, and no id may be in two of them.
        """
        return cls(folder, encoder, engine=engine)

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
        """Queries without conditions together, on all threads; the others one by one."""
        view, queries, wanted = self._view, request.queries, request.conditions
        how = (request.encode, request.k, request.filter, request.threads)
        if not any(wanted):
            answers = view.answer(queries, *how)
        else:
            asked = list(zip(queries, wanted, strict=True))
            together = iter(view.answer([query for query, conditions in asked if not conditions], *how))
            answers = [
                view.answer([query], *how, conditions)[0] if conditions else next(together)
                for query, conditions in asked
            ]
        return [(view.snapshot, vector, ranking) for vector, ranking in answers]

    def rank(
        self, vectors: Sequence[SparseVector], k: int = 10, filter: FilterLike = None, threads: int = 1
    ) -> list[Ranking]:
        """Bare page numbers and scores, for those who need no more; ``page_ids`` names the pages."""
        answers = self._view.answer(vectors, self.encode_query, k, Filter.of(filter), threads)
        return [ranking for _, ranking in answers]

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

    def _meaning_weight(self, query: SparseVector) -> float:
        if query.meaning is None:
            return 0.0
        return self._view.answer([query], self.encode_query, 1, Filter(), 1)[0][1].meaning
