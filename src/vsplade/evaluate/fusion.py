"""What ``vsplade search --fuse`` would return on a data set: two rankings joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import EvalReport, search_queries
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import averages, measure, per_query
from vsplade.evaluate.runs import Run
from vsplade.search.fuse import fuse_runs
from vsplade.search.fused_search import READER_AND_TEXT
from vsplade.types import Encoder

DEPTH = 100


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the two rankings were joined, and what each scores alone by the measure that was looked at."""

    weights: tuple[float, ...]
    method: str
    measure: str
    alone: tuple[float, ...]
    fused: float

    def to_json(self) -> dict[str, object]:
        return {
            "weights": list(self.weights),
            "method": self.method,
            "measure": self.measure,
            "alone": [round(value, 6) for value in self.alone],
            "fused": round(self.fused, 6),
        }


def fuse_with_text(
    dataset: Dataset,
    report: EvalReport,
    encoder: Encoder,
    weights: Sequence[float] | None = None,
    method: str = "rsf",
    measure_name: str = "ndcg@5",
) -> tuple[EvalReport, Fusion]:
    """``report`` of ``reader+text`` with its run joined with that of the text layers."""
    if report.vectors is None:
        raise InputError("There are no page vectors to take the text layers from.")
    text, unseen = text_half_run(dataset, encoder, report.vectors, DEPTH)
    runs, shares = [report.run, text], tuple(weights or READER_AND_TEXT)
    run = fuse_runs(runs, shares, method, DEPTH, [set(), unseen])
    values = per_query(dataset.qrels, run)
    fused = replace(
        report, encoder=f"{report.encoder} + text layer", measures=averages(values), per_query=values, run=run
    )
    alone = tuple(measure(dataset.qrels, one, [measure_name])[measure_name] for one in runs)
    return fused, Fusion(shares, method, measure_name, alone, fused.measures[measure_name])


def text_half_run(dataset: Dataset, encoder: Encoder, vectors: PageVectors, k: int) -> tuple[Run, set[str]]:
    """What the text layers answer in vectors of ``reader+text``, and the pages that have no text layer."""
    if not isinstance(encoder, PairedEncoder):
        raise InputError(
            f"The encoder {encoder.name!r} keeps no text layers. Give --encoder {encoder.name}+text."
        )
    run, _, _ = search_queries(dataset, encoder, vectors, k, weigh=encoder.encode_text_query)
    return run, {page for page, vector in vectors.items() if not encoder.has_text(vector)}
