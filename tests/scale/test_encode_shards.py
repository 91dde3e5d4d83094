"""``vsplade encode --parquet``: shards that count once, and an index equal to the one made directly."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

import pyarrow.parquet as pq
from tests.exchange.test_parquet import content
from tests.test_cli import TEXT, as_json, vsplade, write_pdf

from vsplade.encode import load_encoder
from vsplade.errors import ModelMismatchError
from vsplade.exchange.parquet_index import import_parquet
from vsplade.exchange.shard_folder import ShardFolder
from vsplade.ingest.hashing import Content, Hasher
from vsplade.scale import encode_tasks
from vsplade.scale.encode_run import encode_to_shards
from vsplade.search.index import Index


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    for number in range(12):
        place = folder / ("a" if number % 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        write_pdf(place / f"report{number // 2}.pdf", *(f"turbine {number} page {page}" for page in range(3)))
    return folder


def shard_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def test_the_index_is_the_one_that_is_made_directly(files: Path, tmp_path: Path) -> None:
    (files / "broken.pdf").write_bytes(b"nothing")
    report = as_json("encode", files, "--parquet", tmp_path / "shards", *TEXT, code=1)
    assert (report["pages"], report["failed"], report["pages_in_all"]) == (36, 1, 36)
    assert report["pages_per_core_s"] > 0
    letters = pq.read_table(tmp_path / "shards" / "dead-letters.parquet").to_pylist()
    assert [Path(row["path"]).name for row in letters] == ["broken.pdf"]
    assert letters[0]["reason"]
    as_json("index", "--from-parquet", tmp_path / "shards", "--index", tmp_path / "b")
    vsplade("index", files, "--index", tmp_path / "a", *TEXT, code=1)
    assert content(Index.open(tmp_path / "b")) == content(Index.open(tmp_path / "a"))
    again = as_json("index", files, "--index", tmp_path / "b", code=1)
    assert (again["new"], again["skipped"]) == (0, 36), "the index knows its files"


def test_export_and_import_by_the_command_line(files: Path, tmp_path: Path) -> None:
    vsplade("index", files, "--index", tmp_path / "a", *TEXT)
    vsplade("export", "--index", tmp_path / "a", "--format", "parquet", "--output", tmp_path / "shards")
    assert (
        as_json("import", tmp_path / "shards", "--index", tmp_path / "b", "--format", "parquet")["pages"]
        == 36
    )
    assert content(Index.open(tmp_path / "b")) == content(Index.open(tmp_path / "a"))


def test_a_killed_run_goes_on_and_gives_the_same_bytes(files: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from vsplade.scale import encode_tasks; encode_tasks.TASK_FILES = 1\n"
        "from vsplade.cli import main; main(sys.argv[1:])"
    )

    def command(target: Path) -> list[str]:
        return [sys.executable, "-c", script, "encode", str(files), "--parquet", str(target), *TEXT]

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, timeout=280)
    process = subprocess.Popen(
        command(tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 60
    while len(list((tmp_path / "killed").glob("part-*.jsonl"))) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert 3 <= len(list((tmp_path / "killed").glob("part-*.jsonl"))) < 12
    (tmp_path / "killed" / "part-000099-0123456789ab.parquet").write_bytes(b"PAR1 half")
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True, timeout=280)
    assert shard_bytes(tmp_path / "killed") == shard_bytes(tmp_path / "whole")


def test_changed_and_new_files_are_done_again_and_nothing_doubles(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_tasks, "TASK_FILES", 5)
    encoder, folder = load_encoder("text"), ShardFolder(tmp_path / "shards")
    assert encode_to_shards([str(files)], encoder, folder).pages == 36
    assert encode_to_shards([str(files)], encoder, folder).pages == 0
    write_pdf(files / "a" / "report0.pdf", "another text altogether")
    write_pdf(files / "a" / "zulu.pdf", "one more")
    report = encode_to_shards([str(files)], encoder, folder)
    assert report.pages_in_all == 36 - 3 + 1 + 1
    assert report.files_done_before == 12 - 5
    assert import_parquet(tmp_path / "shards", tmp_path / "b") == (35, True)
    with pytest.raises(ModelMismatchError, match="Encode into a new folder"):
        encode_to_shards([str(files)], load_encoder("text:k1=0.5"), folder)


def test_failed_files_are_tried_again_when_asked(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Hasher, path: str) -> Content:
        if path.endswith("zulu.pdf"):
            raise OSError(5, "Input/output error")
        return read(self, path)

    write_pdf(files / "zulu.pdf", "a drive that was away for a moment")
    read = Hasher.read
    encoder, folder = load_encoder("text"), ShardFolder(tmp_path / "shards")
    with monkeypatch.context() as patch:
        patch.setattr(Hasher, "read", lost)
        (problem,) = encode_to_shards([str(files)], encoder, folder).problems
    assert problem.reason == "cannot be read: Input/output error"
    assert encode_to_shards([str(files)], encoder, folder).pages_in_all == 36
    report = encode_to_shards([str(files)], encoder, folder, retry_failed=True)
    assert (report.problems, report.pages, report.pages_in_all) == ([], 1, 37)
    assert import_parquet(tmp_path / "shards", tmp_path / "b") == (37, True)


def test_a_bucket_in_and_a_bucket_out(files: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in sorted(files.rglob("*.pdf"))[:4]:
        memory.pipe_file(f"/in/{path.parent.name}/{path.name}", path.read_bytes())
    memory.pipe_file("/in/bad.pdf", b"nothing")
    encoder, folder = load_encoder("text"), ShardFolder("memory://out/shards")
    report = encode_to_shards(["memory://in"], encoder, folder)
    assert (report.pages, [problem.path for problem in report.problems]) == (12, ["memory:///in/bad.pdf"])
    import_parquet("memory://out/shards", tmp_path / "b")
    index = Index.open(tmp_path / "b")
    assert index.metadata("report0_1")["path"] == "memory:///in/a/report0.pdf"
    assert encode_to_shards(["memory://in"], encoder, folder).pages == 0


def test_the_users_own_files_stay(files: Path, tmp_path: Path) -> None:
    """Parquet files that nothing lists were taken for leftovers, and removed."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("sales.parquet", "part-0.parquet", "part-000000-x.parquet", "rows.jsonl", "finished.json"):
        (mine / name).write_text("mine")
        said = vsplade("encode", files, "--parquet", mine, *TEXT, code=2).stderr
        assert "a folder of their own" in said
        assert (mine / name).read_text() == "mine"
        (mine / name).unlink()
    vsplade("encode", files, "--parquet", mine, *TEXT)
    for name in ("sales.parquet", "rows.jsonl"):  # laid beside them later
        (mine / name).write_text("mine")
    (mine / "part-000007-0123456789ab.parquet").write_text("left by a killed run")
    assert as_json("encode", files, "--parquet", mine, *TEXT)["pages_in_all"] == 36
    assert (mine / "sales.parquet").read_text() + (mine / "rows.jsonl").read_text() == "minemine"
    assert not (mine / "part-000007-0123456789ab.parquet").exists()


def test_a_run_that_is_refused_leaves_the_folder_finished(files: Path, tmp_path: Path) -> None:
    vsplade("encode", files, "--parquet", tmp_path / "shards", *TEXT)
    before = (tmp_path / "shards" / "finished.json").read_bytes()
    vsplade("encode", files, "--parquet", tmp_path / "shards", "--encoder", "text:k1=2", code=2)
    vsplade("encode", tmp_path / "nothing", "--parquet", tmp_path / "shards", *TEXT, code=2)
    assert (tmp_path / "shards" / "finished.json").read_bytes() == before


def test_one_of_two_outputs() -> None:
    assert "--output FILE or --parquet DIR" in as_json("encode", "x", code=2)["error"]
