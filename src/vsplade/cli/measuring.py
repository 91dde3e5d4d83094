"""``vsplade eval``: how good the ranking is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    FUSION,
    INDEX,
    count,
    encoder_option,
    json_option,
    note,
    print_json,
    printable,
    progress_bar,
    say,
    workers_option,
)
from vsplade.cli.options import FILE, NEW_FILE, option, takes
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.evaluate import Dataset, EvalReport, Fusion, Significance


@dataclass(frozen=True)
class EvalOptions:
    texts: Path | None = option(
        "Judge these page texts ({_id, text} lines) with BM25, not the pages.", None, kind=FILE
    )
    vectors: Path | None = option(
        "Judge these page vectors (kept by --keep-vectors), not the pages.", None, kind=FILE
    )
    queries: Path | None = option("Other questions over the same pages, with --qrels.", None, kind=FILE)
    qrels: Path | None = option("The judgements of --queries.", None, kind=FILE)
    words_only: bool = option("Leave out what pages are about: judge their words alone.", False)
    keep_vectors: Path | None = option("Keep the page vectors for later runs.", None, kind=NEW_FILE)
    where: Where | None = option(
        "Put the pages into this new index, a folder or another engine's address, and search there. "
        "Default: a temporary folder.", None, flag="--index", kind=INDEX, metavar="DIR",
    )  # fmt: skip
    k: int = option("Results a query.", 100, flag="-k", kind=click.IntRange(min=1))
    run: Path | None = option("Write the results as a TREC run.", None, kind=NEW_FILE)
    compare: Path | None = option(
        "Compare with another TREC run: is it luck?", None, kind=FILE, metavar="RUN"
    )
    fuse: bool = option("With --encoder reader+text: judge what `vsplade search --fuse` would return.", False)
    weights: str | None = option(
        "Weights of the two rankings, the text layers' second; sum 1.", None, metavar="W,W"
    )
    fusion: str = option(FUSION, "rsf", choices=("rsf", "rrf"))
    measure: str = option("The measure that --compare looks at.", "ndcg@5")
    per_query: bool = option("With --json: every measure of every query too.", False)


@click.command("eval")
@click.argument("dataset", metavar="FOLDER", type=click.Path(path_type=Path))
@encoder_option
@workers_option
@takes(EvalOptions)
@json_option
def evaluate(
    dataset: Path, encoder: str | None, workers: int | None, asked: EvalOptions, as_json: bool
) -> None:
    """Measure search quality on a set of your own.

    FOLDER has images/ or pdfs/, queries.jsonl[.gz] and qrels.tsv.
    """
    from vsplade.evaluate import PageVectors, evaluate_dataset, load_dataset

    if (asked.queries is None) != (asked.qrels is None):
        raise InputError("--queries and --qrels belong together: give both or none.")
    judged = load_dataset(dataset, asked.queries, asked.qrels)
    with progress_bar(len(judged.files), "files") as update:
        report = evaluate_dataset(
            judged,
            encoder,
            vectors=PageVectors.load(asked.vectors) if asked.vectors else None,
            texts=asked.texts,
            k=asked.k,
            workers=workers,
            progress=update,
            keep_vectors=asked.keep_vectors,
            words_only=asked.words_only,
            where=asked.where,
        )
    _report(judged, report, encoder, asked, as_json)


def _report(
    judged: Dataset, report: EvalReport, encoder: str | None, asked: EvalOptions, as_json: bool
) -> None:
    """Joined and compared as asked for; then written and printed."""
    from vsplade.evaluate import write_run

    joined = None
    if asked.fuse:
        report, joined = _fuse(judged, report, encoder, asked)
    elif asked.weights is not None:
        raise InputError("--weights says how rankings are joined: give --fuse too.")
    if asked.run:
        write_run(asked.run, report.run)
    measure, other = asked.measure, asked.compare
    difference = _compare(judged, report, other, measure) if other else None
    if as_json:
        compared = difference and {"run": str(other), "measure": measure, **difference.to_json()}
        parts = {"fusion": joined and joined.to_json(), "comparison": compared}
        facts = report.to_json(per_query=asked.per_query)
        print_json(facts | {name: part for name, part in parts.items() if part})
        return
    _print_report(report)
    if joined:
        _print_fusion(joined)
    if difference:
        _print_comparison(difference, measure, other)


def _compare(data: Dataset, report: EvalReport, other: Path, measure: str) -> Significance:
    from vsplade.evaluate import paired_bootstrap, per_query, read_run

    theirs = per_query(data.qrels, read_run(other, data.queries, data.image_ids), [measure])
    return paired_bootstrap(theirs[measure], report.per_query[measure])


def _fuse(
    data: Dataset, report: EvalReport, encoder: str | None, asked: EvalOptions
) -> tuple[EvalReport, Fusion]:
    from vsplade.cli.searching import parse_weights
    from vsplade.encode import load_encoder
    from vsplade.evaluate import fuse_with_text

    how = parse_weights(asked.weights), asked.fusion, asked.measure
    return fuse_with_text(data, report, load_encoder(encoder), *how)


def _print_fusion(fusion: Fusion) -> None:
    alone = ", ".join(f"{value:.4f}" for value in fusion.alone)
    weights = ", ".join(f"{weight:.3g}" for weight in fusion.weights)
    say(f"  fused by {fusion.method}, weights {weights}; {fusion.measure} of each alone: {alone}")


def _print_report(report: EvalReport) -> None:
    names = printable(report.dataset), printable(report.encoder)
    asked = count(report.queries, "query", "queries")
    say(f"{names[0]}: {asked} on {count(report.pages, 'page')}, {names[1]}")
    for name, value in report.measures.items():
        say(f"  {name:<14} {value:.4f}")
    say(f"  {'active terms':<14} {report.active_terms:.1f} a page, {report.query_terms:.1f} a query")
    say(f"  {'FLOPS':<14} {report.flops:.3f}")
    times = ", ".join(f"{name} {value:.2f} ms" for name, value in report.query_ms.items())
    say(f"  {'query time':<14} {times}")
    if report.pages_per_s is not None:
        say(f"  {'pages a second':<14} {report.pages_per_s:.2f}")
    for remark in report.notes:
        note(f"Note: {printable(remark)}.")


def _print_comparison(result: Significance, measure: str, other: Path | None) -> None:
    say(
        f"  {measure} is {result.difference:+.4f} against {printable(str(other))} "
        f"(95% interval {result.low:+.4f} to {result.high:+.4f}, p = {result.p_value:.4f})"
    )


COMMANDS = (evaluate,)
