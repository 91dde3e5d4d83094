"""The writer of an index on an outside engine.

An engine has no commits over many rows. So pages are written first, each replacing the one of its id; then
the job's records; then the commit's number. Whoever is cut off in between is repeated by the next run, which
writes the same rows again: nothing is lost, and nothing is there twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from vsplade.backends.address import parse_address
from vsplade.backends.collection import FORMAT, MANIFEST, Collection, Prefilter, Row, key_of
from vsplade.backends.connect import connect
from vsplade.errors import EngineError, IndexFormatError, InputError
from vsplade.store.identity import EncoderIdentity, check_encoder
from vsplade.store.manifest import JsonValue
from vsplade.store.page_writer import PageWriter, ReadPage
from vsplade.store.postings import MAX_VOCABULARY
from vsplade.store.segment import StoredPage
from vsplade.types import Encoder

STATE = "state:"
"""Before the names of a job's records."""
HELD_PAGES, HELD_BYTES = 2000, 32 << 20
"""What is held back at most before it is sent."""


def read_manifest(collection: Collection) -> dict[str, Any]:
    """Checked; an error where the collection is no index."""
    found = collection.record(MANIFEST) if collection.exists() else None
    if found is None:
        raise IndexFormatError(
            f"{collection.where}: there is no index here. Make one with `vsplade index PATH --index "
            f"{collection.where}`."
        )
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        other = found.get("format") if isinstance(found, dict) else found
        raise IndexFormatError(
            f"{collection.where}: this index is of format {other!r}; this version of vsplade reads {FORMAT}."
        )
    return found


class CollectionWriter(PageWriter):
    """Pages are visible as soon as they are sent; a commit says that all of them are there."""

    def __init__(self, address: str, encoder: Encoder | EncoderIdentity | None = None) -> None:
        super().__init__()
        identity = EncoderIdentity.of(encoder) if isinstance(encoder, Encoder) else encoder
        self._collection = connect(parse_address(address))
        self.where = self._collection.where
        try:
            if not self._collection.exists() or self._collection.record(MANIFEST) is None:
                self._begin(identity)
            self._manifest = read_manifest(self._collection)
            check_encoder(self.where, EncoderIdentity.from_json(self._manifest), identity)
            self._restore()
        except BaseException:
            self._collection.close()
            raise

    def _begin(self, identity: EncoderIdentity | None) -> None:
        if identity is None:
            raise IndexFormatError(
                f"{self.where}: there is no index here yet; name the encoder to begin one."
            )
        if not 1 <= identity.terms <= MAX_VOCABULARY:
            raise InputError(f"a vocabulary of {identity.terms} terms cannot be indexed.")
        self._collection.create()
        first: dict[str, JsonValue] = {"format": FORMAT, **identity.to_json(), "generation": 0, "keys": []}
        self._collection.write_records({MANIFEST: first})

    def _restore(self) -> None:
        stored = self._collection.records(STATE)
        self._begin_changes({name.removeprefix(STATE): value for name, value in stored.items()})
        self._keys = set(self._manifest["keys"])
        self._changed = False

    @property
    def pages(self) -> int:
        return self._collection.count(Prefilter())

    @property
    def vocabulary(self) -> int:
        return int(self._manifest["vocabulary"])

    def _is_full(self) -> bool:
        return len(self._pending) >= HELD_PAGES or self._bytes >= HELD_BYTES

    def stored(self, ids: Sequence[str]) -> dict[str, ReadPage | None]:
        rows = self._collection.fetch([key_of(id) for id in ids], thumbnails=True)
        return {row.id: partial(stored_page, row) for row in rows.values()}

    def flush(self) -> None:
        """Send what is held back. Sent again after a failure, it changes nothing more."""
        self._open()
        if not self._pending:
            return
        start = time.time_ns()
        added = [page for page in self._pending.values() if page is not None]
        self._collection.put(
            [
                Row(page.id, start + number, page.vector, page.metadata, page.thumbnail)
                for number, page in enumerate(added)
            ]
        )
        self._collection.remove([key_of(id) for id, page in self._pending.items() if page is None])
        self._keys |= {key for page in added for key, value in page.metadata.items() if value is not None}
        self._pending, self._bytes, self._changed = {}, 0, True

    def commit(self) -> int:
        """Everything so far is there for every reader; returns the commit's number."""
        self.flush()
        generation = int(self._manifest["generation"])
        if not self._changed and not self._state_changes:
            return generation
        newest = read_manifest(self._collection)
        if newest["generation"] != generation:
            raise EngineError(
                f"{self.where}: another process has written to this index meanwhile. Run the command again: "
                "it goes on with what is left."
            )
        changes: dict[str, JsonValue] = {STATE + key: value for key, value in self._state_changes.items()}
        if changes:
            self._collection.write_records(changes)
        manifest = {**self._manifest, "generation": generation + 1, "keys": sorted(self._keys)}
        self._collection.write_records({MANIFEST: manifest})
        self._manifest, self._changed = manifest, False
        self._state = self.state()
        self._state_changes = {}
        return generation + 1

    def close(self) -> None:
        if not self._closed:
            self._collection.close()
        super().close()


def stored_page(row: Row) -> StoredPage:
    return StoredPage(row.id, row.vector, dict(row.metadata), row.thumbnail)
