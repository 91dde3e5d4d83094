"""Order the best hits anew with a late-interaction model: every query vector looks for its best page vector.

Such a model reads each page again and keeps hundreds of vectors of it, far too much to search a corpus with,
but fine for the first hundred hits. It can only reorder: a page that the first stage missed stays missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError, MissingExtraError, PageError
from vsplade.search.hits import Hit

if TYPE_CHECKING:
    from PIL import Image

Vectors = NDArray[np.float32]
"""One row a token."""
LONGEST_EDGE = 2048
"""Pages are given to the model's own processor at this size; it cuts them into tiles."""


class ColModernVbert:
    """Any checkpoint that ``ColModernVBertForRetrieval`` loads: a folder, or a name on the hub."""

    def __init__(self, model: str, batch: int = 4, device: str = "cpu") -> None:
        try:
            import torch
            from transformers import ColModernVBertForRetrieval, ColModernVBertProcessor
        except ImportError as error:
            raise MissingExtraError("Reranking with ColModernVBERT", "hf") from error
        if batch < 1:
            raise InputError(f"A batch holds at least 1 page, not {batch}.")
        try:
            self._processor: Any = ColModernVBertProcessor.from_pretrained(model)
            self._model: Any = ColModernVBertForRetrieval.from_pretrained(model)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{model} could not be loaded as a ColModernVBERT model: {str(error).splitlines()[0]}"
            ) from error
        self._model.eval().to(device)
        self._torch, self._batch, self._device = torch, batch, device

    def embed_query(self, text: str) -> Vectors:
        if not text.strip():
            raise InputError("The query is empty.")
        return self._embed(self._processor.process_queries(text=[text]))[0]

    def embed_pages(self, images: Iterable[Image.Image]) -> Iterator[Vectors]:
        """In order, ``batch`` pages at a time."""
        waiting: list[Image.Image] = []
        for image in images:
            waiting.append(image.convert("RGB"))
            if len(waiting) == self._batch:
                yield from self._embed(self._processor.process_images(images=waiting))
                waiting = []
        if waiting:
            yield from self._embed(self._processor.process_images(images=waiting))

    def _embed(self, inputs: Any) -> list[Vectors]:
        with self._torch.inference_mode():
            rows = self._model(**inputs.to(self._device)).embeddings.float().cpu().numpy()
        mask = inputs["attention_mask"].bool().cpu().numpy()
        return [np.ascontiguousarray(row[keep]) for row, keep in zip(rows, mask, strict=True)]


def max_sim(query: Vectors, page: Vectors) -> float:
    """The sum over the query's rows of the largest dot product with a row of the page."""
    if query.ndim != 2 or page.ndim != 2 or query.shape[1] != page.shape[1]:
        raise InputError(f"Query vectors {query.shape} and page vectors {page.shape} do not fit together.")
    if not len(query) or not len(page):
        return 0.0
    return float((query @ page.T).max(axis=1).sum())


def rerank_hits(
    query: str,
    hits: Sequence[Hit],
    model: ColModernVbert,
    pictures: Callable[[Sequence[Hit]], Iterable[Image.Image]],
) -> list[Hit]:
    """Hits with the model's scores, best first; ``pictures`` gives the page of every hit, in order."""
    asked = model.embed_query(query)
    scores = [max_sim(asked, page) for page in model.embed_pages(pictures(hits))]
    if len(scores) != len(hits):
        raise InputError(f"The model gave vectors of {len(scores)} pages for {len(hits)}.")
    order = sorted(range(len(hits)), key=lambda place: -scores[place])
    return [replace(hits[place], score=scores[place]) for place in order]


def render_hits(hits: Sequence[Hit], longest_edge: int) -> Iterator[Image.Image]:
    """The pages of hits from the files they were indexed from; a file that has gone is an error."""
    from vsplade.pages import FileProblem, SourceFile, render

    for hit in hits:
        path, pages = hit.metadata.get("path"), hit.metadata.get("pages")
        if not isinstance(path, str) or not isinstance(pages, int):
            raise PageError(
                f"Page {hit.id!r} does not know its file, so it cannot be read again to rerank it."
            )
        others = frozenset(number for number in range(1, pages + 1) if number != hit.page_num)
        for result in render([SourceFile(path, hit.doc_id, others)], longest_edge, workers=1):
            if isinstance(result, FileProblem):
                raise PageError(f"{path}: {result.reason} The page is needed again to rerank it.")
            yield result.page.image
