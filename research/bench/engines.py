"""What the benchmark asks of an engine, and the engines that need nothing but this package and scipy.

Every engine gets the same pages and queries. Timed is the engine's own search call on a query that is already
in the engine's own form; turning its answer into page numbers is not timed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from research.bench.corpus import CorpusSpec, Piece, Tell, generate, page_facts
from research.bench.postings import Postings
from vsplade.types import SparseVector, Windows

FIRST_STAGE_TERMS = 50
"""Of a page in two-stage search, as in the paper."""


class Engine:
    """One way to search. ``build`` returns the seconds that the engine itself needed."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Modules that must be installed."""
    note: ClassVar[str] = ""
    weighs_queries: ClassVar[bool] = True
    """False: every query term counts 1, and so it does in the exact answers it is compared with."""
    measures_recall: ClassVar[bool] = True
    processors: ClassVar[int] = 1
    """How many it is allowed to run on."""

    def __init__(self, tell: Tell = lambda pages: None) -> None:
        self.tell = tell

    @classmethod
    def missing(cls) -> list[str]:
        return [module for module in cls.needs if importlib.util.find_spec(module) is None]

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        raise NotImplementedError

    def bytes(self) -> int:
        """Of what a search reads."""
        raise NotImplementedError

    def prepare(self, query: SparseVector, k: int) -> Any:
        """The query in the engine's own form."""
        raise NotImplementedError

    def search(self, prepared: Any) -> Any:
        """The timed part."""
        raise NotImplementedError

    def pages(self, answer: Any) -> Sequence[int]:
        """Page numbers, best first."""
        raise NotImplementedError

    def extra(self) -> dict[str, float]:
        """Anything else worth keeping, by name."""
        return {}


class Vsplade(Engine):
    """This package's index, through the call that its users make: hits, exact."""

    name = "vsplade"
    note = "Index.search: hits, whose metadata are read when looked at"

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        from vsplade.search.index import Index
        from vsplade.store.identity import EncoderIdentity
        from vsplade.store.writer import IndexWriter

        start = time.perf_counter()
        making = 0.0  # seconds that went into the pages, not into the index
        pieces = generate(spec, self.tell)
        identity = EncoderIdentity("made-up", "made-up", spec.vocabulary)
        with IndexWriter(folder, identity) as writer:
            while True:
                before = time.perf_counter()
                piece = next(pieces, None)
                if piece is None:
                    break
                windows = self.meaning(piece)
                making += time.perf_counter() - before
                for (page, vector), meaning in zip(piece.vectors(), windows, strict=True):
                    writer.add(f"p{page}", replace(vector, meaning=meaning), page_facts(page))
        seconds = time.perf_counter() - start - making
        self._folder = folder
        self._index = Index.open(folder, engine="numba")
        self._index.warm_up()
        return seconds

    def meaning(self, piece: Piece) -> Sequence[Windows | None]:
        """The windows of each page; the corpus has none."""
        return [None] * len(piece)

    def bytes(self) -> int:
        return folder_bytes(self._folder)

    def extra(self) -> dict[str, float]:
        """What the index says of itself."""
        return {f"index_{key}": value for key, value in self._index.statistics().items()}

    def prepare(self, query: SparseVector, k: int) -> Any:
        return query, k

    def search(self, prepared: Any) -> Any:
        return self._index.search_vector(*prepared)

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(hit.id[1:]) for hit in answer]


class VspladeIds(Vsplade):
    """The same index, asked for ids and scores only: what the other engines return."""

    name = "vsplade-ids"
    note = "Index.rank and page_ids: ids and scores, as the other engines return them"

    def prepare(self, query: SparseVector, k: int) -> Any:
        return [query], k

    def search(self, prepared: Any) -> Any:
        (ranking,) = self._index.rank(*prepared)
        return self._index.page_ids(ranking)

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page[1:]) for page in answer]


class VspladeTwoStage(VspladeIds):
    """The same index in two stages: 50 terms a page propose ten times k pages, whole vectors score them."""

    name = "vsplade-two-stage"
    note = "approximate: 50 terms a page propose 10 k pages (at least 100), which are scored in full"

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        from research.two_stage import TwoStage, TwoStageIndex

        seconds = super().build(spec, folder)
        start = time.perf_counter()
        self._staged = TwoStageIndex(self._index, TwoStage(FIRST_STAGE_TERMS))
        seconds += time.perf_counter() - start
        anything = SparseVector(np.zeros(1, dtype=np.uint32), np.ones(1, dtype=np.float32))
        self._staged.rank([anything], 1)  # its own engine, made on first use
        return seconds

    def search(self, prepared: Any) -> Any:
        queries, k = prepared
        (ranking,) = self._staged.rank(queries, k)
        return self._index.page_ids(ranking)


ROUND = 1000
"""Queries that threads are compared on, at least."""


class VspladeBatch(Vsplade):
    """Many queries at once, on one thread and on two; the latencies are of batches of one."""

    name = "vsplade-batch"
    note = "Index.search_batch; two processors"
    processors = 2

    def prepare(self, query: SparseVector, k: int) -> Any:
        self._asked[k] = [*self._asked.get(k, []), query]
        return [query], k

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        self._asked: dict[int, list[SparseVector]] = {}
        return super().build(spec, folder)

    def search(self, prepared: Any) -> Any:
        return self._index.search_batch(*prepared)[0]

    def extra(self) -> dict[str, float]:
        """Queries a second for each k and number of threads: the best and the median of eight, one and two
        threads by turns, after one round to warm up. A round is at least 1,000 queries, half a second: in
        shorter ones a single pause of the machine is a tenth of the result."""
        rates: dict[str, float] = {}
        for k, asked in self._asked.items():
            queries = asked * -(-ROUND // len(asked))
            seconds: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(9):
                for threads, measured in seconds.items():
                    start = time.perf_counter()
                    self._index.search_batch(queries, k, threads=threads)
                    measured.append(time.perf_counter() - start)
            for threads, measured in seconds.items():
                rates[f"qps_k{k}_threads{threads}"] = len(queries) / min(measured[1:])
                rates[f"median_qps_k{k}_threads{threads}"] = len(queries) / median(measured[1:])
        return {**super().extra(), **rates}


class Stream(Engine):
    """The floor that memory sets: reads each posting of the query's terms once and does nothing with it.

    A posting is 3 bytes here (a page number within its block of 65,536 pages, an 8-bit weight), in one run a
    term. No search that looks at all postings of this size can be faster.
    """

    name = "stream"
    note = "reads 3 bytes a posting once, ranks nothing"
    measures_recall = False
    BYTES: ClassVar[int] = 3

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        counts = np.zeros(spec.vocabulary, dtype=np.int64)
        for piece in generate(spec, self.tell):
            counts += np.bincount(piece.terms, minlength=spec.vocabulary)
        start = time.perf_counter()
        words = -(-counts * self.BYTES // 8)
        self._starts = np.concatenate([[0], np.cumsum(words)])
        # Written, not only reserved: untouched memory is one shared page of zeros, and reads too fast.
        self._words = np.arange(int(self._starts[-1]), dtype=np.uint64)
        return time.perf_counter() - start

    def bytes(self) -> int:
        return self._words.nbytes

    def prepare(self, query: SparseVector, k: int) -> NDArray[np.int64]:
        return np.stack([self._starts[query.terms], self._starts[query.terms + np.uint32(1)]], axis=1)

    def search(self, prepared: Any) -> Any:
        return _sum_spans(self._words, prepared)

    def pages(self, answer: Any) -> Sequence[int]:
        return []


class Scipy(Engine):
    """A sparse query row times the sparse matrix of terms by pages, then a partial sort."""

    name = "scipy"
    needs = ("scipy",)

    def build(self, spec: CorpusSpec, folder: Path) -> float:
        from scipy.sparse import csr_array

        postings = Postings.of(spec, self.tell)
        start = time.perf_counter()
        self._matrix = csr_array(
            (postings.weights, postings.pages.astype(np.int32), postings.starts),
            shape=(spec.vocabulary, spec.pages),
        )
        self._vocabulary = spec.vocabulary
        return time.perf_counter() - start

    def bytes(self) -> int:
        return int(self._matrix.data.nbytes + self._matrix.indices.nbytes + self._matrix.indptr.nbytes)

    def prepare(self, query: SparseVector, k: int) -> Any:
        from scipy.sparse import csr_array

        row = (query.weights, query.terms.astype(np.int32), np.array([0, len(query)]))
        return csr_array(row, shape=(1, self._vocabulary)), k

    def search(self, prepared: Any) -> Any:
        query, k = prepared
        scores = query @ self._matrix
        data, columns = scores.data, scores.indices
        if len(data) > k:
            best = np.argpartition(-data, k - 1)[:k]
            data, columns = data[best], columns[best]
        return columns[np.lexsort((columns, -data))]

    def pages(self, answer: Any) -> Sequence[int]:
        return [int(page) for page in answer]


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@njit(cache=True)
def _sum_spans(words, spans):  # type: ignore[no-untyped-def]
    total = np.uint64(0)
    for row in range(len(spans)):
        part = np.uint64(0)
        for i in range(spans[row, 0], spans[row, 1]):
            part += words[i]
        total += part
    return total
