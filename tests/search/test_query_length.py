"""A query has a length that is refused, by every way in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vsplade.cli import run
from vsplade.encode import load_encoder
from vsplade.encode.query_length import MAX_QUERY_CHARACTERS
from vsplade.errors import InputError
from vsplade.search.fused_search import fused_search, text_layer, whole
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

LONGEST = "turbine " * (MAX_QUERY_CHARACTERS // 8)
HUGE = "turbine " * 1_250_000

WAYS: dict[str, Callable[[Index, str], object]] = {
    "search": lambda index, text: index.search(text),
    "batch": lambda index, text: index.search_batch(["turbine", text, "blade"], threads=2),
    "encode_query": lambda index, text: index.encode_query(text),
    "fused": lambda index, text: fused_search([whole(index), text_layer(index)], text, 10),
    "reader": lambda index, text: load_encoder("reader").encode_query(text),
    "text": lambda index, text: load_encoder("text").encode_query(text),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("long") / "i"
    encoder = load_encoder("reader+text")
    with IndexWriter(folder, encoder) as writer:
        writer.add(
            "page", SparseVector.from_dict(dict.fromkeys(encoder.encode_query("turbine").terms.tolist(), 1.0))
        )
    return Index.open(folder)


@pytest.mark.parametrize("way", WAYS)
def test_too_long_is_refused(index: Index, way: str) -> None:
    WAYS[way](index, LONGEST)
    with pytest.raises(InputError, match=r"10,000,000 characters, above the limit of 10,000; shorten it"):
        WAYS[way](index, HUGE)


def test_the_command_says_so(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(Path(index.folder))
    assert run(["search", LONGEST + " " * 100, "--index", where]) == 2
    assert "above the limit of 10,000" in capsys.readouterr().err
