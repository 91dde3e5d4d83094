"""Files that were renamed or moved: recognised by their content, so that no page is encoded again."""

from __future__ import annotations

import os
from collections.abc import Mapping

from vsplade.index.snapshot import Snapshot
from vsplade.index.writer import IndexWriter
from vsplade.ingest.records import FileRecord, read_content, write_record
from vsplade.pages import Limits, name_files, page_id
from vsplade.pages.naming import suffix
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


def find_moved(paths: list[str], records: Mapping[str, FileRecord], limits: Limits) -> dict[str, str]:
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
            digest = read_content(path, limits).hash
        except OSError:
            continue  # the job reads it again, and then says why it cannot
        olds = gone.get((digest, suffix(path)))
        if olds:
            moved[path] = olds.pop(0)
    return moved


def adopt_moved(
    writer: IndexWriter,
    records: dict[str, FileRecord],
    moved: Mapping[str, str],
    metadata: Mapping[str, dict[str, Json]],
) -> int:
    """Give the pages of moved files the ids and metadata that a new index would give them; returns how many.

    ``records`` is brought up to date, too. Pages are read from the last commit, so an id may change hands.
    """
    snapshot = Snapshot.load(writer.folder)
    olds = set(moved.values())
    taken = {path: record.doc_id for path, record in records.items() if path not in olds}
    renamed = {file.path: file.doc_id for file in name_files(list(moved), taken)}
    for old in olds:
        for id in records[old].ids(old):
            writer.delete(id)
    pages = 0
    for new, old in moved.items():
        before = records.pop(old)
        doc_id = renamed[new]
        after = FileRecord(doc_id, before.hash, before.pages, set(before.done), metadata[new], before.size)
        own: dict[str, Json] = {"path": new, "doc_id": doc_id}
        ids = {page_id(old, before.doc_id, number, before.pages): number for number in before.done}
        for id, place in snapshot.find(list(ids)).items():
            segment, page = snapshot.locate(place)
            stored = segment.checked(page)
            kept = {key: value for key, value in stored.metadata.items() if key not in before.metadata}
            target = page_id(new, doc_id, ids[id], before.pages)
            writer.add(target, stored.vector, {**after.metadata, **kept, **own}, stored.thumbnail)
            pages += 1
        write_record(writer, old, None)
        write_record(writer, new, after)
        records[new] = after
    return pages
