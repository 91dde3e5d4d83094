"""Other people's systems by what they put out: a run, sparse vectors, or one or many dense vectors a page.

    python -m research.experiments.outputs DATASET --from-run colflor.run --run table.run
    python -m research.experiments.outputs DATASET --pages images.jsonl --queries texts.jsonl --run d2s.run
    python -m research.experiments.outputs DATASET --pages pages.npz --queries queries.npz --run colflor.run

- D2S (github.com/thongnt99/lsr-multimodal) and JSDO-Sparse (holi-lab/mm-sparse-retrieval) make a dictionary
  of tokens and weights for every page and query. One JSON line each: ``{"docno": ID, "toks": {...}}`` and
  ``{"qid": ID, "query_toks": {...}}`` as D2S's retrieve.py has them, or Anserini's ``{"id", "vector"}``.
- ColFlor (AhmedMasryKU/colflor) makes a matrix for every page and query: ``numpy.savez(FILE, **{ID: rows})``.
  They are compared by MaxSim; a single row a page is a dense retriever.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from research.command import main, option
from research.experiments.hub import open_dataset
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.measures import flops, measure, rounded
from vsplade.evaluate.runs import Run, ranked, read_run, write_run
from vsplade.jsonl import read_objects
from vsplade.search.rerank import Vectors, max_sim
from vsplade.types import SparseVector

IDS = ("_id", "id", "docno", "qid", "query_id")
BAGS = ("vector", "toks", "query_toks")
DEPTH = 100
Sparse = dict[str, SparseVector]
Vector = TypeVar("Vector")


def read_sparse(path: Path, terms: dict[str, int]) -> Sparse:
    """Vectors by id; tokens that are new get the next number in ``terms``."""
    found: Sparse = {}
    for line, row in read_objects(path):
        name = next((str(row[key]) for key in IDS if key in row), None)
        bag = next((row[key] for key in BAGS if isinstance(row.get(key), dict)), None)
        if name is None or bag is None:
            raise InputError(
                f"{path}, line {line}: expected an id ({', '.join(IDS)}) and a dictionary of tokens and "
                f"weights ({', '.join(BAGS)})."
            )
        try:
            weights = {terms.setdefault(token, len(terms)): float(weight) for token, weight in bag.items()}
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}, line {line}: a weight is not a number ({error}).") from error
        found[name] = SparseVector.from_dict({term: weight for term, weight in weights.items() if weight > 0})
    return found


def sparse_run(dataset: Dataset, pages: Sparse, queries: Sparse) -> tuple[Run, float]:
    """The judged queries over all pages, and FLOPS as the paper counts it."""
    dataset.check_corpus(set(pages))
    asked = {query: _of(queries, query) for query in dataset.judged}
    size = 1 + max((int(vector.terms.max()) for vector in pages.values() if len(vector)), default=0)
    names, run = list(pages), {query: np.zeros(len(pages)) for query in asked}
    dense = {query: np.zeros(size) for query in asked}
    for query, vector in asked.items():
        known = vector.terms < size
        dense[query][vector.terms[known]] = vector.weights[known]
    for place, vector in enumerate(pages.values()):
        for query in asked:
            run[query][place] = float(dense[query][vector.terms] @ vector.weights)
    return {query: _best(names, scores) for query, scores in run.items()}, flops(
        asked.values(), pages.values()
    )


def dense_run(dataset: Dataset, pages: dict[str, Vectors], queries: dict[str, Vectors]) -> Run:
    dataset.check_corpus(set(pages))
    run: Run = {}
    for query in dataset.judged:
        rows = _of(queries, query)
        run[query] = _best(list(pages), np.array([max_sim(rows, page) for page in pages.values()]))
    return run


def read_dense(path: Path) -> dict[str, Vectors]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: np.atleast_2d(stored[name]).astype(np.float32) for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} holds no plain arrays by id ({error}).") from error


def _of(vectors: dict[str, Vector], query: str) -> Vector:
    if query not in vectors:
        raise InputError(f"There is no vector of the query {query!r}. Encode all queries of the data set.")
    return vectors[query]


def _best(names: list[str], scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    pages = {name: score for name, score in zip(names, scores.tolist(), strict=True) if score > 0}
    return dict(ranked(pages)[:DEPTH])


@dataclass(frozen=True)
class OutputsOptions:
    dataset: str = option("A folder, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    from_run: Path | None = option("A TREC run.", None)
    pages: Path | None = option("Vectors of pages (.jsonl: sparse, .npz: dense).", None)
    queries: Path | None = option("Vectors of queries, in the same form.", None)
    run: Path | None = option("Write the run here.", None)


def judge(options: OutputsOptions) -> dict[str, Any]:
    """Judge other people's systems by what they put out."""
    dataset = open_dataset(options.dataset, options.data)
    facts: dict[str, Any] = {"dataset": dataset.name}
    if options.from_run:
        run = read_run(options.from_run, dataset.queries, dataset.image_ids)
    elif options.pages is None or options.queries is None:
        raise InputError("Give --from-run, or --pages and --queries.")
    elif options.pages.suffix == ".npz":
        run = dense_run(dataset, read_dense(options.pages), read_dense(options.queries))
    else:
        terms: dict[str, int] = {}
        pages, queries = read_sparse(options.pages, terms), read_sparse(options.queries, terms)
        run, cost = sparse_run(dataset, pages, queries)
        facts["flops"] = round(cost, 3)
    if options.run:
        write_run(options.run, run, tag=options.run.stem)
    return {**facts, **rounded(measure(dataset.qrels, run))}


if __name__ == "__main__":
    main(judge, OutputsOptions)
