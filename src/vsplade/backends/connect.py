"""From an address to the collection there."""

from __future__ import annotations

import os
from importlib.util import find_spec

from vsplade.backends.address import Address
from vsplade.backends.collection import Collection
from vsplade.errors import MissingExtraError


def connect(address: Address) -> Collection:
    """Not made yet where there is none; a writer makes it."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes on standard error; we report errors ourselves
    if find_spec("pymilvus") is None:
        raise MissingExtraError("An index on Milvus", "milvus")
    from vsplade.backends.milvus import MilvusCollection

    return MilvusCollection(address)
