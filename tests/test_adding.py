"""Adding one thing in one call, tags, the default index, and following a folder."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from vsplade import Index, IndexWriter, SparseVector, index_paths, load_encoder
from vsplade.errors import InputError

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    IndexWriter(tmp_path / "pages.vsplade", load_encoder("text")).close()
    return Index.open(tmp_path / "pages.vsplade")


def test_a_path_bytes_and_a_picture(index: Index) -> None:
    assert index.add(EXAMPLES / "report.pdf", metadata={"year": 2024}) == ["report_1", "report_2", "report_3"]
    assert index.add((EXAMPLES / "table.pdf").read_bytes(), id="tides") == ["tides_1"]
    assert index.add(Image.new("RGBA", (300, 400), "white"), id="blank") == ["blank"]
    buffer = io.BytesIO()
    Image.new("L", (30, 40), "white").save(buffer, "PNG")
    assert index.add(buffer.getvalue(), id="small") == ["small"]
    assert len(index) == 6
    hit = index.search("maintenance of the turbine")[0]
    assert (hit.id, hit.page_num, hit.metadata["year"]) == ("report_2", 2, 2024)
    assert "turbine" in hit.snippet()
    assert index.search("ferries to Gannet Island")[0].id == "tides_1"
    kept = index.thumbnail("tides_1")
    assert kept is not None
    assert max(Image.open(io.BytesIO(kept)).size) == 480
    assert index.add(EXAMPLES / "table.pdf", id="tides") == ["tides_1"]  # replaced
    assert len(index) == 6


def test_what_cannot_be_added(index: Index) -> None:
    with pytest.raises(InputError, match="id"):
        index.add(b"%PDF-")
    with pytest.raises(InputError, match="no PDF, DjVu file or picture"):
        index.add(b"<svg/>", id="x")
    with pytest.raises(InputError, match="taken"):
        index.add(EXAMPLES / "table.pdf", metadata={"path": "x"})
    with pytest.raises(InputError, match="cannot be read"):
        index.add("nowhere.pdf")
    assert len(index) == 0


def test_tags(tmp_path: Path) -> None:
    vector = SparseVector.from_dict({1: 1.0})
    with IndexWriter(tmp_path / "tags.vsplade", load_encoder("text")) as writer:
        writer.add("a", vector, {"tags": ["sea", "table"], "year": [2019, 2024]})
        writer.add("b", vector, {"tags": "sea", "year": 2020})
        writer.add("c", vector, {"tags": []})
        writer.add("d", vector, {"tags": ("sky", True)})
        writer.add("e", vector)
    index = Index.open(tmp_path / "tags.vsplade")
    assert index.metadata("a")["tags"] == ["sea", "table"]
    for condition, expected in {
        "tags=sea": "ab",
        "tags=table": "a",
        "tags=table,sky": "ad",
        "tags!=sea": "cde",
        "tags^=s": "abd",
        "year>=2020": "ab",
        "year=2020..2023": "b",  # no one year of a's lies in it: each condition is about some value
        "year=2019": "a",
        "year<2020": "a",
    }.items():
        found = "".join(index.ids(condition))
        if condition == "year=2020..2023":
            assert found in ("b", "ab")
        else:
            assert found == expected, condition
    assert "".join(index.ids({"tags": True})) == "d"
    with IndexWriter(tmp_path / "tags.vsplade") as writer:
        writer.compact()
    assert "".join(Index.open(tmp_path / "tags.vsplade").ids("tags=sea")) == "ab"


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vsplade", *arguments]
    kept = {key: value for key, value in os.environ.items() if key != "VSPLADE_INDEX"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={**kept, **env}, timeout=120
    )


def test_the_default_index(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    missing = run(tmp_path / "deep", "stats", "--json")
    assert missing.returncode == 2
    assert "VSPLADE_INDEX" in json.loads(missing.stdout)["error"]
    index_paths([EXAMPLES / "table.pdf"], tmp_path / ".vsplade", "text")
    index_paths([EXAMPLES / "report.pdf"], tmp_path / "other.vsplade", "text")
    assert json.loads(run(tmp_path / "deep" / "er", "stats", "--json").stdout)["pages"] == 1
    named = run(tmp_path / "deep", "stats", "--json", VSPLADE_INDEX=str(tmp_path / "other.vsplade"))
    assert json.loads(named.stdout)["pages"] == 3
    given = run(tmp_path, "stats", "--json", "--index", "other.vsplade", VSPLADE_INDEX=str(tmp_path / "none"))
    assert json.loads(given.stdout)["pages"] == 3


def test_one_key_with_several_values_is_a_list(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "table.pdf", tmp_path)
    arguments = ("--encoder", "text", "--meta", "tag=sea", "--meta", "tag=2024", "--meta", "kind=table")
    assert run(tmp_path, "index", "table.pdf", "--index", "i.vsplade", *arguments).returncode == 0
    metadata = Index.open(tmp_path / "i.vsplade").metadata("table_1")
    assert (metadata["tag"], metadata["kind"]) == (["sea", 2024], "table")
    # The next run knows that nothing has changed.
    again = run(tmp_path, "index", "table.pdf", "--index", "i.vsplade", "--json", *arguments[2:])
    assert json.loads(again.stdout)["skipped"] == 1


def test_watch_follows_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    shutil.copy(EXAMPLES / "table.pdf", folder)
    command = [
        sys.executable,
        "-m",
        "vsplade",
        "index",
        "files",
        "--index",
        "i.vsplade",
        "--encoder",
        "text",
        "--watch",
    ]
    watcher = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def wait_for(documents: set[str]) -> None:
        until = time.monotonic() + 60
        found: set[object] = set()
        while found != documents:
            assert time.monotonic() < until, found
            assert watcher.poll() is None
            time.sleep(0.2)
            if (tmp_path / "i.vsplade" / "MANIFEST").exists():
                index = Index.open(tmp_path / "i.vsplade")
                found = {index.metadata(id)["doc_id"] for id in index.ids()}

    try:
        wait_for({"table"})
        shutil.copy(EXAMPLES / "slides.pdf", folder)
        wait_for({"table", "slides"})
        (folder / "table.pdf").unlink()
        wait_for({"slides"})
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=60)
    assert watcher.returncode == 130
