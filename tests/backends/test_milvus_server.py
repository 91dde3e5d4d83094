"""Milvus behind a network address: the small edition's own server, in a process of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backends.places import milvus_server
from tests.backends.test_bad_engines import unused_port
from tests.backends.test_conformance import PAGES, Corpus, agree, fill

from vsplade.errors import EngineError
from vsplade.search.index import Index
from vsplade.search.open_index import open_index


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with milvus_server(tmp_path, unused_port()) as running:
        yield running


def wait_for(address: str) -> None:
    """It is there when it says that there is no such index, and not that it cannot be reached."""
    end = time.monotonic() + 60
    while True:
        try:
            open_index(address)
        except EngineError:
            assert time.monotonic() < end
            time.sleep(0.5)
        except Exception:
            return


def test_a_server_answers_as_a_folder_and_its_end_is_told(
    server: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    process, address = server
    wait_for(address)
    fill(address)
    fill(tmp_path / "reference")
    index, reference = open_index(address), Index.open(tmp_path / "reference")
    for meaning in (False, True):
        query = Corpus(2).query(meaning)
        agree(index.search(query, PAGES), reference.search(query, PAGES))
    assert list(index.ids()) == list(reference.ids())
    process.kill()
    process.wait()
    with pytest.raises(EngineError, match=address):
        index.search(Corpus(2).query(meaning=False))
