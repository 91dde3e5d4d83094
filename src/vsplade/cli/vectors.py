"""``vsplade encode``, ``export`` and ``import``: vectors in and out of vsplade."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    SOME_FAILED,
    Command,
    Number,
    count,
    encoder_option,
    index_option,
    json_option,
    limit_options,
    make_limits,
    note,
    note_failures,
    password_options,
    printable,
    progress_bar,
    report,
    workers_option,
)
from vsplade.cli.options import option, takes
from vsplade.cli.outputs import check_output
from vsplade.errors import InputError
from vsplade.exchange import ENGINE_FORMATS, FORMATS, IMPORTS

if TYPE_CHECKING:
    from vsplade.pages import Limits
    from vsplade.scale.encode_run import EncodeReport
    from vsplade.scale.encode_shard import EncodeOptions
    from vsplade.types import Encoder, Metadata, SparseVector

PARQUET = "parquet"
"""Out and in, in a folder of shards."""


TO_WHOLE_NUMBERS = "Anserini and CIFF take whole numbers: multiply weights by this, then round."


def scale_option(meaning: str) -> Callable[[Command], Command]:
    kind = Number(min=0, min_open=True)
    return click.option("--scale", type=kind, default=100.0, show_default=True, help=meaning)


@dataclass(frozen=True)
class VectorOptions:
    output: Path | None = option("The file to write.", None, kind=click.Path(path_type=Path, dir_okay=False))
    parquet: str | None = option(
        "Write a folder of Parquet shards instead, here or in a bucket (s3://bucket/folder). PATH may be "
        "such an address too. Run again, it does what is left.", None, metavar="DIR",
    )  # fmt: skip
    retry_failed: bool = option("With --parquet: try files again of which no page could be encoded.", False)
    ray: bool = option("With --parquet: spread the work over a Ray cluster.", False)
    ray_address: str | None = option(
        "The cluster. Default: what RAY_ADDRESS names, a cluster that runs here, or this machine alone.",
        None, metavar="ADDRESS",
    )  # fmt: skip
    ray_workers: int | None = option(
        "Workers, at most. Default: as many as the cluster holds.",
        None,
        kind=click.IntRange(min=1),
        metavar="N",
    )
    ray_cpus: int = option("CPUs of each worker.", 1, kind=click.IntRange(min=1), metavar="N")
    ray_gpus: float = option(
        "GPUs of each worker; 0.5 lets two share one.", 0.0, kind=Number(min=0), metavar="N"
    )
    form: str = option("Of the file.", "seismic", flag="--format", choices=FORMATS)
    scale: float = option(TO_WHOLE_NUMBERS, 100.0, kind=Number(min=0, min_open=True))


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@takes(VectorOptions)
@encoder_option
@workers_option
@limit_options
@password_options
@json_option
def encode(
    paths: tuple[str, ...],
    asked: VectorOptions,
    encoder: str | None,
    workers: int | None,
    as_json: bool,
    **limits: float | None,
) -> int:
    """Turn pages into vectors, without an index."""
    from vsplade.scale.encode_shard import EncodeOptions

    if (asked.output is None) == (asked.parquet is None):
        raise InputError("Say where the vectors go: give --output FILE or --parquet DIR, one of them.")
    on_ray = asked.ray or asked.ray_address is not None
    options = EncodeOptions(make_limits(limits), workers)
    if asked.output is not None:
        if on_ray:
            raise InputError("--ray writes Parquet shards: give --parquet DIR instead of --output.")
        return _encode_to_file(paths, asked.output, encoder, options, asked, as_json)
    from vsplade.exchange.shard_folder import ShardFolder

    given = ShardFolder(cast(str, asked.parquet)), options
    with progress_bar(None, "files") as update:
        if on_ray:
            from vsplade.scale.ray_encode import Cluster, encode_on_ray

            cluster = Cluster(asked.ray_address, asked.ray_workers, asked.ray_cpus, asked.ray_gpus)
            done = encode_on_ray(paths, encoder, *given, cluster, update, asked.retry_failed)
        else:
            from vsplade.encode import load_encoder
            from vsplade.scale.encode_run import encode_to_shards

            done = encode_to_shards(paths, load_encoder(encoder), *given, update, asked.retry_failed)
    return print_encoded(done, as_json)


def _encode_to_file(
    paths: tuple[str, ...],
    output: Path,
    encoder: str | None,
    options: EncodeOptions,
    asked: VectorOptions,
    as_json: bool,
) -> int:
    from vsplade.encode import load_encoder
    from vsplade.exchange.vector_files import export_vectors

    chosen = load_encoder(encoder)
    source = EncodedPages(paths, chosen, options.limits, options.workers)
    check_output(output, source.files)
    export_vectors(source, chosen.vocabulary, output, asked.form, asked.scale)
    note_failures(source.problems)
    failures = [asdict(problem) for problem in source.problems]
    facts = {"pages": source.pages, "output": str(output), "format": asked.form, "encoder": chosen.name}
    facts |= {"failed": len(failures), "failures": failures}
    report(facts, as_json, f"Wrote {count(source.pages, 'vector')} to {printable(str(output))}.")
    return SOME_FAILED if source.problems else 0


def print_encoded(done: EncodeReport, as_json: bool) -> int:
    note_failures(done.problems)
    facts = done.to_json()
    text = (
        f"Wrote {count(done.pages, 'page')} to {printable(done.output)}, which has "
        f"{count(done.pages_in_all, 'page')} in {count(done.shards, 'shard')}; {done.seconds:.1f} s"
    )
    if done.pages:
        text += f", {facts['pages_per_s'] or 0:.1f} pages/s, {facts['pages_per_core_s'] or 0:.1f} a core"
    report(facts, as_json, text)
    return SOME_FAILED if done.problems else 0


class EncodedPages:
    """The vectors of files, made as they are asked for; what cannot be read is kept in ``problems``."""

    def __init__(self, paths: Sequence[str], encoder: Encoder, limits: Limits, workers: int | None) -> None:
        from vsplade.pages import discover

        found = discover(paths)
        if not found.files and found.problems:
            raise InputError(f"{found.problems[0].path} {found.problems[0].reason}.")
        self.problems = found.problems
        self.pages = 0
        """Vectors made so far."""
        self.files, self._encoder, self._limits, self._workers = found.files, encoder, limits, workers

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        return ((page_id, vector) for page_id, vector, _ in self.pages_with_metadata())

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        from vsplade.encode.keyed import encode_rendered
        from vsplade.pages import name_files, render_for, usable

        files = name_files(self.files)
        rendered = render_for(self._encoder, files, limits=self._limits, workers=self._workers)
        for item, vector in encode_rendered(self._encoder, usable(rendered, self.problems.append)):
            self.pages += 1
            page = item.page
            own: Metadata = {"path": page.path, "page_num": page.number, "pages": item.pages}
            yield page.id, vector, {**page.metadata, **own}


@click.command()
@index_option
@click.option(
    "--output",
    required=True,
    metavar="FILE",
    help="The file to write; of opensearch, opensearch-sparse, vespa and parquet a new folder.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, *ENGINE_FORMATS, PARQUET)),
    required=True,
    help="Of the file.",
)
@scale_option(TO_WHOLE_NUMBERS)
@json_option
def export(index_dir: Where, output: str, form: str, scale: float, as_json: bool) -> None:
    """Write the vectors of an index in another engine's format."""
    from vsplade.search.open_index import open_index

    index = open_index(index_dir, whole=True)
    if form == PARQUET:
        from vsplade.exchange.parquet_index import export_parquet

        pages = export_parquet(index, output)
    elif form in ENGINE_FORMATS:
        from vsplade.exchange.engine_files import export_engine_files

        pages = export_engine_files(index, Path(output), form, scale)
        note("Note: these files follow the engine's documentation. They were not tried on a server.")
    else:
        from vsplade.exchange.vector_files import export_vectors

        check_output(Path(output))
        pages = export_vectors(index, index.encoder.vocabulary, Path(output), form, scale)
    facts = {"pages": pages, "output": output, "format": form}
    report(facts, as_json, f"Wrote {count(pages, 'vector')} to {printable(output)}.")


@click.command("import")
@click.argument("source", metavar="FILE")
@index_option
@click.option("--format", "form", type=click.Choice((*IMPORTS, PARQUET)), required=True, help="Of the file.")
@scale_option("Anserini's whole numbers are divided by this.")
@encoder_option
@json_option
def import_command(
    source: str, index_dir: Where, form: str, scale: float, encoder: str | None, as_json: bool
) -> None:
    """Add vectors from a file or folder to an index.

    Of a folder, every .json and .jsonl file is read. They must come from the encoder of the index: its
    vocabulary and its query weights are used.
    """
    pages = (
        add_parquet(source, index_dir, encoder)
        if form == PARQUET
        else _add_vectors(Path(source), index_dir, form, scale, encoder)
    )
    facts = {"pages": pages, "index": str(index_dir)}
    report(facts, as_json, f"Added {count(pages, 'vector')} to {printable(str(index_dir))}.")


def _add_vectors(source: Path, index_dir: Where, form: str, scale: float, encoder: str | None) -> int:
    from vsplade.backends.open_writer import open_writer, writing_encoder
    from vsplade.exchange.vector_files import read_pages

    chosen = writing_encoder(index_dir, encoder)
    pages = 0
    with open_writer(index_dir, chosen) as writer:
        for page in read_pages(source, chosen.vocabulary, form, scale):
            writer.add(page.id, page.vector, page.metadata)
            pages += 1
    return pages


def add_parquet(source: str, index_dir: Where, encoder: str | None) -> int:
    """The pages of a folder of shards into an index; says so when the run that wrote them is not finished."""
    from vsplade.exchange.parquet_index import import_parquet

    with progress_bar(None, "pages") as update:
        pages, finished = import_parquet(source, index_dir, encoder, update)
    if not finished:
        note(
            f"Note: the run that wrote {printable(source)} has not come to its end: run the same `vsplade "
            "encode` again, then this command, to get the rest."
        )
    return pages


COMMANDS: tuple[click.Command, ...] = (encode, export, import_command)
