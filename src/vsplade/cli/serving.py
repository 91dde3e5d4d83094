"""``vsplade serve`` and ``vsplade mcp``."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    index_option,
    json_option,
    note,
    password_options,
    printable,
    report,
)
from vsplade.cli.options import FILE, FOLDER, option, takes
from vsplade.errors import InputError, VspladeError


@dataclass(frozen=True)
class ServeOptions:
    host: str = option("The address to listen on.", "127.0.0.1")
    port: int = option("0 for any that is free.", 8000, kind=click.IntRange(0, 65535))
    workers: int | None = option(
        "Web processes. Default: one for every two processors.", None, kind=click.IntRange(1, 64), metavar="N"
    )
    uploads: Path | None = option(
        "Where uploaded files are kept. Default: beside the index, in a folder with .uploads at its end.",
        None, kind=FOLDER, metavar="DIR",
    )  # fmt: skip
    roots: tuple[Path, ...] = option(
        "Let files in this folder be added by their path. May be given several times.", (), flag="--root",
        kind=click.Path(path_type=Path, file_okay=False, exists=True), metavar="DIR",
    )  # fmt: skip
    key_file: Path | None = option(
        "Keys, one a line: requests need one of them. Also: the environment variable VSPLADE_KEY.", None,
        kind=FILE, metavar="FILE",
    )  # fmt: skip
    hosts: tuple[str, ...] = option(
        "A name by which the server may be called, beside localhost and plain addresses.", (),
        flag="--allow-host", metavar="NAME",
    )  # fmt: skip
    read_only: bool = option("Nothing can be added or removed.", False)
    show_paths: bool = option("Let answers name the files' paths on this machine.", False)
    max_upload: int | None = option(
        "Of one file. Default: 256 MiB.", None, kind=click.IntRange(1), metavar="BYTES"
    )
    encoder: str | None = option(
        "For an index that does not exist yet. Default: the best that is installed.", None, metavar="NAME"
    )


@click.command()
@index_option
@takes(ServeOptions)
@password_options
@json_option
def serve(index_dir: Where, asked: ServeOptions, as_json: bool) -> None:
    """Serve an index: a search page for browsers, and a REST API.

    Only this machine can reach it, unless --host says otherwise; then a key is needed.
    """
    from vsplade.serve.settings import ServeLimits, Settings, check_exposure, default_uploads
    from vsplade.serve.supervisor import Supervisor

    keys = read_keys(asked.key_file)
    check_exposure(asked.host, keys)
    where = index_dir.resolve() if isinstance(index_dir, Path) else index_dir
    settings = Settings(
        index_dir=str(where),
        uploads=str((asked.uploads or default_uploads(where)).resolve()),
        roots=tuple(str(root.resolve()) for root in asked.roots),
        keys=keys,
        hosts=asked.hosts,
        read_only=asked.read_only,
        show_paths=asked.show_paths,
        limits=ServeLimits(upload_bytes=asked.max_upload) if asked.max_upload else ServeLimits(),
    )
    (begin_apart if settings.in_one_process else begin_index)(where, asked.encoder, asked.read_only)
    usual = 1 if settings.in_one_process else max(1, (os.cpu_count() or 1) // 2)
    count = asked.workers or usual
    supervisor = Supervisor(settings, asked.host, asked.port, count, note)
    facts = {"url": supervisor.url, "index": settings.index_dir, "workers": count, "pid": os.getpid()}
    report(facts, as_json, f"Serving {printable(str(index_dir))} at {supervisor.url} (ctrl-C ends it)")
    supervisor.run()


@click.command()
@index_option
@password_options
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the protocol itself is JSON.")
def mcp(index_dir: Where, as_json: bool) -> None:
    """Let assistants search an index: a Model Context Protocol server on standard input and output."""
    from vsplade.serve.mcp import make_server

    make_server(index_dir).run("stdio")


def read_keys(key_file: Path | None) -> tuple[str, ...]:
    """From the file and the environment, never from the command line, which others can read."""
    lines = key_file.read_text("utf-8").splitlines() if key_file else []
    lines += os.environ.get("VSPLADE_KEY", "").splitlines()
    keys = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if key_file and not keys:
        raise InputError(f"{key_file}: there is no key in this file. Write one a line.")
    return keys


def begin_index(where: Where, encoder: str | None, read_only: bool) -> None:
    """An index that is not there yet begins empty: documents can be added in the browser. One that another
    encoder made is refused here: no search in it could be answered.
    """
    from vsplade.backends.open_writer import open_writer, stored_encoder
    from vsplade.encode import load_encoder
    from vsplade.search.open_index import open_index

    if stored_encoder(where) is not None:
        with closing(open_index(where, load_encoder(encoder) if encoder else None)) as index:
            index.encoder  # noqa: B018  (loads and checks it)
        return
    if read_only:
        raise InputError(
            f"{where}: there is no index here, and --read-only lets none begin. Run vsplade index first."
        )
    with open_writer(where, load_encoder(encoder)):
        pass


def begin_apart(where: Where, encoder: str | None, read_only: bool) -> None:
    """In a process that ends again: what only one can have open is left to the worker."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        trouble = pool.submit(_trouble, where, encoder, read_only).result()
    if trouble:
        raise InputError(trouble)


def _trouble(where: Where, encoder: str | None, read_only: bool) -> str | None:
    """As a sentence: not every error can go from one process to another."""
    try:
        begin_index(where, encoder, read_only)
    except VspladeError as error:
        return str(error)
    return None


COMMANDS = (serve, mcp)
