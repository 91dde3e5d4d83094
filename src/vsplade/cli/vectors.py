"""``vsplade encode``, ``export`` and ``import``: vectors in and out of vsplade."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vsplade.cli.common import (
    SOME_FAILED,
    Command,
    count,
    encoder_option,
    index_option,
    json_option,
    limit_options,
    make_limits,
    note,
    print_json,
    printable,
    say,
    workers_option,
)
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.pages import Limits
    from vsplade.types import Encoder, Metadata, Page, SparseVector


FORMATS = ("seismic", "anserini", "ciff")
"""As ``results.exports`` has them; repeated here so that ``--help`` need not import it. A test compares."""

output_option = click.option(
    "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The file to write."
)


def scale_option(meaning: str) -> Callable[[Command], Command]:
    return click.option(
        "--scale",
        type=click.FloatRange(min=0, min_open=True),
        default=100.0,
        show_default=True,
        help=meaning,
    )


to_whole_numbers = scale_option("Anserini and CIFF take whole numbers: multiply weights by this, then round.")
from_whole_numbers = scale_option("Anserini's whole numbers are divided by this.")


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@output_option
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="seismic", show_default=True, help="Of the file."
)
@to_whole_numbers
@encoder_option
@workers_option
@limit_options
@json_option
def encode(
    paths: tuple[str, ...],
    output: Path,
    form: str,
    scale: float,
    encoder: str | None,
    workers: int | None,
    as_json: bool,
    **limits: float | None,
) -> int:
    """Turn pages into vectors, one a page, without an index."""
    from vsplade.encode import load_encoder
    from vsplade.exchange.vector_files import export_vectors

    chosen = load_encoder(encoder)
    source = EncodedPages(paths, chosen, make_limits(limits), workers)
    export_vectors(source, chosen.vocabulary, output, form, scale)
    for problem in source.problems:
        place = f", page {problem.page}" if problem.page else ""
        note(f"Failed: {printable(problem.path)}{place}: {printable(problem.reason)}")
    if as_json:
        failures = [asdict(problem) for problem in source.problems]
        facts = {"pages": source.pages, "output": str(output), "format": form, "encoder": chosen.name}
        print_json({**facts, "failed": len(failures), "failures": failures})
    else:
        say(f"Wrote {count(source.pages, 'vector')} to {printable(str(output))}.")
    return SOME_FAILED if source.problems else 0


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
        self._files, self._encoder, self._limits, self._workers = found.files, encoder, limits, workers
        self._waiting: deque[tuple[str, Metadata]] = deque()

    def vectors(self) -> Iterator[tuple[str, SparseVector]]:
        return ((page_id, vector) for page_id, vector, _ in self.pages_with_metadata())

    def pages_with_metadata(self) -> Iterator[tuple[str, SparseVector, Metadata]]:
        for vector in self._encoder.encode_pages(self._readable()):
            self.pages += 1
            page_id, metadata = self._waiting.popleft()
            yield page_id, vector, metadata

    def _readable(self) -> Iterator[Page]:
        from vsplade.pages import FileProblem, name_files, render_for

        files = name_files(self._files)
        for result in render_for(self._encoder, files, limits=self._limits, workers=self._workers):
            if isinstance(result, FileProblem):
                self.problems.append(result)
            else:
                page = result.page
                own: Metadata = {"path": page.path, "page_num": page.number, "pages": result.pages}
                self._waiting.append((page.id, {**page.metadata, **own}))
                yield result.page


@click.command()
@index_option
@output_option
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="Of the file.")
@to_whole_numbers
@json_option
def export(index_dir: Path, output: Path, form: str, scale: float, as_json: bool) -> None:
    """Write the vectors of an index in another engine's format."""
    from vsplade.exchange.vector_files import export_vectors
    from vsplade.search.index import Index

    index = Index.open(index_dir)
    pages = export_vectors(index, index.encoder.vocabulary, output, form, scale)
    if as_json:
        print_json({"pages": pages, "output": str(output), "format": form})
    else:
        say(f"Wrote {count(pages, 'vector')} to {printable(str(output))}.")


@click.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@index_option
@click.option("--format", "form", type=click.Choice(FORMATS[:2]), required=True, help="Of the file.")
@from_whole_numbers
@encoder_option
@json_option
def import_command(
    source: Path, index_dir: Path, form: str, scale: float, encoder: str | None, as_json: bool
) -> None:
    """Add vectors from FILE (or from every .json and .jsonl file of a folder) to an index.

    They must come from the encoder of the index: its vocabulary and its query weights are used.
    """
    from vsplade.encode import load_encoder
    from vsplade.exchange.vector_files import read_pages
    from vsplade.search.index import Index
    from vsplade.store import manifest
    from vsplade.store.writer import IndexWriter

    known = encoder is None and manifest.exists(index_dir)
    chosen = Index.open(index_dir).encoder if known else load_encoder(encoder)
    pages = 0
    with IndexWriter(index_dir, chosen) as writer:
        for page in read_pages(source, chosen.vocabulary, form, scale):
            writer.add(page.id, page.vector, page.metadata)
            pages += 1
    if as_json:
        print_json({"pages": pages, "index": str(index_dir)})
    else:
        say(f"Added {count(pages, 'vector')} to {printable(str(index_dir))}.")


COMMANDS: tuple[click.Command, ...] = (encode, export, import_command)
