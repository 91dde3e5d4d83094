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
    return _qdrant(address) if address.engine == "qdrant" else _milvus(address)


def _milvus(address: Address) -> Collection:
    if find_spec("pymilvus") is None:
        raise MissingExtraError("An index on Milvus", "milvus")
    from vsplade.backends.milvus import MilvusCollection

    return MilvusCollection(address)


def _qdrant(address: Address) -> Collection:
    if find_spec("qdrant_client" if address.path is None else "qdrant_edge") is None:
        raise MissingExtraError("An index on Qdrant", "qdrant")
    from vsplade.backends.qdrant import QdrantCollection

    if address.path is None:
        from vsplade.backends.qdrant_server_store import ServerStore

        return QdrantCollection(address, ServerStore(address))
    from vsplade.backends.qdrant_edge_store import EdgeStore

    return QdrantCollection(address, EdgeStore(address.path, str(address)))
