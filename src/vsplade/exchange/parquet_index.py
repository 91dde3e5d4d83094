"""An index to Parquet shards and back: ids, page order, metadata, pictures and file records kept whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from vsplade.backends.address import Where
from vsplade.backends.open_writer import open_writer, stored_encoder
from vsplade.encode import load_encoder, load_index_encoder
from vsplade.errors import InputError, ModelMismatchError, VspladeError
from vsplade.exchange.shard_folder import FINISHED, STATE, ShardFolder
from vsplade.search.open_index import open_index
from vsplade.search.page_index import PageIndex
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.segment import StoredPage, hash_id
from vsplade.types import Progress

SHARD_PAGES, SHARD_BYTES = 8192, 64 << 20
"""A shard of an export has at most so many pages, and about so many bytes."""
COMMIT_PAGES = 1 << 16
_DONE = "shard:"
"""Before a shard's name, in an index's state: it is in. Kept until the whole import is."""


def export_parquet(index: PageIndex, where: str | os.PathLike[str]) -> int:
    """Every live page, in page order; returns how many. A folder that holds shards already is refused."""
    folder = ShardFolder(where)
    if folder.names():
        raise InputError(f"{folder.where}: there are files in this folder. Export into a new one.")
    written, size = 0, 0
    buffered: list[StoredPage] = []

    def flush() -> None:
        nonlocal written, size
        folder.commit(f"part-{written:06d}", buffered, index.identity)
        written, size = written + 1, 0
        buffered.clear()

    for page in index.stored_pages():
        buffered.append(page)
        size += 6 * len(page.vector) + len(page.thumbnail) + 512
        if len(buffered) >= SHARD_PAGES or size >= SHARD_BYTES:
            flush()
    if buffered or not written:
        flush()
    folder.put_json(STATE, index.state())
    folder.put_json(FINISHED, {"rows": index.pages})
    return index.pages


def import_parquet(
    where: str | os.PathLike[str],
    index_dir: Where,
    encoder: str | None = None,
    progress: Progress = lambda done, total: None,
) -> tuple[int, bool]:
    """Add every page of a folder of shards; how many, and whether the run that wrote them was finished.

    A shard that is damaged, of another encoder, or holds an id that another one has, stops it with an error.
    An interrupted import goes on where it stopped.
    """
    folder = ShardFolder(where)
    _check_complete(folder)
    present = open_index(index_dir, whole=True) if stored_encoder(index_dir) is not None else None
    total = _check_ids(folder, present)
    wanted = _identity(folder, index_dir, encoder) if present is None else _same(folder, present)
    with open_writer(index_dir, wanted) as writer:
        added, uncommitted = 0, 0
        for shard in folder.shards():
            shard.check(wanted)
            done = _DONE + shard.name
            if writer.state(_DONE).get(done) != len(shard):
                for page in shard.pages():
                    writer.add(page.id, page.vector, page.metadata, page.thumbnail)
                uncommitted += len(shard)
                writer.set_state(done, len(shard))
            added += len(shard)
            progress(added, total)
            if uncommitted >= COMMIT_PAGES:
                writer.commit()
                uncommitted = 0
        for key, value in _state(folder).items():
            writer.set_state(key, value)
        for key in writer.state(_DONE):
            writer.set_state(key, None)
    return added, bool(folder.get_json(FINISHED)) or not folder.committed()


def _check_complete(folder: ShardFolder) -> None:
    if not folder.names():
        raise InputError(f"{folder.where}: there is no such folder, or it is empty.")
    if next(iter(folder.shards()), None) is None:
        raise InputError(f"{folder.where}: there are no Parquet shards with pages in this folder.")
    if folder.committed() and (strays := folder.unfinished()):
        raise InputError(
            f"{folder.where}/{strays[0]}: this shard is not finished: the run that wrote it died, or is "
            "still at work. Run the same `vsplade encode` again, then this command."
        )


def _state(folder: ShardFolder) -> dict[str, Any]:
    """What an index keeps of its files: of an export, or of each file that was encoded."""
    state = dict(folder.get_json(STATE))
    for one in folder.committed():
        for line in one.files:
            state |= line.get("state", {})
    return {key: value for key, value in state.items() if not key.startswith(_DONE)}


def _same(folder: ShardFolder, present: PageIndex) -> EncoderIdentity:
    """Of the index that is there."""
    first = next(iter(folder.shards())).identity
    check_encoder(present.where, present.identity, first)
    return first


def _identity(folder: ShardFolder, index_dir: Where, encoder: str | None) -> EncoderIdentity:
    """Of the first shard; the encoder of that name, where it is on this machine, must be the same one."""
    first = next(iter(folder.shards())).identity
    try:
        chosen = load_encoder(encoder) if encoder else load_index_encoder(first.name, index_dir)
    except VspladeError:
        if encoder:
            raise
        return first  # an index can be built without it
    identity = EncoderIdentity.of(chosen)
    if not identity.makes_same_vectors(first):
        raise ModelMismatchError(
            f"{folder.where}: these vectors are of the encoder {first.name!r} (fingerprint "
            f"{first.fingerprint}); the {identity.name!r} of this machine has the fingerprint "
            f"{identity.fingerprint}. Install the "
            "vsplade that made them, or encode the files again."
        )
    return identity


def _check_ids(folder: ShardFolder, present: PageIndex | None) -> int:
    """Before anything is written: every shard can be opened, no id stands twice, and none would replace a
    page of another file. By hash, so that ten million ids take 80 MB. Returns the number of pages."""
    hashes: list[np.ndarray[Any, Any]] = []
    for shard in folder.shards():
        ids = list(shard.ids())
        hashes.append(np.array([hash_id(page_id) for page_id in ids], np.uint64))
        if present is not None and present.pages:
            _check_owner(present, ids, shard.name, folder)
    joined = np.concatenate([np.zeros(0, np.uint64), *hashes])
    order = np.sort(joined)
    twins = set(order[1:][order[1:] == order[:-1]].tolist())
    if twins:
        seen: dict[str, str] = {}
        for page_id, name in _named(folder, twins):
            if page_id in seen:
                raise InputError(
                    f"{name}: the id {page_id!r} stands in {seen[page_id]} too. Nothing was added."
                )
            seen[page_id] = name
    return len(joined)


def _named(folder: ShardFolder, wanted: set[int]) -> Iterator[tuple[str, str]]:
    for shard in folder.shards():
        for page_id in shard.ids():
            if hash_id(page_id) in wanted:
                yield page_id, shard.name


def _check_owner(present: PageIndex, ids: list[str], name: str, folder: ShardFolder) -> None:
    found = present.known(ids)
    if not found:
        return
    fresh = next(shard for shard in folder.shards() if shard.name == name)
    for page in fresh.pages():
        if page.id in found:
            old = found[page.id].get("path")
            if old != page.metadata.get("path"):
                raise InputError(
                    f"{name}: the id {page.id!r} is of {page.metadata.get('path')}, but {present.where} has "
                    f"it for {old}. Nothing was added. Import into a new index, and search both."
                )
