"""A client of a Milvus server, or of milvus-lite in a file."""

from __future__ import annotations

import time
from typing import Any

from pymilvus import MilvusClient, MilvusException

from vsplade.backends.address import TOKEN, Address
from vsplade.backends.collection import check_version
from vsplade.errors import EngineError, InputError

OLDEST = (2, 4)
"""The first version with sparse vectors."""
SECONDS, STARTING = 30.0, 20.0
"""To wait for an answer; for the engine of a file to start."""
UNAVAILABLE = 2
"""Milvus' number of the error that no server answers."""


def open_client(address: Address, where: str) -> MilvusClient:
    given: dict[str, Any] = {"timeout": SECONDS}
    if address.path is not None:
        try:
            import milvus_lite  # noqa: F401
        except ImportError as error:
            missing = getattr(error, "name", None) or "milvus_lite"
            if missing == "milvus_lite":
                told = "a file needs the package milvus-lite. Run: pip install milvus-lite"
            else:  # milvus-lite 2.5 takes pkg_resources, which newer setuptools no longer have
                told = f"milvus-lite cannot be loaded ({error}). Run: pip install -U milvus-lite"
            raise InputError(f"{where}: {told}") from error
        address.path.parent.mkdir(parents=True, exist_ok=True)
        uri = str(address.path)
    else:
        uri = address.url
        given |= {"token": address.token, "db_name": address.database}
    try:
        return _client(uri, STARTING if address.path is not None else 0.0, given)
    except MilvusException as error:
        advice = (
            "Another process may have it open: milvus-lite takes one at a time."
            if address.path is not None
            else f"Is the server running, and is {TOKEN} its user and password?"
        )
        raise EngineError(f"{where}: Milvus cannot be reached ({explained(error)}). {advice}") from error


def _client(uri: str, patience: float, given: dict[str, Any]) -> MilvusClient:
    """The engine of a file is started by the client, which does not always wait until it answers."""
    end = time.monotonic() + patience
    while True:
        try:
            return MilvusClient(uri, **given)
        except MilvusException as error:
            if error.code != UNAVAILABLE or time.monotonic() > end:
                raise
            time.sleep(0.2)


def is_lite(client: MilvusClient, where: str) -> bool:
    """Whether this is the small edition, which has no index on the terms; too old a server is refused."""
    try:
        version = str(client.get_server_version())
    except Exception:  # milvus-lite 2 does not tell: the call is not implemented there
        return True
    check_version("Milvus", version, OLDEST, where)
    return "lite" in version


def explained(error: MilvusException) -> str:
    message: str = getattr(error, "message", "") or str(error)
    return " ".join(message.split()).rstrip(".")
