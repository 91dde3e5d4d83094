"""``vsplade eval`` and ``vsplade bench``: how good, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import SOME_FAILED, encoder_option, json_option, note, print_json, progress_bar

if TYPE_CHECKING:
    from vsplade.evaluate import Dataset, EvalReport, Significance

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
NEW_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)


@click.command("eval")
@click.argument("dataset", metavar="DATASET_DIR", type=click.Path(path_type=Path))
@encoder_option
@click.option(
    "--texts", type=FILE, help="Judge these page texts ({_id, text} lines) with BM25, not the pages."
)
@click.option(
    "--vectors", type=FILE, help="Judge these page vectors (kept by --keep-vectors), not the pages."
)
@click.option("--keep-vectors", type=NEW_FILE, metavar="FILE", help="Keep the page vectors for later runs.")
@click.option("-k", "k", type=click.IntRange(min=1), default=100, show_default=True, help="Results a query.")
@click.option("--workers", type=click.IntRange(min=1), help="Rendering processes. Default: one a core.")
@click.option("--run", "run_file", type=NEW_FILE, metavar="FILE", help="Write the results as a TREC run.")
@click.option("--compare", type=FILE, metavar="RUN", help="Compare with another TREC run: is it luck?")
@click.option(
    "--measure",
    "measure_name",
    default="ndcg@5",
    show_default=True,
    help="The measure that --compare looks at.",
)
@click.option("--per-query", is_flag=True, help="With --json: every measure of every query too.")
@json_option
def evaluate(
    dataset: Path,
    encoder: str | None,
    texts: Path | None,
    vectors: Path | None,
    keep_vectors: Path | None,
    k: int,
    workers: int | None,
    run_file: Path | None,
    compare: Path | None,
    measure_name: str,
    per_query: bool,
    as_json: bool,
) -> None:
    """Measure search quality on a folder with pages, queries and judgements.

    DATASET_DIR holds images/ or pdfs/, queries.jsonl[.gz] and qrels.tsv.
    """
    from vsplade.evaluate import PageVectors, evaluate_dataset, load_dataset, write_run

    data = load_dataset(dataset)
    with progress_bar(len(data.files), "files") as update:
        report = evaluate_dataset(
            data,
            encoder,
            vectors=PageVectors.load(vectors) if vectors else None,
            texts=texts,
            k=k,
            workers=workers,
            progress=update,
            keep_vectors=keep_vectors,
        )
    if run_file:
        write_run(run_file, report.run)
    difference = _compare(data, report, compare, measure_name) if compare else None
    if as_json:
        document = report.to_json(per_query=per_query)
        if difference:
            document["comparison"] = {"run": str(compare), "measure": measure_name, **difference.to_json()}
        print_json(document)
    else:
        _print_report(report)
        if difference:
            _print_comparison(difference, measure_name, compare)


def _compare(data: Dataset, report: EvalReport, other: Path, measure: str) -> Significance:
    from vsplade.evaluate import paired_bootstrap, per_query, read_run

    theirs = per_query(data.qrels, read_run(other, data.queries, data.image_ids), [measure])
    return paired_bootstrap(theirs[measure], report.per_query[measure])


def _print_report(report: EvalReport) -> None:
    click.echo(f"{report.dataset}: {report.queries:,} queries on {report.pages:,} pages, {report.encoder}")
    for name, value in report.measures.items():
        click.echo(f"  {name:<14} {value:.4f}")
    click.echo(f"  {'active terms':<14} {report.active_terms:.1f} a page, {report.query_terms:.1f} a query")
    click.echo(f"  {'FLOPS':<14} {report.flops:.3f}")
    times = ", ".join(f"{name} {value:.2f} ms" for name, value in report.query_ms.items())
    click.echo(f"  {'query time':<14} {times}")
    if report.pages_per_s is not None:
        click.echo(f"  {'pages a second':<14} {report.pages_per_s:.2f}")
    for remark in report.notes:
        note(f"Note: {remark}.")


def _print_comparison(result: Significance, measure: str, other: Path | None) -> None:
    click.echo(
        f"  {measure} is {result.difference:+.4f} against {other} "
        f"(95% interval {result.low:+.4f} to {result.high:+.4f}, p = {result.p_value:.4f})"
    )


@click.group()
def bench() -> None:
    """Measure how fast this machine is."""


@bench.command("search")
@click.option("--pages", type=click.IntRange(min=1), default=100_000, show_default=True, help="Corpus size.")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME",
    help="Measure this engine only. May be given several times. Default: all that are installed.",
)
@click.option(
    "-k", "ks", type=click.IntRange(min=1), multiple=True, help="Results a query. Default: 10, then 100."
)
@click.option("--queries", type=click.IntRange(min=1), default=200, show_default=True, help="Queries to run.")
@click.option(
    "--cap",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.35,
    show_default=True,
    help="The share of the pages that the commonest term is in.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another corpus.")
@click.option(
    "--limit",
    "limit_s",
    type=click.FloatRange(min=0, min_open=True),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up on an engine after this time.",
)
@click.option(
    "--peer-python",
    metavar="PYTHON",
    help="The interpreter of another environment, for peers that cannot be installed beside vsplade.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Build the indexes here. Default: the system's temporary folder.",
)
@json_option
def bench_search(
    pages: int,
    engines: tuple[str, ...],
    ks: tuple[int, ...],
    queries: int,
    cap: float,
    seed: int,
    limit_s: float,
    peer_python: str | None,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Generate a corpus, and search it with vsplade and with every other engine that is installed.

    Each engine runs alone, in a process of its own, on one thread.
    """
    from vsplade.bench.search import run_search_bench

    report = run_search_bench(
        pages,
        engines=engines or None,
        ks=ks or (10, 100),
        queries=queries,
        cap=cap,
        seed=seed,
        limit_s=limit_s,
        peer_python=peer_python,
        folder=folder,
        say=note if as_json else click.echo,
    )
    if as_json:
        print_json(report)
    return SOME_FAILED if report["failures"] else 0


COMMANDS = (evaluate, bench)
