"""Full against two-stage search, and what dense search costs at the same size."""

from __future__ import annotations

import tempfile
import time

import numpy as np

from research.experiments.dense import DenseIndex
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import measure
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.search.two_stage import TwoStage
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder

NAMES = ("recall@5", "recall@100", "ndcg@5")


def two_stage(
    dataset: Dataset, encoder: Encoder, vectors: PageVectors, terms: int = 50
) -> list[dict[str, object]]:
    """Quality and time of exact search, and of search that proposes pages by their heaviest terms."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="vsplade-scale-") as folder:
        with IndexWriter(folder, EncoderIdentity.of(encoder), first_stage_terms=terms) as writer:
            for page, vector in vectors.items():
                writer.add(page, vector)
        index = Index.open(folder, encoder)
        index.warm_up()
        for name, stages in (("full", None), (f"two-stage, {terms} terms", TwoStage(terms))):
            run, milliseconds = _search(dataset, index, stages)
            scores = {key: round(value, 4) for key, value in measure(dataset.qrels, run, NAMES).items()}
            rows.append({"search": name, **scores, "ms": round(milliseconds, 3)})
    return rows


def _search(dataset: Dataset, index: Index, stages: TwoStage | None) -> tuple[Run, float]:
    run: Run = {}
    seconds = 0.0
    for query in dataset.judged:
        vector = index.encode_query(dataset.queries[query])
        start = time.perf_counter()
        (ranking,) = index.rank([vector], 100, two_stage=stages)
        seconds += time.perf_counter() - start
        run[query] = dict(zip(index.page_ids(ranking), ranking.scores.tolist(), strict=True))
    return run, 1000 * seconds / max(1, len(dataset.judged))


def dense_latency(pages: int, width: int = 768, kind: str = "flat", queries: int = 50) -> dict[str, object]:
    """Milliseconds a query of faiss on one thread, on random rows: dense search looks at no content."""
    import faiss

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((pages, width), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    start = time.perf_counter()
    index = DenseIndex(rows, kind)
    built = time.perf_counter() - start
    faiss.omp_set_num_threads(1)
    times = []
    for _ in range(queries):
        asked = rng.standard_normal((1, width), dtype=np.float32)
        start = time.perf_counter()
        index.search(asked, 100)
        times.append(time.perf_counter() - start)
    median = 1000 * float(np.median(times))
    return {"index": kind, "pages": pages, "width": width, "ms": round(median, 3), "build_s": round(built, 1)}
