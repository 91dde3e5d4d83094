"""Nothing of the user's is lost: not their files, not sound segments, not a commit for want of a merge."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from vsplade.errors import DamagedSegmentError, IndexFormatError, InputError, StorageError, VspladeWarning
from vsplade.search.index import Index
from vsplade.store import array_file, durable, file_names, pending, snapshot
from vsplade.store import manifest as manifests
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

from .oracle import identity

TERMS = 40


def vector(number: int) -> SparseVector:
    rng = np.random.default_rng(number)
    terms = np.sort(rng.choice(TERMS, 12, replace=False)).astype(np.uint32)
    return SparseVector(terms, rng.random(12).astype(np.float32) + np.float32(0.1))


def add_pages(folder: Path, first: int, last: int, path: str) -> None:
    with IndexWriter(folder, identity(TERMS)) as writer:
        for number in range(first, last):
            writer.add(f"p{number}", vector(number), {"path": path, "page_num": number - first + 1})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three segments of equal size, each of its own file."""
    for part, path in enumerate(("/docs/a.pdf", "/docs/b.pdf", "/docs/c.pdf")):
        add_pages(tmp_path / "i", 10 + 20 * part, 30 + 20 * part, path)
    return tmp_path / "i"


def segments(folder: Path) -> list[Path]:
    return file_names.own_files(folder, "segment")


USERS = [
    "segments.txt", "segment-notes.md", "segment-1.vsp", "segment-00000001.vsp.bak", "state-of-affairs.doc",
    "state-00000009.txt", "weights-final.f32", "deleted-scenes.mov", "draft.new", "thesis.pdf.new", "segment",
    "deleted-00000003.vsp", "MANIFEST.old", "xsegment-00000001.vsp",
]  # fmt: skip


def test_the_users_own_files_stay(folder: Path) -> None:
    for name in USERS:
        (folder / name).write_text("mine")
    (folder / "segment-00000099.vsp").mkdir()
    for number in range(3):
        with IndexWriter(folder) as writer:
            writer.delete(f"p{10 + number}")
            writer.commit()
            writer.compact()
    assert [name for name in USERS if not (folder / name).exists()] == []
    assert (folder / "segment-00000099.vsp").is_dir()


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_links_are_not_removed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (folder / "segment-00000077.vsp").symlink_to(tmp_path / "target")
    with IndexWriter(folder) as writer:
        writer.delete("p10")
    assert (folder / "segment-00000077.vsp").is_symlink()
    assert (tmp_path / "target").read_text() == "mine"


def test_what_a_killed_writer_left_is_removed(folder: Path) -> None:
    strays = [folder / "segment-00000066.vsp", folder / "state-00000067.json.new", folder / "MANIFEST.new"]
    for path in strays:
        path.write_text("half")
    with IndexWriter(folder) as writer:
        writer.delete("p10")
    assert not any(path.exists() for path in strays)


def test_a_new_index_needs_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"such as 'notes.txt'.*a folder of its own"):
        IndexWriter(tmp_path, identity(TERMS))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_lost_manifest_does_not_cost_the_segments(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in segments(folder)}
    (folder / "MANIFEST").unlink()
    for use in (Index.open, lambda path: IndexWriter(path, identity(TERMS))):
        with pytest.raises(
            IndexFormatError, match=f"lost its MANIFEST.*vsplade index --recover --index {folder}"
        ):
            use(folder)
    assert {path.name: path.read_bytes() for path in segments(folder)} == before


def damage(path: Path, array: str = "forward.weights") -> None:
    """Flip a byte in the middle of an array."""
    opened = array_file.Container(path)
    place = opened._data + opened.header["arrays"][array]["offset"] + opened[array].nbytes // 2
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.unlink()  # a new file: the old one may be mapped
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("way", ["merge", "compact"])
def test_a_damaged_segment_is_not_written_again(folder: Path, way: str) -> None:
    """It would get a right checksum for wrong bytes."""
    damage(segments(folder)[1])
    before = {path.name: path.read_bytes() for path in segments(folder)}
    with IndexWriter(folder) as writer, pytest.raises(DamagedSegmentError, match="/docs/b") as caught:
        getattr(writer, way)()
    assert caught.value.sources == ("/docs/b.pdf",)
    assert "--recover" in str(caught.value)
    assert {path.name: path.read_bytes() for path in segments(folder)} == before


def test_a_commit_stands_when_the_merge_after_it_meets_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(segments(folder)[1])
    monkeypatch.setattr(pending, "FAN_OUT", 4)
    writer = IndexWriter(folder)
    writer.add("new", vector(1))
    with pytest.raises(DamagedSegmentError, match="/docs/b"):
        writer.commit()
    writer.close()
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    assert "new" in Index.open(folder)
    assert len(segments(folder)) == 4


def test_sources_are_known_even_when_the_segment_says_nothing(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        for name in "abc":
            record = {"doc_id": name, "hash": "1", "pages": 20, "done": [[1, 20]], "metadata": {}}
            writer.set_state(f"file:/docs/{name}.pdf", record)
    damage(segments(folder)[2])
    damage(segments(folder)[2], "column.1.values")
    with IndexWriter(folder) as writer, pytest.raises(DamagedSegmentError, match=r"of: /docs/c.pdf\. "):
        writer.compact()


def test_swapped_segments_are_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    first, second, _ = segments(folder)
    assert first.stat().st_size == second.stat().st_size
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    for use in (partial(Index.open, whole=True), IndexWriter):
        with pytest.raises(IndexFormatError, match="not the file that the manifest describes"):
            use(folder)
    with pytest.warns(VspladeWarning, match="not the file that the manifest describes"):
        assert Index.open(folder).pages == 20


def test_an_index_of_format_1_is_read_and_becomes_format_2(folder: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.delete("p12")
    stored = json.loads((folder / "MANIFEST").read_bytes().split(b"\n", 1)[1])
    for entry in stored["segments"]:
        del entry["header_crc32"]
        if entry["tombstones"]:
            bits = (folder / entry["tombstones"]).read_bytes()[:3]
            (folder / entry["tombstones"]).write_bytes(bits)
            entry["tombstones_crc32"] = zlib.crc32(bits)
    body = json.dumps(stored).encode()
    (folder / "MANIFEST").write_bytes(b"vsplade-index 1 %08x\n" % zlib.crc32(body) + body)
    index = Index.open(folder)
    assert (index.pages, index.check()) == (59, [])
    with IndexWriter(folder) as writer:
        writer.delete("p13")
    assert (folder / "MANIFEST").read_bytes().startswith(b"vsplade-index 2 ")
    assert all(entry.header_crc32 for entry in manifests.load(folder).segments)
    assert Index.open(folder).pages == 58


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_a_full_disk_during_the_merge_leaves_the_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fail_at: int
) -> None:
    monkeypatch.setattr(pending, "FAN_OUT", 4)
    with IndexWriter(folder) as writer:
        writer.add("new", vector(1))
        writes = [0]
        real = durable._write_all

        def full(*arguments: object) -> int:
            if manifests.load(folder).generation > 3:  # the commit is made: this is the merge
                writes[0] += 1
                if writes[0] >= fail_at:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(durable, "_write_all", full)
            with pytest.warns(VspladeWarning, match="everything is committed.*No space left"):
                writer.commit()
        assert "new" in Index.open(folder)
        assert Index.open(folder).check() == []
        assert len(segments(folder)) == 4  # nothing half made is left
        writer.commit()
        assert Index.open(folder).statistics()["segments"] == 1
        assert Index.open(folder).pages == 61


def test_a_failed_sync_does_not_cost_files_that_the_new_manifest_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest was swapped, then a sync failed: after a rollback the index on disk must still open."""
    writer = IndexWriter(folder)
    writer.add("new", vector(1))
    real = durable.sync_folder

    def fail(path: Path) -> None:
        if manifests.load(folder).generation > 3:
            raise OSError(errno.EIO, "bad disk")
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync_folder", fail)
        with pytest.raises(StorageError):
            writer.commit()
    writer.rollback()
    writer.close()
    assert Index.open(folder).check() == []


def test_a_writer_names_a_missing_file(folder: Path, tmp_path: Path) -> None:
    with IndexWriter(folder) as writer:
        writer.delete("p12")
        writer.set_state("key", 1)
    for path in folder.iterdir():
        if file_names.parse_name(path.name):
            copy = tmp_path / f"copy-{path.name}"
            shutil.copytree(folder, copy)
            (copy / path.name).unlink()
            with pytest.raises(IndexFormatError, match=f"{path.name}.*--recover"):
                IndexWriter(copy)


def test_an_export_does_not_overwrite_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl.new").write_text("mine")
    durable.write_durably(tmp_path / "out.jsonl", [b"data"])
    assert (tmp_path / "out.jsonl.new").read_text() == "mine"
    assert (tmp_path / "out.jsonl").read_bytes() == b"data"
