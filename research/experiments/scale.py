"""Recall and latency at scale: full and two-stage search, and dense search over page embeddings.

The paper's two stages keep the 50 heaviest terms of every page ("plain"). Ours shares the places out among
pages and counts what the encoder says a term is worth. An index that ``vsplade index`` has made is searched
as it is: no vectors are held in memory, so it may hold the paper's 18.7 million pages.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from research.experiments.dense import DenseIndex, set_threads
from research.experiments.embeddings import Embeddings
from research.two_stage import TwoStage, TwoStageIndex, term_values
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import measure, rounded
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, SparseVector

NAMES = ("recall@5", "recall@100", "ndcg@5")
TERMS = 50
"""Of a page in the paper's first stage."""
Rank = Callable[[Sequence[SparseVector], int], Run]
Row = dict[str, object]


def two_stage(
    dataset: Dataset,
    encoder: Encoder,
    vectors: PageVectors,
    terms: int = TERMS,
    threads: Sequence[int] = (1,),
) -> list[Row]:
    """Quality and time of exact search, and of both ways to propose pages by their heaviest terms."""
    with tempfile.TemporaryDirectory(prefix="vsplade-scale-") as folder:
        write_index(Path(folder), encoder, vectors.items())
        return search_table(dataset, encoder, Path(folder), threads, terms)


def write_index(folder: Path, encoder: Encoder, vectors: Iterable[tuple[str, SparseVector]]) -> None:
    with IndexWriter(folder, EncoderIdentity.of(encoder)) as writer:
        for page, vector in vectors:
            writer.add(page, vector)


def search_table(
    dataset: Dataset, encoder: Encoder, folder: Path, threads: Sequence[int] = (1,), terms: int = TERMS
) -> list[Row]:
    """The rows of an index that is there already; by words alone, as the paper has it."""
    index = Index.open(folder, encoder)
    index.warm_up()
    queries = list(dataset.judged)
    start = time.perf_counter()
    asked = [words_of(index.encode_query(dataset.queries[query])) for query in queries]
    encoding = 1000 * (time.perf_counter() - start) / max(1, len(queries))
    values = term_values(encoder)
    ways: dict[str, Index | TwoStageIndex] = {
        "full": index,
        f"two-stage, {terms} terms shared out": TwoStageIndex(index, TwoStage(terms), values),
        f"two-stage, plain top {terms}": TwoStageIndex(index, TwoStage(terms, plain=True)),
    }
    rows: list[Row] = []
    for name, way in ways.items():
        judged = _judged(dataset, queries, asked, partial(_ranked, index, way), threads)
        rows.append({"search": name, "query_encoding_ms": round(encoding, 4), **judged})
    return rows


def words_of(query: SparseVector) -> SparseVector:
    """Without what the query means."""
    return SparseVector(query.terms, query.weights)


def _judged(
    dataset: Dataset, queries: list[str], asked: list[SparseVector], rank: Rank, threads: Sequence[int]
) -> Row:
    rank(asked[:1], 1)
    spent: dict[str, float] = {}
    run: Run = {}
    for number in threads:
        start, busy = time.perf_counter(), time.process_time()
        found = rank(asked, number)
        spent[f"ms, {number} threads"] = round(1000 * (time.perf_counter() - start) / max(1, len(asked)), 4)
        if number == 1:
            busy = time.process_time() - busy
            spent["processor ms"] = round(1000 * busy / max(1, len(asked)), 4)
        run = {query: found[str(place)] for place, query in enumerate(queries)}
    scores = rounded(measure(dataset.qrels, run, NAMES))
    return {**scores, **spent}


def _ranked(index: Index, way: Index | TwoStageIndex, asked: Sequence[SparseVector], threads: int) -> Run:
    rankings = way.rank(asked, 100, threads=threads)
    return {
        str(place): dict(zip(index.page_ids(ranking), ranking.scores.tolist(), strict=True))
        for place, ranking in enumerate(rankings)
    }


def dense_table(dataset: Dataset, embeddings: Embeddings, threads: Sequence[int] = (1,)) -> list[Row]:
    """Flat and HNSW over the same pages, with what embedding a query took."""
    rows: list[Row] = []
    for kind in ("flat", "hnsw"):
        run, spent = embeddings.timed_run(kind, 100, threads)
        scores = rounded(measure(dataset.qrels, run, NAMES))
        times = {f"ms, {number} threads": round(value, 4) for number, value in spent.items()}
        rows.append(
            {
                "search": f"dense, {kind}",
                "query_encoding_ms": round(embeddings.query_ms, 4),
                **scores,
                **times,
            }
        )
    return rows


def thread_counts(most: int = 20) -> tuple[int, ...]:
    """1, 2, 4, ... up to the cores there are, and ``most``."""
    cores = min(os.cpu_count() or 1, most)
    counts = [1]
    while counts[-1] * 2 <= cores:
        counts.append(counts[-1] * 2)
    return tuple(dict.fromkeys([*counts, cores]))


def dense_latency(pages: int, width: int = 768, kind: str = "flat", queries: int = 50) -> Row:
    """Milliseconds a query of faiss on one thread, on random rows: dense search looks at no content."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((pages, width), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    start = time.perf_counter()
    index = DenseIndex(rows, kind)
    built = time.perf_counter() - start
    set_threads(1)
    times = []
    for _ in range(queries):
        asked = rng.standard_normal((1, width), dtype=np.float32)
        start = time.perf_counter()
        index.search(asked, 100)
        times.append(time.perf_counter() - start)
    median = 1000 * float(np.median(times))
    return {"index": kind, "pages": pages, "width": width, "ms": round(median, 3), "build_s": round(built, 1)}
