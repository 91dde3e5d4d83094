"""``vsplade index``: files into an index, and follow them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    SOME_FAILED,
    count,
    encoder_option,
    folder_of,
    index_option,
    json_option,
    limit_options,
    make_limits,
    note,
    note_failures,
    password_options,
    print_json,
    printable,
    report,
    say,
    workers_option,
)
from vsplade.cli.options import option, takes
from vsplade.cli.upkeep import check_index, recover_index
from vsplade.errors import InputError

if TYPE_CHECKING:
    from vsplade.ingest import IngestReport
    from vsplade.types import Json


LISTED = 10
"""Files that a note names at most."""


@dataclass(frozen=True)
class IndexOptions:
    model: str | None = option(
        "Read pages with the paper's model instead: a hub name such as naver/v-splade-quality, or a folder.",
        None, metavar="NAME_OR_FOLDER",
    )  # fmt: skip
    prune: bool = option("Also remove the pages of files that no longer exist.", False)
    meta: tuple[str, ...] = option(
        "Give every page of this run a value to filter by. May be given several times; one key with several "
        "values makes a list.", (), metavar="KEY=VALUE",
    )  # fmt: skip
    thumbnails: int = option(
        "Keep a small picture of each page, with this longest edge. Default: none.", 0,
        kind=click.IntRange(min=0), metavar="PIXELS",
    )  # fmt: skip
    from_parquet: str | None = option(
        "Index no files: add the pages that `vsplade encode --parquet` wrote, from a folder or a bucket.",
        None, metavar="DIR",
    )  # fmt: skip
    watch: bool = option("Go on: index what is added, changed or removed, until ctrl-C.", False)
    check: bool = option("Index nothing: verify every byte of the index instead.", False)
    recover: bool = option(
        "First get back what can be trusted of an index that lost its manifest or is damaged.", False
    )


@click.command("index")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@index_option
@encoder_option
@takes(IndexOptions)
@workers_option
@limit_options
@password_options
@json_option
def index_command(
    paths: tuple[str, ...],
    index_dir: Where,
    encoder: str | None,
    asked: IndexOptions,
    workers: int | None,
    as_json: bool,
    **limits: float | None,
) -> int:
    """Bring an index up to date with files and folders.

    Globs are taken, too, and - reads a list from standard input. Unchanged files are skipped, changed ones
    replaced. An interrupted run goes on where it stopped.
    """
    if asked.check:
        _check_alone(paths, asked.recover)
        return check_index(folder_of(index_dir, "--check"), as_json)
    if asked.recover:
        recover_index(folder_of(index_dir, "--recover"), encoder, as_json=as_json and not paths)
        if not paths:
            return 0
    if asked.from_parquet is not None:
        return _add_shards(asked.from_parquet, paths, index_dir, encoder, as_json)
    if not paths:
        _check_prunes(index_dir, asked.prune)
    if encoder and asked.model:
        raise InputError("--model chooses the encoder: leave --encoder out, or leave --model out.")
    from vsplade.ingest import index_paths

    given: dict[str, Any] = {
        "prune": asked.prune or asked.watch,
        "workers": workers,
        "limits": make_limits(limits),
        "metadata": parse_metadata(asked.meta) or None,  # none given: files keep what they have
        "thumbnails": asked.thumbnails,
        "progress": sys.stderr.isatty(),
    }
    chosen = encoder if asked.model is None else model_encoder(asked.model)
    if asked.watch:
        _watch(paths, index_dir, chosen, as_json, given)
    done = index_paths(paths, index_dir, chosen, **given)
    if as_json:
        print_json(done.to_json())
    else:
        _print_report(done)
    return SOME_FAILED if done.failed else 0


def _check_alone(paths: Sequence[str], recover: bool) -> None:
    if recover:
        raise InputError("--check changes nothing, and --recover does: give one of them.")
    if paths:
        raise InputError("--check looks at the index only: leave the paths out, or leave --check out.")


def _check_prunes(index_dir: Where, prune: bool) -> None:
    """What can be done without any path."""
    from vsplade.backends.open_writer import stored_encoder

    if not prune:
        raise InputError(
            "Give at least one PATH: a file, a folder, a glob, or - for a list on standard input."
        )
    if stored_encoder(index_dir) is None:
        raise InputError(f"{index_dir}: there is no index here to take pages from. Check the folder's name.")


def _watch(
    paths: tuple[str, ...], index_dir: Where, encoder: str | None, as_json: bool, given: dict[str, Any]
) -> None:
    if as_json or "-" in paths:
        raise InputError(
            "--watch goes on for ever: it works with neither --json nor a list on standard input."
        )
    from vsplade.ingest.watching import watch as watch_paths

    watch_paths(paths, index_dir, encoder, _print_report, **given)


def _add_shards(
    source: str, paths: tuple[str, ...], index_dir: Where, encoder: str | None, as_json: bool
) -> int:
    from vsplade.cli.vectors import add_parquet

    if paths:
        raise InputError("--from-parquet adds pages that are encoded already: leave the paths out.")
    pages = add_parquet(source, index_dir, encoder)
    facts = {"pages": pages, "index": str(index_dir), "from_parquet": source}
    text = f"{count(pages, 'page')} of {printable(source)} are in {printable(str(index_dir))}."
    report(facts, as_json, text)
    return 0


def model_encoder(model: str) -> str:
    """``--model`` as the encoder's name; one of our own encoders is not a model of that kind."""
    base = model.partition(":")[0]
    if "/" not in base and not Path(base).is_dir():
        raise InputError(
            f"There is no folder {base}. Give --model a folder with a model, or a hub name such as "
            "naver/v-splade-quality; other encoders are chosen with --encoder."
        )
    return model


def parse_metadata(given: Sequence[str]) -> dict[str, Json | list[Json]]:
    """``key=value`` texts; a value that is written as a number or as true or false becomes one.

    A key that is given several times has a list of values (tags).
    """
    values: dict[str, list[Json]] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"Cannot read --meta {text!r}: write KEY=VALUE.")
        values.setdefault(key.strip(), []).append(_value(value))
    return {key: several if len(several) > 1 else several[0] for key, several in values.items()}


def _value(text: str) -> Json:
    """Only what is written as Python or JSON would write it: ``007`` and ``1e5`` stay text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            if str(kind(text)) == text and text not in ("nan", "inf", "-inf"):
                return kind(text)
        except ValueError:
            continue
    return text


def _print_report(done: IngestReport) -> None:
    parts = [
        f"{number:,} {name}"
        for number, name in (
            (done.new, "new"),
            (done.updated, "updated"),
            (done.skipped, "skipped"),
            (done.removed, "removed"),
            (done.failed, "failed"),
            (done.moved, "of moved files"),
        )
        if number or name != "of moved files"
    ]
    say(
        f"{count(done.pages, 'page')} of {count(done.files, 'file')}: {', '.join(parts)}; "
        f"{done.seconds:.1f} s" + (f", {done.pages_per_s:.1f} pages/s" if done.pages_per_s else "")
    )
    note_failures(done.failures)
    if done.empty:
        note(
            f"Note: on {count(done.empty, 'page')} no words were found, so no search finds "
            f"{'it' if done.empty == 1 else 'them'}: blank, or (with the encoder 'text') no text layer."
        )
    if done.illegible:
        _note_illegible(done.illegible)
    if done.passed_over:
        kinds = ", ".join(
            f"{n:,} {printable(end) or 'without an ending'}" for end, n in done.passed_over.items()
        )
        note(f"Note: files of other kinds were passed over: {kinds}.")
        _note_missing(done.passed_over)


def _note_missing(passed_over: Mapping[str, int]) -> None:
    """What would have to be installed to read some of them."""
    from vsplade.pages.formats import needs

    missing: dict[str, list[str]] = {}
    for end in passed_over:
        if (what := needs(end)) is not None:
            missing.setdefault(what, []).append(end)
    for what, ends in missing.items():
        note(f"  {', '.join(ends)} would need {what}.")


def _note_illegible(files: Mapping[str, int]) -> None:
    pages = sum(files.values())
    note(
        f"Note: {count(pages, 'page')} of {count(len(files), 'file')} seem to be in a script that cannot be "
        "read (only Latin letters and digits can), so searches will hardly find them:"
    )
    for path, number in list(files.items())[:LISTED]:
        note(f"  {printable(path)}: {count(number, 'page')}")
    if len(files) > LISTED:
        note(f"  and {count(len(files) - LISTED, 'file')} more; --json lists them all.")


COMMANDS = (index_command,)
