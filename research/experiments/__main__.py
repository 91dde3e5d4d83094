"""``python -m research.experiments NAME DATASET ...``: one experiment, one JSON document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments import behaviour, cases, flops, fusing, grounding, growth, lexicon, reranking, scale
from research.experiments.embeddings import Embeddings
from research.experiments.hub import open_dataset
from research.experiments.knownitem import page_texts
from vsplade.encode import load_encoder
from vsplade.errors import InputError
from vsplade.evaluate import PageVectors, evaluate_dataset, read_page_texts, read_run
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import bm25_encoder, encode_texts
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.types import Encoder

PAPER_PAGES = 18_700_000


def _dataset(options: ExperimentOptions) -> Dataset:
    if (options.queries is None) != (options.qrels is None):
        raise InputError("--queries and --qrels belong together: give both or none.")
    return open_dataset(options.dataset, options.data, options.queries, options.qrels)


def _inputs(options: ExperimentOptions) -> tuple[Dataset, Encoder, PageVectors]:
    """The data set, the encoder, and the words of its page vectors: kept ones, or encoded now. What pages are
    about is left out: the paper's model has words only.
    """
    dataset, encoder = _dataset(options), load_encoder(options.encoder)
    vectors = PageVectors.load(options.vectors) if options.vectors else None
    vectors = vectors or evaluate_dataset(dataset, encoder).vectors
    if vectors is None:
        raise InputError(f"{options.dataset} has no pages to encode.")
    return dataset, encoder, replace(vectors, windows=())


def _texts(options: ExperimentOptions, dataset: Dataset) -> dict[str, str]:
    if not options.texts:
        raise InputError("This experiment needs --texts: a jsonl of page texts (captions, OCR).")
    texts = read_page_texts(options.texts, dataset.image_ids)
    return {**texts, **dict.fromkeys((dataset.image_ids or frozenset()) - set(texts), "")}


def run_grounding(options: ExperimentOptions) -> object:
    """Reference: --reference texts, or the PDFs' own text layer."""
    dataset, encoder, image = _inputs(options)
    if options.reference:
        reference = read_page_texts(options.reference, dataset.image_ids)
    else:
        reference = page_texts(dataset.files)
    reference = {page: text for page, text in reference.items() if len(text.split()) >= 50}
    views = {"text (upper bound)": lexicon.encode_texts(encoder, reference), "image": image}
    if options.texts:
        views["caption"] = lexicon.encode_texts(encoder, _texts(options, dataset))
        views["gate (image x caption)"] = grounding.gate(image, views["caption"])
    table = grounding.grounding(encoder, reference, views)
    return {"dataset": dataset.name, "encoder": encoder.name, "pages": len(reference), "overlap": table}


def run_union(options: ExperimentOptions) -> object:
    dataset, encoder, image = _inputs(options)
    captions = lexicon.encode_texts(encoder, _texts(options, dataset))
    return grounding.union_analysis(dataset, encoder, image, captions)


def run_behaviour(options: ExperimentOptions) -> object:
    dataset, encoder, vectors = _inputs(options)
    rows = [behaviour.behaviour(dataset, encoder, vectors)]
    if options.texts:
        texts = _texts(options, dataset)
        bm25 = bm25_encoder(texts)
        rows.append(
            behaviour.behaviour(dataset, bm25, encode_texts(bm25, texts)) | {"encoder": "BM25 on texts"}
        )
    return rows


def run_subsets(options: ExperimentOptions) -> object:
    dataset = _dataset(options)
    rows = behaviour.query_subsets(dataset, _runs(options, dataset))
    return {"dataset": dataset.name, "measure": "recall@5", "rows": rows}


def _runs(options: ExperimentOptions, dataset: Dataset) -> dict[str, Run]:
    if not options.run:
        raise InputError("This experiment compares runs: give --run NAME=FILE, at least once.")
    runs = {}
    for given in options.run:
        name, _, path = given.partition("=")
        if not path:
            raise InputError(f"Cannot read --run {given!r}: write NAME=FILE.")
        runs[name] = read_run(path, dataset.queries, dataset.image_ids)
    return runs


def run_fusion(options: ExperimentOptions) -> object:
    """The sparse run first, then dense ones: the best weight of every two, as at the paper's scale."""
    dataset = _dataset(options)
    return {"dataset": dataset.name, "rows": fusing.fusion_at_scale(dataset, _runs(options, dataset))}


def run_reranking(options: ExperimentOptions) -> object:
    """Every run's first 100 pages by --model: a ColModernVBERT, or minilm over --texts."""
    dataset = _dataset(options)
    runs = _runs(options, dataset)
    if options.model == "minilm":
        rerank = reranking.text_reranker(dataset, _texts(options, dataset))
    else:
        rerank = reranking.picture_reranker(dataset, options.model)
    rows = reranking.reranking(dataset, runs, rerank)
    return {"dataset": dataset.name, "model": options.model, "rows": rows}


def run_cases(options: ExperimentOptions) -> object:
    dataset, encoder, vectors = _inputs(options)
    found = cases.token_cases(dataset, encoder, vectors, _texts(options, dataset))
    return {"dataset": dataset.name, "encoder": encoder.name, "cases": found}


def run_flops(options: ExperimentOptions) -> object:
    dataset, encoder, vectors = _inputs(options)
    report = evaluate_dataset(dataset, encoder, vectors=vectors)
    # What a neural encoder would be given; an encoder of ours may add related terms to a query.
    terms_of = lexicon.text_terms(encoder)
    lengths = [len(terms_of(dataset.queries[query])) for query in dataset.judged]
    tokens = round(sum(lengths) / len(lengths))
    table = [row.to_json() for row in flops.serving_table(report.flops, tokens)]
    return {"dataset": dataset.name, "encoder": encoder.name, "query_tokens": tokens, "per_query": table}


def run_scale(options: ExperimentOptions) -> object:
    """Full and two-stage search, of --index as it is or of the data set's vectors, beside dense search over
    --embeddings; with --sizes also faiss on so many random rows.
    """
    threads = options.threads or scale.thread_counts()
    if options.index:
        dataset, encoder = _dataset(options), load_encoder(options.encoder)
        sparse = scale.search_table(dataset, encoder, options.index, threads)
    else:
        dataset, encoder, vectors = _inputs(options)
        sparse = scale.two_stage(dataset, encoder, vectors, threads=threads)
    for path in options.embeddings:
        sparse += scale.dense_table(dataset, Embeddings.load(path), threads)
    dense = [scale.dense_latency(size, kind=kind) for size in options.sizes for kind in ("flat", "hnsw")]
    return {"dataset": dataset.name, "encoder": encoder.name, "rows": sparse, "random rows": dense}


def run_growth(options: ExperimentOptions) -> object:
    """Of --index as it is (samples of its pages), or of the data set's vectors among others."""
    if options.index:
        dataset, encoder = _dataset(options), load_encoder(options.encoder)
        index = Index.open(options.index, encoder)
        rows = growth.recall_in_samples(dataset, index, options.sizes or (len(index),))
        return {"dataset": dataset.name, "encoder": encoder.name, "rows": rows}
    dataset, encoder, vectors = _inputs(options)
    others = []
    for path in options.others:
        loaded = PageVectors.load(path)
        others += [(f"{path.stem}/{page}", vector) for page, vector in loaded.items()]
    for path in options.other_texts:
        others += [
            (f"{path.name}/{page}", lexicon.encode_text(encoder, text)) for page, text in _any_texts(path)
        ]
    found = PageVectors.collect(others)
    sizes = options.sizes or tuple(sorted({len(vectors), len(vectors) + len(found)}))
    rows = growth.recall_as_it_grows(dataset, encoder, vectors, found, sizes)
    dense: list[dict[str, object]] = []
    if options.embeddings:
        own, *more = map(Embeddings.load, options.embeddings)
        held = [size for size in sizes if size <= len(own.pages) + sum(len(other.pages) for other in more)]
        dense = growth.dense_as_it_grows(dataset, own, Embeddings.joined(more) if more else None, held)
    line: dict[str, float] = {}
    if len(set(sizes)) > 1:
        line[f"recall@5 at {PAPER_PAGES:,} pages"] = round(growth.extrapolate(rows, PAPER_PAGES), 3)
    return {
        "dataset": dataset.name,
        "encoder": encoder.name,
        "real others": len(found),
        "rows": rows,
        "dense rows": dense,
        "extrapolation, not measured": line,
    }


def _any_texts(path: Path) -> list[tuple[str, str]]:
    """Texts of a jsonl that was not made for us: the field ``text`` of every line."""
    from research.experiments.tables import read_rows

    return [(str(number), row.text("text", "tsv", "table")) for number, row in enumerate(read_rows(path))]


EXPERIMENTS: dict[str, Callable[[ExperimentOptions], Any]] = {
    "grounding": run_grounding,
    "union": run_union,
    "behaviour": run_behaviour,
    "subsets": run_subsets,
    "flops": run_flops,
    "growth": run_growth,
    "scale": run_scale,
    "fusion": run_fusion,
    "reranking": run_reranking,
    "cases": run_cases,
}


@dataclass(frozen=True)
class ExperimentOptions:
    experiment: str = option("Which one.", argument=True, choices=tuple(EXPERIMENTS))
    dataset: str = option("A folder, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    queries: Path | None = option("Other questions over the same pages, with --qrels.", None)
    qrels: Path | None = option("The judgements of --queries.", None)
    encoder: str | None = option("Default: the best that is installed.", None)
    vectors: Path | None = option("Page vectors kept by vsplade eval --keep-vectors.", None)
    texts: Path | None = option("Captions or OCR: {_id, text} lines.", None)
    reference: Path | None = option("grounding: texts of the pages; default: text layers.", None)
    run: tuple[str, ...] = option("NAME=FILE, a TREC run; may be given several times.", ())
    others: tuple[Path, ...] = option("growth: vectors of other pages.", ())
    other_texts: tuple[Path, ...] = option("growth: other texts (jsonl).", ())
    sizes: tuple[int, ...] = option("growth, scale: corpus sizes.", ())
    index: Path | None = option("growth, scale: an index of vsplade, searched as it is.", None)
    embeddings: tuple[Path, ...] = option("growth, scale: dense vectors.", ())
    threads: tuple[int, ...] = option("scale; default: 1, 2, 4, ... up to 20.", ())
    model: str = option("reranking: minilm, or a ColModernVBERT by name.", "minilm")


def experiment(options: ExperimentOptions) -> Any:
    """One experiment of the paper, one JSON document."""
    return EXPERIMENTS[options.experiment](options)


if __name__ == "__main__":
    main(experiment, ExperimentOptions)
