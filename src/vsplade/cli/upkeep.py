"""The upkeep of an index: ``vsplade delete``, ``compact``, ``stats``, ``index --check``, ``--recover``."""

from __future__ import annotations

from pathlib import Path

import click

from vsplade.backends.address import Where
from vsplade.cli.common import (
    count,
    filter_option,
    folder_of,
    index_option,
    json_option,
    note,
    print_json,
    printable,
    report,
    say,
    size,
)
from vsplade.errors import IndexFormatError, InputError


def check_index(index_dir: Path, as_json: bool) -> int:
    from vsplade.store import manifest, verify

    manifest.load(index_dir)  # where there is no index, nothing is damaged
    problems = verify.check(index_dir)
    if as_json:
        print_json({"index": str(index_dir), "sound": not problems, "problems": problems})
    for problem in problems:
        note(f"Problem: {printable(problem)}")
    if problems:
        note(
            "This index is damaged. Restore it from a copy, or run `vsplade index --recover --index "
            f"{index_dir}`: it keeps what is sound and says which files to index again."
        )
    elif not as_json:
        say(f"{printable(str(index_dir))}: every byte is as it was written.")
    return IndexFormatError.exit_code if problems else 0


def recover_index(index_dir: Path, encoder: str | None, as_json: bool) -> None:
    from vsplade.encode import load_encoder
    from vsplade.ingest.recover import recover
    from vsplade.store.identity import EncoderIdentity

    done = recover(index_dir, EncoderIdentity.of(load_encoder(encoder)) if encoder else None)
    for text in done.notes:
        note(f"Note: {printable(text)}.")
    for name in done.set_aside:
        note(f"Set aside: {printable(name)} (kept in {printable(str(index_dir))}, not used)")
    for path in done.read_again:
        note(f"Index again: {printable(path)}")
    text = (
        f"{count(done.pages, 'page')} of {count(len(done.files), 'file')} can be searched; "
        f"{count(done.missing, 'page')} of {count(len(done.read_again), 'file')} are missing."
    )
    if not done.needed:
        text = f"{printable(str(index_dir))}: this index is sound; nothing was changed."
    report({"index": str(index_dir), **done.to_json()}, as_json, text)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@index_option
@filter_option
@json_option
def delete(ids: tuple[str, ...], index_dir: Where, filters: tuple[str, ...], as_json: bool) -> None:
    """Remove pages, by ID or by a filter.

    IDs are as search shows them with --json. A removed page stays away until its file changes.
    """
    from vsplade.backends.open_writer import open_writer
    from vsplade.search.open_index import open_index

    if not ids and not filters:
        raise InputError("Name the pages to remove: give IDs, or --filter doc_id=NAME for a whole file.")
    index = open_index(index_dir, whole=True)
    unknown = [page for page in ids if page not in index]
    if unknown:
        raise InputError(f"{index_dir} has no page {unknown[0]!r}; nothing was removed.")
    gone = {*ids, *(index.ids(filters) if filters else ())}
    with open_writer(index_dir) as writer:
        for page in gone:
            writer.delete(page)
    report({"deleted": len(gone), "ids": sorted(gone)}, as_json, f"Removed {count(len(gone), 'page')}.")


@click.command()
@index_option
@click.option(
    "--merge", is_flag=True, help="Only join small segments: quicker, but keeps deleted pages' space."
)
@json_option
def compact(index_dir: Where, merge: bool, as_json: bool) -> None:
    """Rewrite the index without deleted pages, in as few segments as possible."""
    from vsplade.search.index import Index
    from vsplade.store.writer import IndexWriter

    folder = folder_of(index_dir, "compact")
    before = Index.open(folder, whole=True).statistics()
    with IndexWriter(folder) as writer:
        if merge:
            writer.merge()
        else:
            writer.compact()
    after = Index.open(folder).statistics()
    was, now = (f"{count(int(one['segments']), 'segment')}, {size(one['bytes'])}" for one in (before, after))
    report({"before": before, "after": after}, as_json, f"{was} became {now}.")


@click.command()
@index_option
@json_option
def stats(index_dir: Where, as_json: bool) -> None:
    """Tell what an index holds and which encoder made it."""
    from vsplade.search.open_index import open_index

    index = open_index(index_dir)
    facts = {
        "index": str(index_dir),
        **index.identity.to_json(),
        "commit": index.generation,
        **index.statistics(),
        "pages_out_of_reach": index.damage.pages if index.damage else 0,
    }
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        shown = size(value) if name.endswith("bytes") and isinstance(value, (int, float)) else value
        if isinstance(shown, (int, float)):
            shown = f"{shown:,.3f}".rstrip("0").rstrip(".")
        say(f"{name.replace('_', ' '):<25} {printable(str(shown))}")


COMMANDS = (delete, compact, stats)
