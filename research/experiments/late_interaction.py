"""A run on a data set reranked by late interaction, and what no reranking can exceed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset, Qrels
from vsplade.evaluate.measures import measure
from vsplade.evaluate.runs import Run
from vsplade.pages import SourceFile, render, usable
from vsplade.search.rerank import LONGEST_EDGE, Vectors, max_sim

if TYPE_CHECKING:
    from PIL import Image


DEPTH = 100
"""Hits that are ordered anew, as in the paper."""


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


def rerank_dataset(dataset: Dataset, run: Run, model: Any, depth: int = DEPTH) -> Run:
    """A run on a data set with pictures, its first ``depth`` pages ordered anew; a page is read once."""
    wanted = {
        page
        for pages in run.values()
        for page in sorted(pages, key=lambda page: (-pages[page], page))[:depth]
    }
    sources = [
        SourceFile(str(file.resolve()), file.stem)
        for file in dataset.files
        if dataset.image_ids is None or file.stem in wanted
    ]
    ids: list[str] = []

    def pictures() -> Iterator[Image.Image]:
        for result in usable(render(sources, LONGEST_EDGE)):
            if result.page.id in wanted:
                ids.append(result.page.id)
                yield result.page.image

    pages = {ids[number]: rows for number, rows in enumerate(model.embed_pages(pictures()))}
    missing = sorted(wanted - set(pages))
    if missing:
        raise InputError(f"The run names page {missing[0]!r}, which is not in {dataset.path}.")
    queries = {query: model.embed_query(dataset.queries[query]) for query in run}
    return rerank_run(run, queries.__getitem__, pages.__getitem__, depth)


def recall_ceiling(qrels: Qrels, run: Mapping[str, Mapping[str, float]], depth: int = DEPTH) -> float:
    """The recall that no reranking of the first ``depth`` pages can exceed."""
    cut = {
        query: dict(sorted(pages.items(), key=lambda item: (-item[1], item[0]))[:depth])
        for query, pages in run.items()
    }
    if depth > 100:
        raise InputError("The ceiling is measured to a depth of 100 at most.")
    return measure(qrels, cut, ["recall@100"])["recall@100"]
