"""A LlamaIndex retriever: ``VspladeRetriever("my.vsplade").retrieve("...")``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from vsplade.errors import MissingExtraError

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError as error:
    raise MissingExtraError("The LlamaIndex retriever", "llama-index") from error

from vsplade.integrations.hit_content import page_metadata, page_text
from vsplade.search.open_index import open_index


class VspladeRetriever(BaseRetriever):
    """Pages of a vsplade index as nodes: their text is the snippet or the page's reading."""

    def __init__(
        self,
        index_dir: str | Path,
        k: int = 10,
        filter: Mapping[str, object] | str | Iterable[str] | None = None,
        *,
        whole_page: bool = False,
        images: bool = False,
        words_only: bool = False,
    ) -> None:
        self._index = open_index(index_dir)
        self._words_only = words_only
        self._k, self._filter, self._whole_page, self._images = k, filter, whole_page, images
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self._index.refresh()
        hits = self._index.search(query_bundle.query_str, self._k, self._filter, words_only=self._words_only)
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.id,
                    text=page_text(hit, self._whole_page),
                    metadata=page_metadata(hit, self._images),
                    # A picture is for the program, not for a prompt.
                    excluded_llm_metadata_keys=["image", "hash"],
                    excluded_embed_metadata_keys=["image", "hash"],
                ),
                score=hit.score,
            )
            for hit in hits
        ]
