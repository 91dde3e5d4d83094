"""One way to open an index, wherever it is: a folder, several, or an engine's address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsplade.backends.address import Where, is_address
from vsplade.errors import InputError
from vsplade.search.collection_index import CollectionIndex
from vsplade.search.index import Index
from vsplade.search.page_index import PageIndex
from vsplade.types import Encoder


def open_index(
    where: Where | Sequence[Where], encoder: Encoder | None = None, *, whole: bool = False
) -> PageIndex:
    """The newest commit; without ``encoder`` the one that the index names is loaded when needed.

    ``whole``: a damaged segment is an error. So for all that changes or copies an index, or measures it.
    """
    places = [where] if isinstance(where, str | Path) else list(where)
    addresses = [str(place) for place in places if is_address(place)]
    if not addresses:
        return Index.open(places, encoder, whole=whole)
    if len(places) > 1:
        raise InputError(
            f"{addresses[0]}: an index on another engine is searched alone. Join it with others by "
            "--fuse-with, or put all pages into one collection."
        )
    return CollectionIndex(addresses[0], encoder)
