"""Recall as the corpus grows, by words alone: the judged pages among more and more others.

Others come in two kinds. Real ones are vectors or texts of other pages. Generated ones are recombinations:
each takes every term of two random real pages with probability one half, so that words go together as they
do in real pages, and none is an exact copy. They make the corpus large, not more varied; results say how
many there were.
"""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from research.experiments.embeddings import Embeddings
from research.experiments.scale import words_of
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import measure, rounded
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder, SparseVector

NAMES = ("recall@5", "recall@100", "ndcg@5")
DEEPER = 1.5
"""Times as deep as the mean needs: samples differ."""


def recombined(real: Sequence[SparseVector], count: int, seed: int = 0) -> Iterator[SparseVector]:
    """Pages between two real ones."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        a, b = (real[int(place)] for place in rng.integers(0, len(real), 2))
        terms, weights = np.concatenate([a.terms, b.terms]), np.concatenate([a.weights, b.weights])
        kept = rng.random(len(terms)) < 0.5
        distinct, first = np.unique(terms[kept], return_index=True)
        yield SparseVector(distinct, weights[kept][first])


def recall_as_it_grows(
    dataset: Dataset,
    encoder: Encoder,
    judged: PageVectors,
    others: PageVectors,
    sizes: Sequence[int],
    seed: int = 0,
) -> list[dict[str, object]]:
    """Measures at each corpus size; the index grows by what is missing, real pages first.

    A size below the set's own pages is a sample of them that holds all relevant ones.
    """
    order = corpus_order(dataset, judged.ids, others.ids, sizes, seed)
    known = {**dict(judged.items()), **dict(others.items())}
    real = list(others) or list(judged)
    generated = recombined(real, max(0, sizes[-1] - len(order)), seed + 1)
    rows: list[dict[str, object]] = []
    size = 0
    with tempfile.TemporaryDirectory(prefix="vsplade-growth-") as folder:
        for target in sizes:
            with IndexWriter(folder, EncoderIdentity.of(encoder)) as writer:
                for number in range(size, target):
                    name = order[number] if number < len(order) else f"generated {number}"
                    writer.add(name, known[name] if number < len(order) else next(generated))
            size = target
            scores = measure(dataset.qrels, _search(dataset, Index.open(folder, encoder)), NAMES)
            row: dict[str, object] = {"pages": size, "generated": max(0, size - len(order))}
            rows.append({**row, **rounded(scores)})
    return rows


def corpus_order(
    dataset: Dataset, own: Sequence[str], others: Sequence[str], sizes: Sequence[int], seed: int = 0
) -> list[str]:
    """Pages in the order in which a corpus grows: relevant ones, the set's other pages, other pages."""
    wanted = {page for pages in dataset.qrels.values() for page, grade in pages.items() if grade > 0}
    relevant = [page for page in own if page in wanted]
    if not sizes or sorted(sizes) != list(sizes) or sizes[0] < len(relevant):
        raise InputError(
            f"Sizes must grow, from at least the {len(relevant)} relevant pages; got {list(sizes)}."
        )
    both = set(own) & set(others)
    if both:
        raise InputError(f"The page {min(both)!r} is in the set and among the other pages.")
    rng = np.random.default_rng(seed)
    rest = [page for page in own if page not in wanted]
    shuffled = [[pages[n] for n in rng.permutation(len(pages))] for pages in (rest, list(others))]
    return [*relevant, *shuffled[0], *shuffled[1]]


def dense_as_it_grows(
    dataset: Dataset, own: Embeddings, others: Embeddings | None, sizes: Sequence[int], seed: int = 0
) -> list[dict[str, object]]:
    """The same corpora, searched flat by dense vectors; there are no generated pages."""
    pages = others.pages if others is not None else ()
    order = corpus_order(dataset, own.pages, pages, sizes, seed)
    if sizes[-1] > len(order):
        raise InputError(f"There are dense vectors of {len(order)} pages, but {sizes[-1]} were asked for.")
    rows = own.page_rows if others is None else np.concatenate([own.page_rows, others.page_rows])
    whole = Embeddings((*own.pages, *pages), rows, own.queries, own.query_rows)
    found: list[dict[str, object]] = []
    for size in sizes:
        scores = measure(dataset.qrels, whole.among(order[:size]).run(), NAMES)
        found.append({"pages": size, **rounded(scores)})
    return found


def recall_in_samples(
    dataset: Dataset, index: Index, sizes: Sequence[int], seed: int = 0
) -> list[dict[str, object]]:
    """The same from one deep search of an index that is there, however large: a smaller corpus is a random
    sample of its pages with all relevant ones, and its ranking is the large one's without the others.

    Exact where the depth sufficed: ``short`` counts queries with fewer than 100 pages left of a full list.
    """
    if not sizes or min(sizes) < 1 or max(sizes) > len(index):
        raise InputError(f"Sizes must be between 1 and the index's {len(index)} pages; got {list(sizes)}.")
    depth = min(len(index), math.ceil(DEEPER * 100 * len(index) / min(sizes)))
    deep = _search(dataset, index, depth)
    rows: list[dict[str, object]] = []
    for size in sizes:
        run: Run = {}
        short = 0
        for query, pages in deep.items():
            relevant = dataset.qrels[query]
            kept = [
                page for page in pages if relevant.get(page, 0) > 0 or _sampled(page, size / len(index), seed)
            ]
            short += len(kept) < 100 and len(pages) == depth < len(index)
            run[query] = {page: pages[page] for page in kept[:100]}
        scores = measure(dataset.qrels, run, NAMES)
        measured = rounded(scores)
        rows.append({"pages": size, "short": short, **measured})
    return rows


def _sampled(page: str, share: float, seed: int) -> bool:
    return zlib.crc32(f"{seed}/{page}".encode()) < share * 2**32


def _search(dataset: Dataset, index: Index, k: int = 100) -> Run:
    vectors = [words_of(index.encode_query(dataset.queries[query])) for query in dataset.judged]
    rankings = index.rank(vectors, k)
    return {
        query: dict(zip(index.page_ids(ranking), ranking.scores.tolist(), strict=True))
        for query, ranking in zip(dataset.judged, rankings, strict=True)
    }


def extrapolate(rows: Sequence[dict[str, object]], pages: float, name: str = "recall@5") -> float:
    """A straight line through the measure over the logarithm of the size, continued. Not a measurement."""
    if len({row["pages"] for row in rows}) < 2:
        raise InputError("An extrapolation needs at least two sizes.")
    sizes = [math.log10(float(str(row["pages"]))) for row in rows]
    values = [float(str(row[name])) for row in rows]
    slope, start = np.polyfit(sizes, values, 1)
    return float(min(1.0, max(0.0, start + slope * math.log10(pages))))
