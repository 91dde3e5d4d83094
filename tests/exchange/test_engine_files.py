"""Files for OpenSearch and Vespa, held against the forms that these engines document."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from tests.test_cli import vsplade

from vsplade.errors import InputError
from vsplade.exchange.engine_files import export_engine_files
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

IDS = ["a_1", "strange/id ä", "empty"]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    rng = np.random.default_rng(1)
    with IndexWriter(tmp_path / "i", EncoderIdentity("test", "1", 300)) as writer:
        for id in IDS:
            terms = np.unique(rng.integers(0, 300, 20 if id != "empty" else 0)).astype(np.uint32)
            weights = (rng.random(len(terms)) * 2 + 0.001).astype(np.float32)
            metadata = {"path": f"/x/{id}", "page_num": 1, "tags": ["a", 1], "doc_id": "d"}
            writer.add(id, SparseVector(terms, weights), metadata)
    return Index.open(tmp_path / "i")


@pytest.mark.parametrize("format", ["opensearch", "opensearch-sparse", "vespa"])
def test_the_command_says_that_no_server_was_tried(index: Index, tmp_path: Path, format: str) -> None:
    told = vsplade("export", "--index", tmp_path / "i", "--format", format, "--output", tmp_path / "out")
    assert "not tried on a server" in told.stderr


def lines(path: Path) -> list[Any]:
    text = path.read_text("ascii")
    assert text.endswith("\n")  # a bulk request must
    return [json.loads(line) for line in text.splitlines()]


def same(index: Index, id: str, weights: dict[str, float]) -> None:
    vector = index.vector(id)
    assert list(weights) == [str(term) for term in vector.terms.tolist()]
    assert np.array_equal(np.array(list(weights.values()), np.float32), vector.weights)


@pytest.mark.parametrize(
    ("format", "kind"), [("opensearch", "rank_features"), ("opensearch-sparse", "sparse_vector")]
)
def test_opensearch(index: Index, tmp_path: Path, format: str, kind: str) -> None:
    assert export_engine_files(index, tmp_path / "out", format, 100) == len(IDS)
    body = json.loads((tmp_path / "out" / "mapping.json").read_text())
    properties = body["mappings"]["properties"]
    assert properties["words"]["type"] == kind
    if kind == "sparse_vector":
        assert body["settings"]["index"]["sparse"] is True
        assert properties["words"]["method"]["name"] == "seismic"
    bulk = lines(tmp_path / "out" / "bulk.ndjson")
    assert len(bulk) == 2 * len(IDS)
    for action, page in zip(bulk[::2], bulk[1::2], strict=True):
        assert list(action) == ["index"]
        id = action["index"]["_id"]
        assert page["page_id"] == id
        assert set(page) <= set(properties)
        assert page["metadata"] == index.metadata(id)
        if id == "empty":
            assert "words" not in page  # both types refuse what has no feature
        else:
            assert all(weight > 0 for weight in page["words"].values())
            assert all(re.fullmatch(r"\d+", term) for term in page["words"])
            same(index, id, page["words"])


def test_vespa(index: Index, tmp_path: Path) -> None:
    assert export_engine_files(index, tmp_path / "out", "vespa", 100) == len(IDS)
    schema = (tmp_path / "out" / "page.sd").read_text()
    assert schema.count("{") == schema.count("}")
    fields = dict(re.findall(r"field (\w+) type ([^{ ]+(?:\{\}\))?)", schema))
    assert fields["terms"] == "weightedset<int>"
    feed = lines(tmp_path / "out" / "feed.jsonl")
    assert len(feed) == len(IDS)
    for id, document in zip(IDS, feed, strict=True):
        namespace, kind, key = re.fullmatch(r"id:(\w+):(\w+)::(\S+)", document["put"]).groups()  # type: ignore[union-attr]
        assert (namespace, kind, unquote(key)) == ("pages", "page", id)
        assert set(document["fields"]) <= set(fields)
        assert json.loads(document["fields"]["metadata"]) == index.metadata(id)
        same(index, id, document["fields"]["words"]["cells"])
        for term, weight in document["fields"]["terms"].items():
            assert isinstance(weight, int)
            assert weight == max(1, round(100 * document["fields"]["words"]["cells"][term]))


def test_a_folder_with_files_is_refused(index: Index, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    with pytest.raises(InputError, match="Export into a new one"):
        export_engine_files(index, tmp_path / "out", "vespa", 100)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
