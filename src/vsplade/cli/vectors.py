"""``vsplade encode``, ``export`` and ``import``: vectors in and out of vsplade."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from vsplade.cli.common import (
    SOME_FAILED,
    count,
    encoder_option,
    json_option,
    limit_options,
    make_limits,
    note,
    print_json,
    workers_option,
)
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.pages import FileProblem, Limits
    from vsplade.types import Encoder, Page, SparseVector, Vocabulary


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="Where they go."
)
@encoder_option
@workers_option
@limit_options
@json_option
def encode(
    paths: tuple[str, ...],
    output: Path,
    encoder: str | None,
    workers: int | None,
    as_json: bool,
    **limits: float | None,
) -> int:
    """Turn pages into vectors, one JSON line a page, without an index."""
    from vsplade.encode import load_encoder

    chosen = load_encoder(encoder)
    problems: list[FileProblem] = []
    pages = 0
    with output.open("w", encoding="utf-8") as stream:
        for page, vector in encode_paths(paths, chosen, make_limits(limits), workers, problems):
            write_line(stream, page.id, vector, chosen.vocabulary)
            pages += 1
    for problem in problems:
        note(f"Failed: {problem.path}{f', page {problem.page}' if problem.page else ''}: {problem.reason}")
    if as_json:
        failures = [asdict(problem) for problem in problems]
        facts = {"pages": pages, "output": str(output), "encoder": chosen.name}
        print_json({**facts, "failed": len(failures), "failures": failures})
    else:
        click.echo(f"Wrote {count(pages, 'vector')} to {output}.")
    return SOME_FAILED if problems else 0


def encode_paths(
    paths: Sequence[str],
    encoder: Encoder,
    limits: Limits,
    workers: int | None,
    problems: list[FileProblem],
) -> Iterator[tuple[Page, SparseVector]]:
    """Pages with their vectors, in order; what cannot be read is added to ``problems``."""
    from vsplade.pages import FileProblem, discover, name_files, render

    found = discover(paths)
    if not found.files and found.problems:
        raise InputError(f"{found.problems[0].path} {found.problems[0].reason}.")
    problems += found.problems
    waiting: deque[Page] = deque()

    def readable() -> Iterator[Page]:
        for result in render(name_files(found.files), encoder.longest_edge, limits=limits, workers=workers):
            if isinstance(result, FileProblem):
                problems.append(result)
            else:
                waiting.append(result.page)
                yield result.page

    for vector in encoder.encode_pages(readable()):
        yield waiting.popleft(), vector


def write_line(stream: TextIO, page_id: str, vector: SparseVector, vocabulary: Vocabulary) -> None:
    """``{"id": ..., "vector": {token: weight}}``, weights with all the digits that float32 has."""
    pairs = zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
    named = {vocabulary.token(term): float(f"{weight:.9g}") for term, weight in pairs}
    stream.write(json.dumps({"id": page_id, "vector": named}, ensure_ascii=False) + "\n")


COMMANDS: tuple[click.Command, ...] = (encode,)
