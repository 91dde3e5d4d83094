"""Addresses of engines: read strictly, and never mistaken for folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vsplade.backends.address import Address, as_where, is_address, parse_address
from vsplade.errors import InputError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("milvus://db.example.org:1234/pages", Address("milvus", "pages", host="db.example.org", port=1234)),
        ("milvus://localhost/pages", Address("milvus", "pages", host="localhost", port=19530)),
        ("milvus://h:1/base/p", Address("milvus", "p", host="h", port=1, database="base")),
        ("milvus+https://h:1/p", Address("milvus", "p", host="h", port=1, tls=True)),
        ("milvus://[::1]:5/p", Address("milvus", "p", host="[::1]", port=5)),
        ("milvus:///a/b c/x.db/p", Address("milvus", "p", path=Path("/a/b c/x.db"))),
        ("milvus://x.db/p", Address("milvus", "p", path=Path("x.db"))),
        ("milvus://h/p?shards=4&replicas=2", Address("milvus", "p", None, "h", 19530, shards=4, replicas=2)),
        ("qdrant://h/p", Address("qdrant", "p", host="h", port=6333)),
        ("qdrant://a/x.qdrant/p", Address("qdrant", "p", path=Path("a/x.qdrant"))),
    ],
)
def test_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == replace(address, shards=1, replicas=1)
    assert as_where(text) == text
    assert is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "milvus://",
        "milvus://host",
        "milvus://host:19530/",
        "milvus://host:99999/p",
        "milvus://host:0/p",
        "milvus://host/9pages",
        "milvus://host/pa ges",
        "milvus://host/p'; drop",
        "milvus://user:password@host/p",
        "milvus://host/a/b/c",
        "qdrant://host/database/p",
        "milvus://host/p?shards=0",
        "milvus://host/p?replicas=x",
        "milvus://host/p?password=x",
        "mysql://host/p",
        "file:///x",
        "qdrant:./x.qdrant/p",
        "milvus:/host/p",
        "milvus+https:host/p",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        as_where(text)
    assert text in str(caught.value)
    assert "milvus://" in str(caught.value) or "qdrant://" in str(caught.value)


@pytest.mark.parametrize("text", ["milvus", "a/milvus:/b", "C:\\index", "./milvus.db/pages", "my.vsplade"])
def test_folders_are_paths(text: str) -> None:
    assert as_where(text) == Path(text)
