"""Encode the pages of a data set, search every query, and say how well it went."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vsplade.backends.address import Where
from vsplade.backends.open_writer import open_writer
from vsplade.encode import load_encoder
from vsplade.encode.keyed import encode_rendered
from vsplade.encode.text import TextEncoder, TextOptions
from vsplade.errors import InputError, PageError
from vsplade.evaluate.dataset import Dataset, load_dataset, read_page_texts
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import PerQuery, active_terms, averages, flops, per_query, rounded
from vsplade.evaluate.runs import Run
from vsplade.pages import FileProblem, SourceFile, render_for, usable
from vsplade.search.open_index import open_index
from vsplade.store.identity import EncoderIdentity
from vsplade.types import Encoder, SparseVector, TermStatistics, TextReadingEncoder

Json = dict[str, object]
Weigh = Callable[[str, TermStatistics], SparseVector]
"""Queries to vectors."""


@dataclass(frozen=True, slots=True)
class EvalReport:
    """One system on one data set."""

    dataset: str
    encoder: str
    fingerprint: str
    measures: Mapping[str, float]
    queries: int
    """Judged queries: those that the means are over."""
    pages: int
    pages_per_s: float | None
    """Rendering and encoding together, as a user waits for it; ``None`` when the vectors were given."""
    active_terms: float
    query_terms: float
    flops: float
    query_ms: Mapping[str, float]
    """Weighing and searching one query, one thread: mean, p50, p95."""
    notes: tuple[str, ...] = ()
    per_query: PerQuery = field(default_factory=dict, repr=False)
    run: Run = field(default_factory=dict, repr=False)
    vectors: PageVectors | None = field(default=None, repr=False)
    """What was searched, for those who want to look further."""

    def to_json(self, per_query: bool = False) -> Json:
        """Plain values only; ``per_query`` adds every measure of every query."""
        result: Json = {
            "dataset": self.dataset,
            "encoder": self.encoder,
            "fingerprint": self.fingerprint,
            **rounded(self.measures, 6),
            "queries": self.queries,
            "pages": self.pages,
            "pages_per_s": None if self.pages_per_s is None else round(self.pages_per_s, 3),
            "active_terms": round(self.active_terms, 3),
            "query_terms": round(self.query_terms, 3),
            "flops": round(self.flops, 6),
            "query_ms": rounded(self.query_ms),
            "notes": list(self.notes),
        }
        if per_query:
            result["per_query"] = self.per_query
        return result


def evaluate_dataset(
    folder: str | Path | Dataset,
    encoder: Encoder | str | None = None,
    *,
    vectors: PageVectors | None = None,
    texts: str | Path | Mapping[str, str] | None = None,
    k: int = 100,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    keep_vectors: str | Path | None = None,
    words_only: bool = False,
    where: Where | None = None,
) -> EvalReport:
    """Measure an encoder on a folder (see ``evaluate.dataset`` for the layout).

    Pages come from the folder's files; or as ready ``vectors``; or as ``texts`` (a jsonl of ``_id`` and
    ``text``, or a mapping) that an encoder with ``encode_text`` turns into vectors: BM25 over OCR output or
    captions. ``progress`` is called with (files done, files in all). ``keep_vectors`` saves what was encoded,
    for later calls with ``vectors``. ``words_only`` leaves out what pages are about. ``where`` is the folder
    or the address of the index that is made; left out, a temporary folder.
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
    if vectors is not None and texts is not None:
        raise InputError("Give page vectors or page texts, not both.")
    dataset = folder if isinstance(folder, Dataset) else load_dataset(folder)
    notes: list[str] = []
    seconds: float | None = None
    if texts is not None:
        page_texts = _page_texts(dataset, texts, notes)
        chosen = bm25_encoder(page_texts) if encoder is None else _resolve(encoder)
        vectors = encode_texts(chosen, page_texts)
    else:
        chosen = _resolve(encoder)
    if vectors is None:
        start = time.perf_counter()
        vectors = PageVectors.collect(encode_files(dataset, chosen, workers=workers, progress=progress))
        seconds = time.perf_counter() - start
    if keep_vectors is not None:
        vectors.save(keep_vectors)
    _check_same_pages(dataset, vectors)
    if words_only:
        vectors = replace(vectors, windows=())
    return _judge(dataset, chosen, vectors, k, seconds, notes, where)


def encode_files(
    dataset: Dataset,
    encoder: Encoder,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[str, SparseVector]]:
    """(page id, vector) for every page, in order.

    A page that cannot be read stops the evaluation: leaving it out would change the score silently.
    ``progress`` is called with (files done, files in all).
    """
    if not dataset.files:
        raise PageError(
            f"{dataset.path} has neither images/ nor pdfs/: put the pages there, or give texts or vectors."
        )
    sources = [SourceFile(str(file.resolve()), file.stem) for file in dataset.files]
    done = 0
    # A generator abandoned on an error must not leave worker processes behind.
    with closing(render_for(encoder, sources, workers=workers)) as results:
        for item, vector in encode_rendered(encoder, usable(results, _refuse)):
            yield item.page.id, vector
            if item.page.number == item.pages:
                done += 1
                if progress is not None:
                    progress(done, len(sources))


def _refuse(problem: FileProblem) -> None:
    raise PageError(f"{problem.place}: {problem.reason}. Repair or replace the file, then evaluate again.")


def search_queries(
    dataset: Dataset,
    encoder: Encoder,
    vectors: PageVectors,
    k: int,
    where: Where | None = None,
    weigh: Weigh | None = None,
) -> tuple[Run, list[SparseVector], list[float]]:
    """The judged queries through a real index, in a temporary folder unless ``where`` names another place:
    run, query vectors, seconds a query. ``weigh`` takes the place of the encoder's own way with queries.
    """
    run: Run = {}
    query_vectors: list[SparseVector] = []
    seconds: list[float] = []
    with tempfile.TemporaryDirectory(prefix="vsplade-eval-") as folder:
        place = folder if where is None else where
        with open_writer(place, EncoderIdentity.of(encoder)) as writer:
            if writer.pages:
                raise InputError(f"{where}: there are pages in this index. Name one that does not exist yet.")
            metadata = dataset.metadata_of(vectors.ids)
            for page, vector in vectors.items():
                writer.add(page, vector, metadata.get(page))
        index = open_index(place, encoder)
        for query in dataset.judged:
            start = time.perf_counter()
            text = dataset.queries[query]
            vector = index.encode_query(weigh(text, index) if weigh else text)
            hits = index.search(vector, k)
            seconds.append(time.perf_counter() - start)
            run[query] = {hit.id: hit.score for hit in hits}
            query_vectors.append(vector)
    return run, query_vectors, seconds


def bm25_encoder(texts: Mapping[str, str], k1: float = 1.2, b: float = 0.75) -> TextEncoder:
    """BM25 as the books have it: the average length is that of these very texts, in word pieces."""
    measure = TextEncoder().length
    lengths = [measure(text) for text in texts.values()]
    average = float(np.mean(lengths)) if lengths else 0.0
    return TextEncoder(TextOptions(k1=k1, b=b, average_length=average or 1.0))


def encode_texts(encoder: Encoder, texts: Mapping[str, str]) -> PageVectors:
    """Vectors of pages from their texts, for encoders that read text."""
    if not isinstance(encoder, TextReadingEncoder):
        raise InputError(
            f"Encoder {encoder.name!r} reads pictures, not texts. Use the encoder 'text' for texts."
        )
    return PageVectors.collect((page, encoder.encode_text(text)) for page, text in texts.items())


def _resolve(encoder: Encoder | str | None) -> Encoder:
    return load_encoder(encoder) if encoder is None or isinstance(encoder, str) else encoder


def _page_texts(dataset: Dataset, texts: str | Path | Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """One text for every page of the corpus; a page without text stays in the corpus, unfindable."""
    given = dict(texts) if isinstance(texts, Mapping) else read_page_texts(texts, dataset.image_ids)
    if dataset.image_ids is None:
        return given
    unknown = sorted(set(given) - dataset.image_ids)
    if unknown:
        raise InputError(f"A text is given for page {unknown[0]!r}, which is not in {dataset.path}.")
    missing = sorted(dataset.image_ids - set(given))
    if missing:
        notes.append(f"{len(missing)} of {len(dataset.image_ids)} pages have no text (first: {missing[0]})")
    return {**given, **dict.fromkeys(missing, "")}


def _check_same_pages(dataset: Dataset, vectors: PageVectors) -> None:
    """The searched corpus must be the judged corpus: fewer pages would look like better search."""
    dataset.check_corpus(frozenset(vectors.ids))
    if dataset.image_ids is None:
        return
    missing, extra = dataset.image_ids - set(vectors.ids), set(vectors.ids) - dataset.image_ids
    if missing:
        raise InputError(
            f"{len(missing)} of the {len(dataset.image_ids)} pages in {dataset.path / 'images'} have no "
            f"vector (first: {min(missing)!r}). Encode them too, or the score is not comparable."
        )
    if extra:
        raise InputError(f"The vectors hold page {min(extra)!r}, which is not in {dataset.path / 'images'}.")


def _judge(
    dataset: Dataset,
    encoder: Encoder,
    vectors: PageVectors,
    k: int,
    seconds: float | None,
    notes: list[str],
    where: Where | None,
) -> EvalReport:
    run, query_vectors, times = search_queries(dataset, encoder, vectors, k, where)
    values = per_query(dataset.qrels, run)
    _note_oddities(dataset, query_vectors, k, notes)
    milliseconds = np.array(times) * 1000
    return EvalReport(
        dataset=dataset.name,
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        measures=averages(values),
        queries=len(dataset.judged),
        pages=len(vectors),
        pages_per_s=None if seconds is None else len(vectors) / seconds,
        active_terms=active_terms(vectors),
        query_terms=active_terms(query_vectors),
        flops=flops(query_vectors, vectors),
        query_ms={
            "mean": float(milliseconds.mean()),
            "p50": float(np.quantile(milliseconds, 0.5)),
            "p95": float(np.quantile(milliseconds, 0.95)),
        },
        notes=tuple(notes),
        per_query=values,
        run=run,
        vectors=vectors,
    )


def _note_oddities(dataset: Dataset, queries: list[SparseVector], k: int, notes: list[str]) -> None:
    """Facts that change how a score reads, though they are no mistakes."""
    unjudged = len(dataset.queries) - len(dataset.judged)
    if unjudged:
        notes.append(f"{_queries(unjudged)} no judgement: left out")
    hopeless = sum(not any(pages.values()) for pages in dataset.qrels.values())
    if hopeless:
        notes.append(f"{_queries(hopeless)} no relevant page: zero")
    empty = sum(len(query) == 0 for query in queries)
    if empty:
        notes.append(f"{_queries(empty)} no known term: zero")
    if k < 100:
        notes.append(f"only {k} pages a query were fetched: measures beyond that depth are too low")


def _queries(number: int) -> str:
    return "1 query has" if number == 1 else f"{number:,} queries have"
