"""A Haystack component: ``VspladeRetriever("my.vsplade").run(query="...")["documents"]``."""

from __future__ import annotations

from typing import Any

from vsplade.errors import MissingExtraError

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError as error:
    raise MissingExtraError("The Haystack retriever", "haystack") from error

from vsplade.integrations.hit_content import page_metadata, page_text
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex
from vsplade.search.summary import summarise


@component
class VspladeRetriever:
    """Pages of a vsplade index as documents: their content is the snippet or the page's reading."""

    def __init__(
        self,
        index_dir: str,
        top_k: int = 10,
        filter: dict[str, Any] | list[str] | str | None = None,
        whole_page: bool = False,
        images: bool = False,
        words_only: bool = False,
    ) -> None:
        self.index_dir, self.top_k, self.filter = index_dir, top_k, filter
        self.whole_page, self.images, self.words_only = whole_page, images, words_only
        self._index: PageIndex | None = None

    @component.output_types(documents=list[Document], words=dict[str, str], notes=list[str], message=str)
    def run(
        self, query: str, top_k: int | None = None, filter: dict[str, Any] | list[str] | str | None = None
    ) -> dict[str, Any]:
        """Beside the documents: ``words`` (which of the query's any page holds), ``notes`` on what was not
        understood, and a ``message`` where words or pages are missing.
        """
        if self._index is None:
            self._index = open_index(self.index_dir)
        self._index.refresh()
        wanted = filter or self.filter
        hits = self._index.search(query, top_k or self.top_k, wanted, words_only=self.words_only)
        said = summarise(self._index, query, hits, wanted, self.words_only)
        return {
            "words": {word.word: word.status for word in said.words},
            "notes": list(said.notes),
            "message": said.message,
            "documents": [
                Document(
                    id=hit.id,
                    content=page_text(hit, self.whole_page),
                    meta=page_metadata(hit, self.images),
                    score=hit.score,
                )
                for hit in hits
            ],
        }

    def to_dict(self) -> dict[str, Any]:
        """For pipelines that are written to YAML."""
        return default_to_dict(
            self,
            index_dir=self.index_dir,
            top_k=self.top_k,
            filter=self.filter,
            whole_page=self.whole_page,
            images=self.images,
            words_only=self.words_only,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> VspladeRetriever:
        made: VspladeRetriever = default_from_dict(cls, data)
        return made
