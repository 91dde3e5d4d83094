"""Two first stages, one reranker: how much of what each of them found comes to the top.

The paper's reranker is ColModernVBERT, over pictures (``ColModernVBERT`` by folder or hub name). ``minilm``
needs no download: the token vectors of MiniLM over page texts, compared in the same way (MaxSim).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from research.experiments.dense import sentence_model
from research.experiments.late_interaction import DEPTH, recall_ceiling, rerank_dataset, rerank_run
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.measures import measure
from vsplade.evaluate.runs import Run
from vsplade.search.rerank import ColModernVbert, Vectors

NAMES = ("recall@5", "ndcg@5")
Reranker = Callable[[Run], Run]


def reranking(dataset: Dataset, runs: Mapping[str, Run], rerank: Reranker) -> list[dict[str, object]]:
    """For every first stage: before, after, and the recall that no reranker of its 100 pages can exceed."""
    rows: list[dict[str, object]] = []
    for name, run in runs.items():
        before, after = (measure(dataset.qrels, found, NAMES) for found in (run, rerank(run)))
        row: dict[str, object] = {"first stage": name}
        for measured in NAMES:
            row[measured] = round(before[measured], 4)
            row[f"{measured}, reranked"] = round(after[measured], 4)
        rows.append({**row, "recall@100": round(recall_ceiling(dataset.qrels, run), 4)})
    return rows


def picture_reranker(dataset: Dataset, model: str, device: str = "cpu") -> Reranker:
    loaded = ColModernVbert(model, device=device)
    return lambda run: rerank_dataset(dataset, run, loaded)


def text_reranker(dataset: Dataset, texts: Mapping[str, str], model: str = "minilm") -> Reranker:
    """Late interaction over page texts. Pages are embedded when a run first names them, once."""
    loaded = sentence_model(model)
    kept: dict[str, Vectors] = {}

    def embed(given: list[str]) -> list[Vectors]:
        found = loaded.encode(given, output_value="token_embeddings", show_progress_bar=False)
        rows = [np.asarray(one.cpu(), np.float32) for one in found]
        return [one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1e-9) for one in rows]

    def rerank(run: Run) -> Run:
        wanted = sorted({page for pages in run.values() for page in pages} - set(kept))
        unknown = [page for page in wanted if page not in texts]
        if unknown:
            raise InputError(f"There is no text of the page {unknown[0]!r}, which a run names.")
        kept.update(zip(wanted, embed([texts[page] for page in wanted]) if wanted else [], strict=True))
        asked = dict(zip(run, embed([dataset.queries[query] for query in run]), strict=True))
        return rerank_run(run, asked.__getitem__, kept.__getitem__, DEPTH)

    return rerank
