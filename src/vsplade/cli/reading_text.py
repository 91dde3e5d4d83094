"""``vsplade read``: pages as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsplade.cli.common import (
    SOME_FAILED,
    count,
    json_option,
    limit_options,
    make_limits,
    note,
    note_failures,
    password_options,
    print_json,
    printable,
    say,
    workers_option,
)
from vsplade.errors import InputError, PageError

if TYPE_CHECKING:
    from vsplade.pages import FileProblem
    from vsplade.reading.page_reading import PageReading

TEXT, HOCR, PDF = "text", "hocr", "pdf"


@click.command("read")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice((TEXT, HOCR, PDF)), default=TEXT, show_default=True,
    help="Plain text; hOCR, with places; or a PDF that looks the same and can be searched.",
)  # fmt: skip
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
    help="Where to write; of pdf and several files, a folder. Default: standard output.",
)  # fmt: skip
@click.option(
    "--text-layer", is_flag=True, help="Take the words of a PDF's own text layer, where it has one."
)
@workers_option
@limit_options
@password_options
@json_option
def read_command(
    paths: tuple[str, ...],
    form: str,
    output: Path | None,
    text_layer: bool,
    workers: int | None,
    as_json: bool,
    **limits: float | None,
) -> int:
    """Print the text of pages, read from their pixels.

    It is in lower case, without marks, in reading order. FILE is a PDF, a picture, a
    folder or a pattern. --json tells the place and the certainty of each word.
    """
    from vsplade.reading.read_files import read_files

    allowed = make_limits(limits)
    if form == PDF and output is None:
        raise click.UsageError("A PDF is written to a file: add -o out.pdf.")
    problems: list[FileProblem] = []
    # A page that has a text layer can be searched already, so it needs no second one.
    results = read_files(paths, text_layer=text_layer or form == PDF, limits=allowed, workers=workers)
    readings = _without_problems(results, problems)
    if form == PDF:
        assert output is not None
        facts = _write_pdfs(readings, output, allowed, problems)
        if not as_json:
            for file in facts["files"]:
                say(
                    f"Wrote {printable(file['output'])}: {count(file['pages'], 'page')}, {file['read']} read."
                )
    else:
        facts = _write_text(readings, form, output, as_json)
    note_failures(problems)
    if as_json:
        failures = [{"path": each.path, "page": each.page, "reason": each.reason} for each in problems]
        print_json({**facts, "failures": failures})
    return SOME_FAILED if problems else 0


def _without_problems(
    results: Iterable[PageReading | FileProblem], problems: list[FileProblem]
) -> Iterator[PageReading]:
    from vsplade.pages import FileProblem

    for result in results:
        if isinstance(result, FileProblem):
            problems.append(result)
        else:
            yield result


def _write_text(
    readings: Iterator[PageReading], form: str, output: Path | None, as_json: bool
) -> dict[str, Any]:
    """Page by page as they come; with ``--json`` and no file, all of them as the facts."""
    from vsplade.reading.hocr import to_hocr

    if as_json and output is None:
        if form == HOCR:
            raise click.UsageError(
                "--format hocr is a document of its own: leave --json out, or add -o FILE."
            )
        return {"pages": [reading.to_json() for reading in readings]}
    pages = 0

    def counted() -> Iterator[PageReading]:
        nonlocal pages
        for reading in readings:
            pages += 1
            yield reading

    parts = to_hocr(counted()) if form == HOCR else _plain(counted())
    with open(output, "w", encoding="utf-8") if output else nullcontext(None) as file:
        for part in parts:
            if file is not None:
                file.write(part)
            else:
                for line in part.removesuffix("\n").split("\n"):
                    say(line)
    if output is not None and not as_json:
        note(f"Wrote {count(pages, 'page')} to {printable(str(output))}.")
    return {"pages": pages, "output": None if output is None else str(output)}


def _plain(readings: Iterable[PageReading]) -> Iterator[str]:
    """Two empty lines between pages."""
    for number, reading in enumerate(readings):
        yield ("\n\n" if number else "") + reading.text + "\n"


def _write_pdfs(
    readings: Iterator[PageReading], output: Path, limits: Any, problems: list[FileProblem]
) -> dict[str, Any]:
    """One PDF for each file; a file with a page that cannot be read keeps that page without text."""
    from itertools import groupby

    from vsplade.pages import FileProblem
    from vsplade.reading.searchable_pdf import write_searchable_pdf

    files: list[dict[str, Any]] = []
    for path, group in groupby(readings, key=lambda reading: reading.path):
        if files and not output.is_dir():
            raise InputError(
                f"Several files become several PDFs, and {output} holds the first. Make a folder and name "
                "it: -o FOLDER."
            )
        target = output / f"{Path(path).stem}.pdf" if output.is_dir() else output
        if target in [Path(file["output"]) for file in files]:
            target = output / f"{Path(path).name}.pdf"
        pages = list(group)
        try:
            write_searchable_pdf(pages, target, limits=limits)
        except PageError as error:
            problems.append(FileProblem(path, str(error).removeprefix(f"{path}: ").rstrip(".")))
            continue
        read = sum(not page.from_text_layer for page in pages)
        files.append({"path": path, "output": str(target), "pages": len(pages), "read": read})
    return {"files": files}


COMMANDS: tuple[click.Command, ...] = (read_command,)
