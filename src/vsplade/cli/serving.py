"""``vsplade serve`` and ``vsplade mcp``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    folder_of,
    index_option,
    json_option,
    note,
    password_options,
    print_json,
    printable,
    say,
)
from vsplade.errors import InputError, MissingExtraError


@click.command()
@index_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 for any that is free."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Web processes. Default: one for every two processors.",
)
@click.option(
    "--uploads",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where uploaded files are kept. Default: beside the index, in a folder with .uploads at its end.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Let files in this folder be added by their path. May be given several times.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Keys, one a line: requests need one of them. Also: the environment variable VSPLADE_KEY.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which the server may be called, beside localhost and plain addresses.",
)
@click.option("--read-only", is_flag=True, help="Nothing can be added or removed.")
@click.option("--show-paths", is_flag=True, help="Let answers name the files' paths on this machine.")
@click.option("--max-upload", type=click.IntRange(1), metavar="BYTES", help="Of one file. Default: 256 MiB.")
@click.option(
    "--encoder",
    metavar="NAME",
    help="For an index that does not exist yet. Default: the best that is installed.",
)
@password_options
@json_option
def serve(
    index_dir: Where,
    host: str,
    port: int,
    workers: int | None,
    uploads: Path | None,
    roots: tuple[Path, ...],
    key_file: Path | None,
    hosts: tuple[str, ...],
    read_only: bool,
    show_paths: bool,
    max_upload: int | None,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Serve an index to browsers and programs: a search page and a REST API.

    Only this machine can reach it, unless --host says otherwise; then a key is needed.
    """
    with needs_serve():
        from vsplade.serve.settings import ServeLimits, Settings, check_exposure, default_uploads
        from vsplade.serve.supervisor import Supervisor

    keys = read_keys(key_file)
    check_exposure(host, keys)
    folder = folder_of(index_dir, "serve")
    begin_index(folder, encoder, read_only)
    limits = ServeLimits(upload_bytes=max_upload) if max_upload else ServeLimits()
    settings = Settings(
        index_dir=str(folder.resolve()),
        uploads=str((uploads or default_uploads(folder)).resolve()),
        roots=tuple(str(root.resolve()) for root in roots),
        keys=keys,
        hosts=hosts,
        read_only=read_only,
        show_paths=show_paths,
        limits=limits,
    )
    count = workers or max(1, (os.cpu_count() or 1) // 2)
    supervisor = Supervisor(settings, host, port, count, note)
    if as_json:
        print_json({"url": supervisor.url, "index": settings.index_dir, "workers": count, "pid": os.getpid()})
    else:
        say(f"Serving {printable(str(index_dir))} at {supervisor.url} (ctrl-C ends it)")
    supervisor.run()


@click.command()
@index_option
@password_options
@click.option("--json", "as_json", is_flag=True, help="Has no effect: the protocol itself is JSON.")
def mcp(index_dir: Where, as_json: bool) -> None:
    """Let assistants search an index: a Model Context Protocol server on standard input and output."""
    from vsplade.serve.mcp import make_server

    make_server(index_dir).run("stdio")


@contextmanager
def needs_serve() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
            raise
        raise MissingExtraError("vsplade serve", "serve") from error


def read_keys(key_file: Path | None) -> tuple[str, ...]:
    """From the file and the environment, never from the command line, which others can read."""
    lines = key_file.read_text("utf-8").splitlines() if key_file else []
    lines += os.environ.get("VSPLADE_KEY", "").splitlines()
    keys = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if key_file and not keys:
        raise InputError(f"{key_file}: there is no key in this file. Write one a line.")
    return keys


def begin_index(index_dir: Path, encoder: str | None, read_only: bool) -> None:
    """An index that is not there yet begins empty: documents can be added in the browser."""
    from vsplade.encode import load_encoder
    from vsplade.search.index import Index
    from vsplade.store import manifest
    from vsplade.store.writer import IndexWriter

    if manifest.exists(index_dir):
        if encoder:
            Index.open(index_dir, encoder=load_encoder(encoder))
        else:
            Index.open(index_dir)
        return
    if read_only:
        raise InputError(
            f"{index_dir}: there is no index here, and --read-only lets none begin. Run vsplade index first."
        )
    with IndexWriter(index_dir, load_encoder(encoder)):
        pass


COMMANDS = (serve, mcp)
