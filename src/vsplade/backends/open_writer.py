"""One writer for every place: a folder, or an engine's address."""

from __future__ import annotations

from pathlib import Path

from vsplade.backends.address import Where, is_address, parse_address
from vsplade.backends.collection import MANIFEST
from vsplade.backends.collection_writer import CollectionWriter, read_manifest
from vsplade.backends.connect import connect
from vsplade.encode import as_built, load_encoder, load_index_encoder
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


def stored_encoder(where: Where) -> EncoderIdentity | None:
    """The encoder that the index there was made with; None where there is no index yet."""
    if not is_address(where):
        here = Path(where)
        return EncoderIdentity.named_by(manifest.load(here)) if manifest.exists(here) else None
    collection = connect(parse_address(str(where)))
    try:
        known = collection.exists() and collection.record(MANIFEST) is not None
        return EncoderIdentity.from_json(read_manifest(collection)) if known else None
    finally:
        collection.close()


def writing_encoder(where: Where, encoder: str | Encoder | None) -> Encoder:
    """The encoder that was given, or that of the index there; as it was when the index was begun."""
    stored = stored_encoder(where)
    if encoder is None and stored is not None:
        encoder = load_index_encoder(stored.name, where)
    chosen = load_encoder(encoder) if encoder is None or isinstance(encoder, str) else encoder
    return chosen if stored is None else as_built(chosen, stored.fingerprint)
