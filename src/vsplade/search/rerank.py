"""Order the best hits anew with a late-interaction model: every query vector looks for its best page vector.

Such a model reads each page again and keeps hundreds of vectors of it, far too much to search a corpus with,
but fine for the first hundred hits. It can only reorder: a page that the first stage missed stays missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError, PageError
from vsplade.search.hits import Hit

if TYPE_CHECKING:
    from PIL import Image

Vectors = NDArray[np.float32]
"""One row a token."""
DEPTH = 100
"""Hits that are ordered anew, as in the paper."""


class LateInteractionModel(Protocol):
    """Rows for a query's words and for a page's patches; rows of zeros stand for nothing."""

    def embed_query(self, text: str) -> Vectors: ...

    def embed_pages(self, images: Iterable[Image.Image]) -> Iterator[Vectors]: ...


def max_sim(query: Vectors, page: Vectors) -> float:
    """The sum over the query's rows of the largest dot product with a row of the page."""
    if query.ndim != 2 or page.ndim != 2 or query.shape[1] != page.shape[1]:
        raise InputError(f"Query vectors {query.shape} and page vectors {page.shape} do not fit together.")
    if not len(query) or not len(page):
        return 0.0
    return float((query @ page.T).max(axis=1).sum())


def rerank_scores(
    query: Vectors, candidates: Sequence[str], page_vectors: Callable[[str], Vectors]
) -> dict[str, float]:
    """MaxSim of every candidate, best first; equal scores keep the first stage's order."""
    scores = {page: max_sim(query, page_vectors(page)) for page in candidates}
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def rerank_run(
    run: Mapping[str, Mapping[str, float]],
    query_vectors: Callable[[str], Vectors],
    page_vectors: Callable[[str], Vectors],
    depth: int = DEPTH,
) -> dict[str, dict[str, float]]:
    """The ``depth`` best pages of every query, ordered anew; what is below is left out."""
    if depth < 1:
        raise InputError(f"At least 1 hit must be reranked, not {depth}.")
    reranked = {}
    for query, pages in run.items():
        best = sorted(pages, key=lambda page: (-pages[page], page))[:depth]
        reranked[query] = rerank_scores(query_vectors(query), best, page_vectors)
    return reranked


def rerank_hits(
    query: str,
    hits: Sequence[Hit],
    model: LateInteractionModel,
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
