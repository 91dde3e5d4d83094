"""A LangChain retriever: ``VspladeRetriever(index_dir="my.vsplade").invoke("...")``."""

from __future__ import annotations

from typing import Any

from vsplade.errors import MissingExtraError

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import PrivateAttr
except ModuleNotFoundError as error:
    raise MissingExtraError("The LangChain retriever", "langchain") from error

from vsplade.integrations.hit_content import page_metadata, page_text
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex


class VspladeRetriever(BaseRetriever):
    """Pages of a vsplade index as documents: their text is the snippet or the page's reading."""

    index_dir: str
    k: int = 10
    filter: dict[str, Any] | list[str] | str | None = None
    whole_page: bool = False
    """The page's whole reading instead of the words around the best place."""
    images: bool = False
    """Put each page's picture into the metadata, as base64 PNG."""
    words_only: bool = False
    """Find pages by their words alone, and not by what they are about."""
    _index: PageIndex | None = PrivateAttr(default=None)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self._index is None:
            self._index = open_index(self.index_dir)
        self._index.refresh()
        return [
            Document(
                id=hit.id,
                page_content=page_text(hit, self.whole_page),
                metadata=page_metadata(hit, self.images),
            )
            for hit in self._index.search(query, self.k, self.filter, words_only=self.words_only)
        ]
