"""I have pages, questions and judgements, tell me how good it is: data sets, measures, runs, reports."""

from __future__ import annotations

from vsplade.evaluate.dataset import Dataset, load_dataset, read_page_texts
from vsplade.evaluate.evaluator import EvalReport, bm25_encoder, encode_texts, evaluate_dataset
from vsplade.evaluate.fusion import Fusion, fuse_with_text
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import (
    MEASURES,
    Significance,
    active_terms,
    flops,
    measure,
    paired_bootstrap,
    per_query,
)
from vsplade.evaluate.runs import Run, read_run, write_run

__all__ = [
    "MEASURES",
    "Dataset",
    "EvalReport",
    "Fusion",
    "PageVectors",
    "Run",
    "Significance",
    "active_terms",
    "bm25_encoder",
    "encode_texts",
    "evaluate_dataset",
    "flops",
    "fuse_with_text",
    "load_dataset",
    "measure",
    "paired_bootstrap",
    "per_query",
    "read_page_texts",
    "read_run",
    "write_run",
]
