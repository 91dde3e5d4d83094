"""Engines that other people wrote, each used as its own documentation says, with one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from research.bench.corpus import CorpusSpec, generate
from research.bench.engines import FIRST_STAGE_TERMS, Engine, folder_bytes
from research.bench.postings import Postings
from vsplade.types import SparseVector


class Pisa(Engine):
    """PISA's MaxScore over its default compressed index (``block_simdbp``), through pyterrier-pisa's binding.

    The canonical collection is written straight from arrays: the package's own indexer takes a Python
    dictionary a page, which would only measure Python.
    """

    name = "pisa-maxscore"
    needs = ("pyterrier_pisa",)
    note = "weights and query weights are whole numbers there (times 100)"
    SCALE = 100.0
    terms_a_page: ClassVar[int] = 0
    """Only so many of the heaviest; 0: all."""

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        _pisathon = import_module("pyterrier_pisa._pisathon")

        postings = Postings.of(spec, self.tell, self.terms_a_page)
        start = time.perf_counter()
        self._folder = folder
        _write_canonical(postings, spec, folder, self.SCALE)
        del postings
        for kind, lexicon in (("documents", "doclex"), ("terms", "termlex")):
            _pisathon.build_binlex(str(folder / f"fwd.{kind}"), str(folder / f"fwd.{lexicon}"))
        self._pisa = _pisathon
        self._context = _pisathon.RetrievalContext()
        _pisathon.prepare_index(self._context, str(folder), "block_simdbp", "quantized", "")
        return time.perf_counter() - start

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self._folder.glob("quantized.*"))

    def prepare(self, query: SparseVector, k: int) -> Any:
        terms = zip(query.terms.tolist(), query.weights.tolist(), strict=True)
        weights = {f"t{term:05}": float(max(1, round(weight * self.SCALE))) for term, weight in terms}
        return [(0, weights)], k

    def search(self, prepared: Any) -> Any:
        queries, k = prepared
        pages = np.empty(k, dtype=object)
        found = self._pisa.retrieve(
            self._context,
            "maxscore",
            queries,
            k=k,
            threads=1,
            query_weighted=1,
            pretokenised=True,
            result_qidxs=np.empty(k, dtype=np.int32),
            result_docnos=pages,
            result_ranks=np.empty(k, dtype=np.int32),
            result_scores=np.empty(k, dtype=np.float32),
        )
        return pages[:found]

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page[1:]) for page in answer]


class PisaTwoStage(Pisa):
    """The paper's two stages: PISA's MaxScore over the 50 heaviest terms of a page proposes, whole vectors
    score. PISA rescores nothing by itself, so that is a compiled loop here, over the pages' own vectors.
    """

    name = "pisa-two-stage"
    note = "approximate: 50 terms a page propose 10 k pages (at least 100), scored in full by a compiled loop"
    terms_a_page = FIRST_STAGE_TERMS

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        seconds = super().build(spec, folder)
        pieces = list(generate(spec))
        start = time.perf_counter()
        lengths = np.concatenate([np.diff(piece.offsets) for piece in pieces])
        self._starts = np.concatenate(([0], np.cumsum(lengths)))
        self._terms = np.concatenate([piece.terms.astype(np.uint16) for piece in pieces])
        self._weights = np.concatenate([piece.weights for piece in pieces])
        return seconds + time.perf_counter() - start

    def bytes(self) -> int:
        return super().bytes() + self._starts.nbytes + self._terms.nbytes + self._weights.nbytes

    def prepare(self, query: SparseVector, k: int) -> Any:
        return super().prepare(query, max(10 * k, 100)), query, k

    def search(self, prepared: Any) -> Any:
        proposing, query, k = prepared
        pages = np.array([int(page[1:]) for page in super().search(proposing)], dtype=np.int64)
        scores = _rescored(self._starts, self._terms, self._weights, query.terms, query.weights, pages)
        return pages[np.lexsort((pages, -scores))[:k]]

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page) for page in answer]


@njit(cache=True)
def _rescored(starts, terms, weights, query_terms, query_weights, pages):  # type: ignore[no-untyped-def]
    scores = np.zeros(len(pages), dtype=np.float64)
    for n in range(len(pages)):
        low, high = starts[pages[n]], starts[pages[n] + 1]
        for i in range(len(query_terms)):
            low += np.searchsorted(terms[low:high], query_terms[i])
            if low < high and terms[low] == query_terms[i]:
                scores[n] += query_weights[i] * weights[low]
    return scores


def _write_canonical(postings: Postings, spec: CorpusSpec, folder: Path, scale: float) -> None:
    """PISA's plain input: per term a count and that many numbers, 32 bits each; and the page lengths."""
    impacts = np.maximum(1, np.rint(postings.weights * scale)).astype(np.uint32)
    lengths = np.zeros(spec.pages, dtype=np.uint32)
    with (
        open(folder / "inv.docs", "wb") as docs,
        open(folder / "inv.freqs", "wb") as freqs,
        open(folder / "fwd.terms", "w") as terms,
    ):
        docs.write(np.array([1, spec.pages], dtype=np.uint32).tobytes())
        for term in range(spec.vocabulary):
            begin, end = int(postings.starts[term]), int(postings.starts[term + 1])
            if begin == end:
                continue
            count = np.array([end - begin], dtype=np.uint32).tobytes()
            docs.write(count + postings.pages[begin:end].tobytes())
            freqs.write(count + impacts[begin:end].tobytes())
            terms.write(f"t{term:05}\n")
            lengths[postings.pages[begin:end]] += impacts[begin:end]
    with open(folder / "inv.sizes", "wb") as sizes:
        sizes.write(np.array([spec.pages], dtype=np.uint32).tobytes() + lengths.tobytes())
    with open(folder / "fwd.documents", "w") as documents:
        documents.writelines(f"p{page}\n" for page in range(spec.pages))


class Seismic(Engine):
    """Seismic, approximate: keeps the heaviest postings of each list; other settings at its defaults."""

    name = "seismic"
    needs = ("seismic",)
    note = "approximate: the best 30% of the postings, query_cut 10, heap_factor 0.7"
    LIST_SHARE = 0.3

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        seismic = import_module("seismic")

        self._string = seismic.get_seismic_string()
        dataset = seismic.SeismicDataset()
        seconds = 0.0
        for piece in generate(spec, self.tell):
            start = time.perf_counter()
            ids = [str(page) for page in range(piece.first_page, piece.first_page + len(piece))]
            dataset.add_documents_by_id(ids, piece.terms.astype(np.int64), piece.weights, piece.offsets)
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        # The default (3500) is meant for longer lists: here it would keep every posting and build for hours.
        kept = max(20, int(self.LIST_SHARE * spec.pages * spec.mean_terms / spec.vocabulary))
        self._index = seismic.SeismicIndex.build_from_dataset(dataset, n_postings=kept, num_threads=1)
        seconds += time.perf_counter() - start
        self._index.save(str(folder / "seismic"))
        self._folder = folder
        return seconds

    def bytes(self) -> int:
        return folder_bytes(self._folder)

    def prepare(self, query: SparseVector, k: int) -> Any:
        return np.array([str(term) for term in query.terms], dtype=self._string), query.weights, k

    def search(self, prepared: Any) -> Any:
        terms, weights, k = prepared
        return self._index.search("q", terms, weights, k=k, query_cut=10, heap_factor=0.7)

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page) for _, _, page in answer]


class Qdrant(Engine):
    """Qdrant's engine in this process (qdrant-edge): sparse index in memory, optimised before the search."""

    name = "qdrant"
    needs = ("qdrant_edge",)
    BATCH = 2000

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        qe = import_module("qdrant_edge")

        start = time.perf_counter()
        config = qe.EdgeConfig(
            sparse_vectors={"s": qe.EdgeSparseVectorParams()},
            optimizers=qe.EdgeOptimizersConfig(default_segment_number=1, max_segment_size=1 << 40),
            max_search_threads=1,
            wal_enabled=False,
        )
        self._folder = folder / "shard"
        self._folder.mkdir()
        self._qe, self._shard = qe, qe.EdgeShard.create(str(self._folder), config)
        seconds = time.perf_counter() - start
        for piece in generate(spec, self.tell):
            start = time.perf_counter()
            for first in range(0, len(piece), self.BATCH):
                points = [
                    qe.Point(piece.first_page + row, {"s": self._vector(piece.vector(row))})
                    for row in range(first, min(first + self.BATCH, len(piece)))
                ]
                self._shard.update(qe.UpdateOperation.upsert_points(points))
            seconds += time.perf_counter() - start
        start = time.perf_counter()
        self._shard.flush()
        self._shard.optimize()
        return seconds + time.perf_counter() - start

    def _vector(self, vector: SparseVector) -> Any:
        return self._qe.SparseVector(vector.terms.tolist(), vector.weights.tolist())

    def bytes(self) -> int:
        return folder_bytes(self._folder)

    def prepare(self, query: SparseVector, k: int) -> Any:
        asked = self._qe.Query.Nearest(self._vector(query), using="s")
        return self._qe.SearchRequest(query=asked, limit=k)

    def search(self, prepared: Any) -> Any:
        return self._shard.search(prepared)

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(point.id) for point in answer]


class Bm25s(Engine):
    """bm25s with our weights in the place of its BM25 scores, on its numba backend."""

    name = "bm25s"
    needs = ("bm25s",)
    note = "has no query weights: compared with the exact answers to unweighted queries"
    weighs_queries = False

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        bm25s = import_module("bm25s")

        postings = Postings.of(spec, self.tell)
        start = time.perf_counter()
        self._model = bm25s.BM25(backend="numba")
        self._model.scores = {
            "data": postings.weights,
            "indices": postings.pages.astype(np.int32),
            "indptr": postings.starts,
            "num_docs": spec.pages,
        }
        self._model.vocab_dict = {str(term): term for term in range(spec.vocabulary)}
        self._model.unique_token_ids_set = set(range(spec.vocabulary))
        self._model.nonoccurrence_array = None
        self._model.activate_numba_scorer()
        return time.perf_counter() - start

    def bytes(self) -> int:
        scores: dict[str, NDArray[Any]] = self._model.scores
        return sum(scores[part].nbytes for part in ("data", "indices", "indptr"))

    def prepare(self, query: SparseVector, k: int) -> Any:
        return [[int(term) for term in query.terms]], k

    def search(self, prepared: Any) -> Any:
        tokens, k = prepared
        return self._model.retrieve(tokens, k=k, show_progress=False, n_threads=1, return_as="documents")

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page) for page in answer[0]]
