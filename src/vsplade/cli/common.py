"""What every command shares: the options that come back, and how things are printed."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vsplade.backends.address import Where, as_where, is_address
from vsplade.config import make_options
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.pages import FileProblem, Limits

Command = TypeVar("Command", bound=Callable[..., object])

SOME_FAILED = 1
"""Exit code of a job that went through, with files that could not be used."""


class IndexPlace(click.Path):
    """A folder, as a path; or the address of an index on another engine, as a text."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":  # a variable that is not set: never the folder one happens to be in
            self.fail("the name is empty.", param, context)
        return as_where(value) if is_address(value) else super().convert(value, param, context)


class Number(click.FloatRange):
    """Within limits. ``nan`` passes all of them, and infinity those that are open: neither can be used."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        number: float = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, context)
        return number


INDEX = IndexPlace(path_type=Path, file_okay=False)
OWN_INDEX = ".vsplade"
"""A folder's own index, below it."""


def _or_default(context: click.Context, option: click.Parameter, given: Where | None) -> Where:
    """What is given, else what the environment names, else the index of this folder or of one above it."""
    if given is not None:
        return given
    named = os.environ.get("VSPLADE_INDEX")
    if named:
        return as_where(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / OWN_INDEX / "MANIFEST").is_file():
            return folder / OWN_INDEX
    raise click.MissingParameter(
        "Name the index with --index DIR, or with the environment variable VSPLADE_INDEX; an index named "
        f"{OWN_INDEX} is found from its folder and those below.",
        context,
        option,
    )


def _only_one(context: click.Context, option: click.Parameter, given: tuple[Where, ...]) -> Where:
    if len(given) > 1:
        raise click.BadParameter(
            "this command takes one index. `vsplade search` takes several, and `vsplade merge` joins them.",
            context,
            option,
        )
    return _or_default(context, option, given[0] if given else None)


def folder_of(index: Where, what: str) -> Path:
    """For what concerns the files of an index."""
    if isinstance(index, Path):
        return index
    raise InputError(f"{index}: {what} is for indexes in a folder; the engine looks after its own files.")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
index_option = click.option(
    "--index",
    "index_dir",
    metavar="DIR",
    multiple=True,
    type=INDEX,
    callback=_only_one,
    help="The folder that holds the index, or its address on another engine (milvus://HOST:PORT/NAME). "
    "Default: the environment variable VSPLADE_INDEX, or .vsplade in this folder or one above it.",
)
indexes_option = click.option(
    "--index",
    "index_dirs",
    metavar="DIR",
    multiple=True,
    type=INDEX,
    callback=lambda context, option, given: given or (_or_default(context, option, None),),
    help="The folder that holds the index, or its address on another engine; folders given several times "
    "are searched as one. Default: the environment variable VSPLADE_INDEX, or .vsplade in this folder or "
    "one above it.",
)
encoder_option = click.option(
    "--encoder",
    metavar="NAME",
    help="What turns pages into words: a name, with options as in text:k1=0.9. Default: the index's own, "
    "or the best that is installed.",
)
filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="CONDITION",
    help="Only pages whose metadata agree: year=2024, kind=a,b, year=2020..2024, year>=2020, lang!=de, "
    "path^=/reports/. May be given several times; all must hold.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that render pages. Default: half of the processors.",
)
FUSION = "Relative score fusion (the paper's), or reciprocal rank fusion."


def password_options(command: Command) -> Command:
    """``--password`` and ``--password-file``: known to every process that opens files from then on."""
    given = click.option(
        "--password",
        "passwords",
        multiple=True,
        metavar="TEXT",
        expose_value=False,
        callback=lambda context, parameter, values: _use_passwords(values),
        help="Opens protected PDFs; may be given several times. Others on this machine may see it: "
        "--password-file or the environment variable VSPLADE_PDF_PASSWORDS (one a line) is safer.",
    )
    in_file = click.option(
        "--password-file",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="FILE",
        expose_value=False,
        callback=lambda context, parameter, file: _use_passwords(() if file is None else file),
        help="Passwords of protected PDFs, one a line.",
    )
    return given(in_file(command))


def _use_passwords(given: Sequence[str] | Path) -> None:
    if given:
        from vsplade.pages.passwords import read_passwords, use_passwords

        use_passwords(read_passwords(given) if isinstance(given, Path) else given)


def limit_options(command: Command) -> Command:
    """``--max-bytes`` and its like, one for each field of ``pages.Limits``; read with ``make_limits``."""
    for name, kind, meaning in reversed(_LIMITS):
        flag = "--max-" + name
        command = click.option(flag, type=kind, metavar=name.upper(), help=f"Refuse {meaning}.")(command)
    return command


_LIMITS: tuple[tuple[str, type, str], ...] = (
    ("bytes", int, "files larger than this (default: 1 GiB)"),
    ("pages", int, "files with more pages than this (default: 20,000)"),
    ("pixels", int, "pictures with more pixels than this (default: 150 million)"),
    ("seconds", float, "pages that take longer than this to render (default: 60)"),
)


def make_limits(given: dict[str, float | None]) -> Limits:
    """The limits with what was given on the command line put in."""
    from vsplade.pages import Limits

    return make_options(Limits, {key: value for key, value in given.items() if value is not None}, "limits")


def print_json(document: object) -> None:
    """The one document of a ``--json`` run.

    Control characters and those that turn the direction of writing are escaped, wherever they stand: they
    never reach a terminal, and ``json.loads`` gives them back. All but ASCII is escaped in a terminal that is
    not UTF-8.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    text = _BEYOND_ASCII.sub(_json_escape, text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, indent=2, allow_nan=False)
    click.echo(text)


_BEYOND_ASCII = re.compile(r"[^\n -~]")


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def say(message: str = "") -> None:
    """A result, or a part of one, for people."""
    click.echo(_for_terminal(message))


def report(facts: object, as_json: bool, text: str) -> None:
    """The result: for programs, or for people."""
    if as_json:
        print_json(facts)
    else:
        say(text)


def note(message: str) -> None:
    """Anything that is not the result: progress, hints, warnings."""
    click.echo(_for_terminal(message), err=True)


def note_failures(problems: Sequence[FileProblem]) -> None:
    for problem in problems:
        note(f"Failed: {printable(problem.place)}: {printable(problem.reason)}")


_OUR_STYLE = re.compile(r"(\x1b\[[0-9;]*m|\x1b\]8;;(?:file://[-\w./~%]*)?\x1b\\|\n)")


def _for_terminal(message: str) -> str:
    """Nothing that a terminal would obey, but for line ends, and colours and links of our own."""
    parts = _OUR_STYLE.split(message)
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(parts))


def style(text: str, *, bold: bool = False, dim: bool = False, fg: str | None = None) -> str:
    """Text that came from outside, made safe to show, with a colour of our own."""
    return click.style(printable(text), bold=bold or None, dim=dim or None, fg=fg)


def printable(name: str) -> str:
    """On one line, and without what a terminal would obey: names of files may hold any character.

    The one place that makes text safe to show. Control characters (C0, C1), marks that turn the direction of
    writing and other characters without a shape are written as Python escapes.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@contextmanager
def progress_bar(total: int | None, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with rate and time left on stderr, when that is a terminal; call it with (done, total)."""
    from tqdm import tqdm

    with tqdm(total=total, unit=f" {unit}", disable=None, dynamic_ncols=True) as bar:

        def update(done: int, whole: int) -> None:
            bar.total = whole
            bar.update(done - bar.n)

        yield update


def short_path(path: str) -> str:
    """As a person would type it here: relative for what lies below the current folder."""
    try:
        return printable(str(Path(path).relative_to(Path.cwd())))
    except ValueError:
        return printable(path)


def linked(shown: str, path: str) -> str:
    """A path that can be clicked, on a terminal (OSC 8); those that do not know such links show the text."""
    if not sys.stdout.isatty() or not os.path.isabs(path):
        return shown
    try:
        return f"\033]8;;{Path(path).as_uri()}\033\\{shown}\033]8;;\033\\"
    except (ValueError, UnicodeEncodeError):
        return shown


def count(number: int, noun: str, several: str = "") -> str:
    """``1 page``, ``2,048 pages``, ``3 queries``."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def size(number: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("the loop returns at its last unit")
