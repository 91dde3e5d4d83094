"""One writer for every place: a folder, or an engine's address."""

from __future__ import annotations

from pathlib import Path

from vsplade.backends.address import Where, is_address, parse_address
from vsplade.backends.collection import MANIFEST
from vsplade.backends.collection_writer import CollectionWriter, read_manifest
from vsplade.backends.connect import connect
from vsplade.store import manifest
from vsplade.store.identity import EncoderIdentity
from vsplade.store.page_writer import PageWriter
from vsplade.store.writer import IndexWriter
from vsplade.types import Encoder


def open_writer(where: Where, encoder: Encoder | EncoderIdentity | None = None) -> PageWriter:
    """``encoder`` may be left out when the index exists already."""
    if is_address(where):
        return CollectionWriter(str(where), encoder)
    return IndexWriter(where, encoder)


def named_encoder(where: Where) -> str | None:
    """The name of the encoder that the index there was made with; None where there is no index yet."""
    if not is_address(where):
        return manifest.load(Path(where)).encoder if manifest.exists(Path(where)) else None
    collection = connect(parse_address(str(where)))
    try:
        known = collection.exists() and collection.record(MANIFEST) is not None
        return str(read_manifest(collection)["encoder"]) if known else None
    finally:
        collection.close()
