"""What goes wrong with engines: each error names the place and what to do, and no page is lost or doubled."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.places import ENGINES, where
from tests.backends.test_conformance import IDENTITY, PAGES, Corpus, agree, fill

from vsplade.backends import collection_writer
from vsplade.backends.address import parse_address
from vsplade.backends.connect import connect
from vsplade.backends.open_writer import open_writer
from vsplade.errors import EngineError, IndexFormatError, InputError, MissingExtraError
from vsplade.search.index import Index
from vsplade.search.open_index import open_index
from vsplade.types import SparseVector


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_no_server(engine: str) -> None:
    address = f"{engine}://127.0.0.1:{unused_port()}/pages"
    for use in (open_index, open_writer):
        with pytest.raises(EngineError, match="cannot be reached") as caught:
            use(address)
        assert address in str(caught.value)


@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_a_server_that_does_not_answer(engine: str) -> None:
    """Something listens and says nothing: the error comes soon, and names the address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"{engine}://127.0.0.1:{listener.getsockname()[1]}/pages"
        started = time.monotonic()
        with pytest.raises(EngineError, match="cannot be reached") as caught:
            open_index(address)
        assert time.monotonic() - started < 30
        assert address in str(caught.value)


def test_an_old_milvus_is_refused() -> None:
    pytest.importorskip("pymilvus")
    from vsplade.backends.collection import check_version
    from vsplade.backends.milvus_connect import OLDEST

    for version in ("v2.3.9", "2.2", "unknown"):
        with pytest.raises(EngineError, match=rf"milvus://h/p: this is Milvus {version}"):
            check_version("Milvus", version, OLDEST, "milvus://h/p")
    for version in ("v2.4.0", "2.6.3-gpu", "milvus_lite-3.2.2"):
        check_version("Milvus", version, OLDEST, "milvus://h/p")


def test_an_old_qdrant_is_refused() -> None:
    from vsplade.backends.collection import check_version
    from vsplade.backends.qdrant_server_store import OLDEST

    for version in ("1.9.2", "0.11.0", "unknown"):
        with pytest.raises(EngineError, match=rf"qdrant://h/p: this is Qdrant {version}"):
            check_version("Qdrant", version, OLDEST, "qdrant://h/p")
    check_version("Qdrant", "1.16.0", OLDEST, "qdrant://h/p")


@pytest.mark.parametrize("engine", ["milvus", "qdrant"])
def test_the_client_is_missing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsplade.backends.connect.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"vsplade\[{engine}\]"):
        open_index(f"{engine}://h/p")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import pkg_resources_of_old", r"cannot be loaded \(No module named 'pkg_resources_of_old'\)"),
        ("raise ModuleNotFoundError('no', name='milvus_lite')", "needs the package milvus-lite"),
    ],
)
def test_a_milvus_lite_that_cannot_be_loaded(
    source: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pymilvus")
    (tmp_path / "milvus_lite.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "milvus_lite", raising=False)
    with pytest.raises(InputError, match=told):
        open_index(f"milvus://{tmp_path}/x.db/pages")


@pytest.mark.parametrize("engine", ENGINES)
def test_another_format_is_refused(engine: str, tmp_path: Path) -> None:
    place = where(engine, tmp_path)
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", Corpus().vector())
    collection = connect(parse_address(str(place)))
    collection.write_records({"manifest": {"format": 99}})
    collection.close()
    for use in (open_index, open_writer):
        with pytest.raises(IndexFormatError, match="format 99"):
            use(place)


def test_a_collection_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """On Milvus: it has other fields."""
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(str(tmp_path / "milvus.db"))
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
    client.create_collection("pages", schema=schema)
    client.insert("pages", [{"id": 1, "vector": [1.0, 2.0]}])
    for use in (open_index, open_writer):
        with pytest.raises(IndexFormatError, match="not made by vsplade"):
            use(where("milvus", tmp_path))
    assert client.list_collections() == ["pages"]
    client.close()


class Broken(Exception):
    """What a network does."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("call", ["put", "remove", "write_records"])
def test_a_failure_in_the_middle_is_made_good_by_the_next_run(
    engine: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of call is cut off once, after it reached the engine and before the answer came back."""
    fill(tmp_path / "reference")
    place, broken = where(engine, tmp_path), False
    real = collection_writer.connect

    def connect_badly(address: Any) -> Any:
        collection = real(address)
        whole = getattr(collection, call)

        def cut_off(given: Any) -> None:
            nonlocal broken
            whole(given)
            if not broken:
                broken = True
                raise Broken

        monkeypatch.setattr(collection, call, cut_off)
        return collection

    monkeypatch.setattr(collection_writer, "connect", connect_badly)
    with pytest.raises(Broken):
        fill(place)
    fill(place)
    index, reference = open_index(place), Index.open(tmp_path / "reference")
    assert sorted(index.ids()) == sorted(reference.ids())
    query = Corpus(2).query(meaning=True)
    agree(index.search(query, PAGES), reference.search(query, PAGES))


@pytest.mark.parametrize("engine", ENGINES)
def test_two_writers_are_noticed(engine: str, tmp_path: Path) -> None:
    place = where(engine, tmp_path)
    with open_writer(place, IDENTITY) as writer:
        writer.add("a", Corpus().vector())
        writer.commit()
        other = open_writer(place)
        other.add("b", Corpus().vector())
        other.commit()
        other.close()
        writer.add("c", Corpus().vector())
        with pytest.raises(EngineError, match="another process has written"):
            writer.commit()
        writer.close()


def test_what_milvus_cannot_hold_is_named(tmp_path: Path) -> None:
    place = where("milvus", tmp_path)
    vector = SparseVector(np.array([1], np.uint32), np.ones(1, np.float32))
    with open_writer(place, IDENTITY) as writer:
        writer.add("good", vector)
        writer.commit()
        writer.add("long", vector, {"text": "x" * 70_000})
        with pytest.raises(InputError, match="page 'long': its metadata"):
            writer.commit()
        writer.close()
    assert list(open_index(place).ids()) == ["good"]
