"""Files that were renamed or moved: recognised by their content, so that no page is encoded again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from vsplade.errors import PageError
from vsplade.ingest.hashing import Hasher
from vsplade.ingest.records import FileRecord, write_record
from vsplade.pages import name_files, page_id
from vsplade.pages.naming import suffix
from vsplade.store.page_writer import PageWriter, ReadPage
from vsplade.types import Json


def is_gone(path: str) -> bool:
    """Only where the system says so: a folder that may not be entered tells nothing about its files."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def find_moved(paths: list[str], records: Mapping[str, FileRecord], hasher: Hasher) -> dict[str, str]:
    """New path to old path. Only new files of the size of a file that is gone are read for it."""
    fresh = [path for path in paths if path not in records]
    if not fresh or not records:
        return {}
    gone: dict[tuple[str, str], list[str]] = {}
    sizes: set[int | None] = set()
    for path, record in records.items():
        if record.done and is_gone(path):
            gone.setdefault((record.hash, suffix(path)), []).append(path)
            sizes.add(record.size)
    moved: dict[str, str] = {}
    for path in fresh if gone else ():
        try:
            if None not in sizes and os.stat(path).st_size not in sizes:
                continue
            digest = hasher.read(path).hash
        except (OSError, PageError):
            continue  # the job reads it again, and then says why it cannot
        olds = gone.get((digest, suffix(path)))
        if olds:
            moved[path] = olds.pop(0)
    return moved


def adopt_moved(
    writer: PageWriter,
    records: dict[str, FileRecord],
    moved: Mapping[str, str],
    metadata: Mapping[str, dict[str, Json]],
) -> int:
    """Give the pages of moved files the ids and metadata that a new index would give them; returns how many.

    ``records`` is brought up to date, too. Pages are read from the last commit, so an id may change hands.
    Files of which the index has lost a page are left out: they are read again.
    """
    places = _find_pages(writer, records, moved)
    olds = {moved[new] for new in places}
    taken = {path: record.doc_id for path, record in records.items() if path not in olds}
    renamed = {file.path: file.doc_id for file in name_files(list(places), taken)}
    for old in olds:
        for id in records[old].ids(old):
            writer.delete(id)
    for new, pages in places.items():
        before = records.pop(moved[new])
        after = replace(before, doc_id=renamed[new], metadata=metadata[new])
        own: dict[str, Json] = {"path": new, "doc_id": after.doc_id}
        for number, read in pages.items():
            stored = read()
            kept = {key: value for key, value in stored.metadata.items() if key not in before.metadata}
            id = page_id(new, after.doc_id, number, after.pages)
            writer.add(id, stored.vector, {**after.metadata, **kept, **own}, stored.thumbnail)
        write_record(writer, moved[new], None)
        write_record(writer, new, after)
        records[new] = after
    return sum(map(len, places.values()))


def _find_pages(
    writer: PageWriter, records: Mapping[str, FileRecord], moved: Mapping[str, str]
) -> dict[str, dict[int, ReadPage]]:
    """By new path: how to read the page of each number; only files whose pages can all be trusted."""
    found: dict[str, dict[int, ReadPage]] = {}
    for new, old in moved.items():
        record = records[old]
        ids = {page_id(old, record.doc_id, number, record.pages): number for number in record.done}
        stored = writer.stored(list(ids))
        pages = {ids[id]: read for id, read in stored.items() if read is not None}
        if len(pages) == len(stored):
            found[new] = pages
    return found
