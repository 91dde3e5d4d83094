"""``vsplade read``: pages as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from itertools import count as count_from
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
from vsplade.cli.outputs import check_no_source, check_output
from vsplade.errors import InputError, PageError
from vsplade.store.durable import write_output

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
    from vsplade.pages import discover, usable
    from vsplade.reading.read_files import read_files

    allowed = make_limits(limits)
    if form == PDF and output is None:
        raise click.UsageError("A PDF is written to a file: add -o out.pdf.")
    found = discover(paths)
    if not found.files and not found.problems:
        raise InputError("There are no pages in the paths given.")
    if output is not None:
        _check_output(output, form, found.files)
    problems: list[FileProblem] = []
    # A page that has a text layer can be searched already, so it needs no second one.
    results = read_files(found, text_layer=text_layer or form == PDF, limits=allowed, workers=workers)
    readings = usable(results, problems.append)
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
        print_json({**facts, "failures": [asdict(problem) for problem in problems]})
    return SOME_FAILED if problems else 0


def _check_output(output: Path, form: str, files: list[str]) -> None:
    """Before anything is written."""
    if form != PDF:
        check_output(output, files)
    elif not output.is_dir():
        check_no_source(output, files)
        if len(files) > 1:
            raise InputError(
                f"Several files become several PDFs, and {output} is no folder. Make a folder and name it: "
                "-o FOLDER."
            )


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
    if output is not None:
        write_output(output, (part.encode() for part in parts))
        if not as_json:
            note(f"Wrote {count(pages, 'page')} to {printable(str(output))}.")
    else:
        for part in parts:
            for line in part.removesuffix("\n").split("\n"):
                say(line)
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
        target = _free_name(output, path, files) if output.is_dir() else output
        pages = list(group)
        try:
            write_searchable_pdf(pages, target, limits=limits)
        except PageError as error:
            problems.append(FileProblem(path, str(error).removeprefix(f"{path}: ").rstrip(".")))
            continue
        read = sum(not page.from_text_layer for page in pages)
        files.append({"path": path, "output": str(target), "pages": len(pages), "read": read})
    return {"files": files}


def _free_name(folder: Path, source: str, written: list[dict[str, Any]]) -> Path:
    """Files of one name, from several folders, become files of several names."""
    taken = {file["output"] for file in written}
    stem = Path(source).stem
    names = chain([stem, Path(source).name], (f"{stem}-{number}" for number in count_from(2)))
    return next(folder / f"{name}.pdf" for name in names if str(folder / f"{name}.pdf") not in taken)


COMMANDS: tuple[click.Command, ...] = (read_command,)
