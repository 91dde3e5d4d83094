"""Judge several rankings joined into one, and find the weights to join them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.evaluator import EvalReport, search_queries
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.evaluate.measures import averages, measure, per_query
from vsplade.evaluate.runs import Run
from vsplade.search.fuse import Unseen, fuse_runs, tune_weights
from vsplade.types import Encoder


@dataclass(frozen=True, slots=True)
class Fusion:
    """How runs were joined, and what each of them scores alone by the measure that was looked at."""

    weights: tuple[float, ...]
    method: str
    measure: str
    alone: tuple[float, ...]
    fused: float
    tuned_here: bool
    """The weights were chosen on these very queries: ``fused`` is too kind, judge them on others."""

    def to_json(self) -> dict[str, object]:
        return {
            "weights": list(self.weights),
            "method": self.method,
            "measure": self.measure,
            "alone": [round(value, 6) for value in self.alone],
            "fused": round(self.fused, 6),
            "tuned_on_this_set": self.tuned_here,
        }


def fuse_report(
    dataset: Dataset,
    report: EvalReport,
    others: Mapping[str, Run],
    weights: Sequence[float] | None = None,
    method: str = "rsf",
    tune: bool = False,
    measure_name: str = "ndcg@5",
    unseen: Unseen | None = None,
) -> tuple[EvalReport, Fusion]:
    """A report of ``report``'s run joined with others; ``tune`` looks for the best weights on this set."""
    if not others:
        raise InputError("There is nothing to fuse with: name at least one other run.")
    if tune and weights is not None:
        raise InputError("Give weights or tune them, not both.")
    runs = [report.run, *others.values()]
    shares = tuple(weights) if weights is not None else (1 / len(runs),) * len(runs)

    def value(run: Mapping[str, Mapping[str, float]]) -> float:
        return measure(dataset.qrels, run, [measure_name])[measure_name]

    if tune:
        shares = tune_weights(runs, value, method=method, unseen=unseen)
    run = fuse_runs(runs, shares, method, depth=100, unseen=unseen)
    values = per_query(dataset.qrels, run)
    name = " + ".join([report.encoder, *others])
    fused = replace(report, encoder=name, measures=averages(values), per_query=values, run=run)
    alone = tuple(value(one) for one in runs)
    return fused, Fusion(shares, method, measure_name, alone, fused.measures[measure_name], tune)


def text_half_run(dataset: Dataset, encoder: Encoder, vectors: PageVectors, k: int) -> tuple[Run, set[str]]:
    """What the text layers answer in vectors of ``reader+text``, and the pages that have no text layer."""
    if not isinstance(encoder, PairedEncoder):
        raise InputError(
            f"The encoder {encoder.name!r} keeps no text layers. Give --encoder {encoder.name}+text, or "
            "another run with --fuse-with."
        )
    run, _, _ = search_queries(dataset, encoder, vectors, k, weigh=encoder.encode_text_query)
    return run, {page for page, vector in vectors.items() if not encoder.has_text(vector)}
