"""Addresses of indexes that an outside engine keeps: ``milvus://HOST:PORT/COLLECTION`` and its relatives."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from vsplade.errors import InputError

Where = Path | str
"""Where an index is: a folder, or an address."""

PORTS = {"milvus": 19530, "qdrant": 6333}
"""The engines, and where their servers listen unless told otherwise."""
FILE_ENDINGS = {"milvus": ".db", "qdrant": ".qdrant"}
"""What the engine keeps in a place of its own on this machine ends so."""
TOKEN = "VSPLADE_ENGINE_TOKEN"
"""Environment variable with the password of a server: it stands in no address, which others may see."""
TLS = "+https"

_ADDRESS = re.compile(r"^(?P<engine>[a-z]+)(?P<tls>\+https)?:/{1,2}(?P<rest>.*)$", re.DOTALL)
_NO_SLASHES = re.compile(r"^(?P<engine>[a-z]+)(\+https)?:")
_COLLECTION = re.compile(r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?$")


@dataclass(frozen=True, slots=True)
class Address:
    engine: str
    collection: str
    path: Path | None = None
    """Of the file or folder where the engine runs within this process."""
    host: str = ""
    port: int = 0
    database: str = ""
    tls: bool = False
    shards: int = 1
    replicas: int = 1
    """Of a collection that is made new on a server: into how many parts, and each how often."""

    def __str__(self) -> str:
        place = str(self.path) if self.path is not None else f"{self.host}:{self.port}"
        parts = (place, self.database, self.collection)
        return f"{self.engine}{TLS if self.tls else ''}://{'/'.join(part for part in parts if part)}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    @property
    def token(self) -> str:
        return os.environ.get(TOKEN, "")


def is_address(where: object) -> bool:
    """Whether this names an engine; a folder is named by a path."""
    found = _ADDRESS.match(where) if isinstance(where, str) else None
    return found is not None and "://" in str(where)


def as_where(text: str) -> Where:
    """What a person typed: an address, checked, or the path of a folder."""
    if not is_address(text):
        if (found := _NO_SLASHES.match(text)) and found["engine"] in PORTS:
            raise _unreadable(text, found["engine"], "an address has two slashes")
        return Path(text)
    parse_address(text)
    return text


def parse_address(text: str) -> Address:
    found = _ADDRESS.match(text)
    if found is None or found["engine"] not in PORTS:
        engines = ", ".join(f"{engine}://" for engine in PORTS)
        raise InputError(f"{text}: no engine is known by this address. Addresses begin with {engines}.")
    engine, tls = found["engine"], bool(found["tls"])
    rest, _, asked = found["rest"].partition("?")
    options = _options(text, engine, asked)
    place, _, collection = rest.rpartition("/")
    if not place or not _COLLECTION.match(collection):
        raise _unreadable(text, engine, f"{collection!r} is no name of a collection")
    if place.endswith(FILE_ENDINGS[engine]):
        return Address(engine, collection, path=Path(place))
    server, _, database = place.partition("/")
    host = _HOST.match(server)
    if host is None or (database and (engine != "milvus" or not _COLLECTION.match(database))):
        raise _unreadable(text, engine, f"{place!r} is neither a server nor a file")
    port = int(host["port"] or PORTS[engine])
    if not 0 < port < 1 << 16:
        raise _unreadable(text, engine, f"there is no port {port}")
    return Address(engine, collection, None, host["host"], port, database, tls, **options)


def _options(text: str, engine: str, asked: str) -> dict[str, int]:
    """``shards=4&replicas=2``."""
    options: dict[str, int] = {}
    for part in asked.split("&") if asked else ():
        name, _, value = part.partition("=")
        if name not in ("shards", "replicas") or not value.isdecimal() or not 0 < int(value) <= 1024:
            raise _unreadable(text, engine, f"{part!r} is not understood; shards=4 and replicas=2 are")
        options[name] = int(value)
    return options


def _unreadable(text: str, engine: str, why: str) -> InputError:
    return InputError(
        f"{text}: {why}. Write {engine}://HOST:PORT/COLLECTION for a server, or "
        f"{engine}://path/to/NAME{FILE_ENDINGS[engine]}/COLLECTION for a place on this machine; a collection "
        "has letters, digits and underscores, and begins with no digit."
    )
