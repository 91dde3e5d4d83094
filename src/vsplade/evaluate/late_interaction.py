"""ColModernVBERT as transformers has it: many vectors a page and a query, compared by MaxSim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate.dataset import Dataset, Qrels
from vsplade.evaluate.measures import measure
from vsplade.evaluate.runs import Run
from vsplade.pages import FileProblem, SourceFile, render
from vsplade.search.rerank import DEPTH, Vectors, rerank_run

if TYPE_CHECKING:
    from PIL import Image

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
        for result in render(sources, LONGEST_EDGE):
            if isinstance(result, FileProblem):
                raise InputError(f"{result.path}: {result.reason}")
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
