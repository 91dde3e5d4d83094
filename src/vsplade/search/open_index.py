"""One way to open an index, wherever it is: a folder, or an engine's address."""

from __future__ import annotations

from vsplade.backends.address import Where, is_address
from vsplade.search.collection_index import CollectionIndex
from vsplade.search.index import Index
from vsplade.search.page_index import PageIndex
from vsplade.types import Encoder


def open_index(where: Where, encoder: Encoder | None = None) -> PageIndex:
    """The newest commit; without ``encoder`` the one that the index names is loaded when needed."""
    if is_address(where):
        return CollectionIndex(str(where), encoder)
    return Index.open(where, encoder)
