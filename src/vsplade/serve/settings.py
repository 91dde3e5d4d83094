"""What a server is started with, and how much one request may cost."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from vsplade.backends.address import Where, as_where, parse_address
from vsplade.errors import InputError

KEY_LEAST = 16
"""Characters of a key: shorter ones can be guessed."""


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """What a request may ask for; beyond it there is an error that names the limit."""

    request_bytes: int = 1 << 20
    """Of a JSON body."""
    query_chars: int = 1000
    batch: int = 100
    """Queries in one request."""
    k: int = 1000
    upload_bytes: int = 256 << 20
    """Of one uploaded file."""
    seconds: float = 60.0
    """For one page of an added file."""
    jobs: int = 100
    """Jobs that may wait; more are refused with 429."""
    waiting: int = 64
    """Requests that may wait for a page to be rendered; more are refused with 503."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if not getattr(self, each.name) > 0:
                raise InputError(f"The limit {each.name} must be above zero, not {getattr(self, each.name)}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the processes of a server share."""

    index_dir: str
    """A folder, or the address of an index on another engine."""
    uploads: str
    """Where uploaded files are kept."""
    roots: tuple[str, ...] = ()
    """Folders from which files may be added by their path."""
    keys: tuple[str, ...] = field(default=(), repr=False)
    """Without one of these no request is answered; none: everyone may ask."""
    hosts: tuple[str, ...] = ()
    """Names by which the server may be called, beside localhost and plain addresses."""
    read_only: bool = False
    show_paths: bool = False
    """Whether answers name the files' paths on the server."""
    metrics: str = ""
    """The file that the workers count in."""
    limits: ServeLimits = field(default_factory=ServeLimits)

    def __post_init__(self) -> None:
        for key in self.keys:
            if len(key) < KEY_LEAST or not key.isascii() or not key.isprintable() or " " in key:
                raise InputError(
                    f"A key must have at least {KEY_LEAST} letters and digits and no spaces. Make one with: "
                    "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
                )

    @property
    def where(self) -> Where:
        return as_where(self.index_dir)

    @property
    def in_one_process(self) -> bool:
        """Whether only one process may have the index open: an engine's own file on this machine."""
        where = self.where
        return isinstance(where, str) and parse_address(where).path is not None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        given: dict[str, Any] = json.loads(text)
        limits = ServeLimits(**given.pop("limits"))
        given |= {key: tuple(given[key]) for key in ("roots", "keys", "hosts")}
        return cls(**given, limits=limits)


def default_uploads(where: Where) -> Path:
    """Beside the index, so that the one can be deleted and built again without the other. For an index on a
    server it is here, by the name of the collection.
    """
    if isinstance(where, str):
        address = parse_address(where)
        where = address.path or Path(address.collection)
    return where.with_name(where.name + ".uploads")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, keys: tuple[str, ...]) -> None:
    """Beyond this machine only with a key."""
    if not keys and not is_loopback(host):
        raise InputError(
            f"--host {host} can be reached from other machines, and there is no key. Give one in a file with "
            "--key-file, or in the environment variable VSPLADE_KEY; or serve on 127.0.0.1."
        )
