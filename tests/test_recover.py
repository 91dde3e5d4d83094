"""``vsplade index --recover``: what can be trusted comes back, what is missing is named and read again."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest

from pages.encoder import WordEncoder
from pages.samples import write_pdf
from store.test_keeping import damage
from vsplade.cli import run as run_cli
from vsplade.errors import InputError, VspladeWarning
from vsplade.ingest import index_paths
from vsplade.ingest.recover import recover
from vsplade.search.index import Index
from vsplade.store import file_names
from vsplade.store import manifest as manifests
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name, fruit in (("a", "apple"), ("b", "banana"), ("c", "cherry")):
        write_pdf(tmp_path / "docs" / f"{name}.pdf", f"{fruit} pie", f"{fruit} juice", f"{fruit} jam")
    return tmp_path / "docs"


@pytest.fixture
def where(docs: Path, tmp_path: Path) -> Path:
    """One segment a file; a page was deleted, a file replaced, another shortened."""
    folder = tmp_path / "index"
    for name in "abc":
        index_paths([docs / f"{name}.pdf"], folder, WordEncoder(), workers=1)
    write_pdf(docs / "c.pdf", "coconut pie", "coconut juice")
    index_paths([docs], folder, WordEncoder(), workers=1)
    with IndexWriter(folder) as writer:
        writer.delete("a_2")
    return folder


def contents(folder: Path) -> dict[str, tuple[dict, list[int], list[float]]]:  # type: ignore[type-arg]
    return {
        id: (dict(metadata), vector.terms.tolist(), vector.weights.tolist())
        for id, vector, metadata in Index.open(folder).pages_with_metadata()
    }


def segment_of(folder: Path, path: str) -> Path:
    """The newest segment with pages of a file."""
    for file in reversed(file_names.own_files(folder, "segment")):
        column = Index.open(folder)._view.snapshot.segments
        for live in column:
            if live.segment.container.path == file and path in str(live.segment.metadata(0)["path"]):
                return file
    raise AssertionError(path)


def test_a_lost_manifest_comes_back_exactly(docs: Path, where: Path) -> None:
    before, state = contents(where), Index.open(where).state()
    old = manifests.load(where)
    (where / "MANIFEST").unlink()
    report = recover(where)
    assert (report.pages, report.missing, report.read_again, report.set_aside) == (7, 0, [], [])
    assert report.files == [str(docs / f"{name}.pdf") for name in "abc"]
    assert contents(where) == before
    assert Index.open(where).state() == state
    assert Index.open(where).check() == []
    new = manifests.load(where)
    assert (new.encoder, new.fingerprint, new.vocabulary) == (old.encoder, old.fingerprint, old.vocabulary)
    assert new.next_file >= old.next_file
    encoder = WordEncoder()
    index_paths([docs], where, encoder, workers=1)
    assert encoder.seen == []  # and the deleted page stays away
    assert "a_2" not in Index.open(where)


@pytest.mark.parametrize("body", [b"", b"rubbish", b"vsplade-index 2 00000000\n{}"])
def test_a_damaged_manifest_is_kept_aside(where: Path, body: bytes) -> None:
    before = contents(where)
    (where / "MANIFEST").write_bytes(body)
    assert recover(where).set_aside == ["MANIFEST.damaged"]
    assert (where / "MANIFEST.damaged").read_bytes() == body
    assert contents(where) == before


@pytest.mark.parametrize("gone", [True, False])
def test_tombstones_of_format_1_and_none_at_all(where: Path, gone: bool) -> None:
    """Then the records and the newest copy of a page say what is live; only `delete` may be undone."""
    before = set(contents(where))
    for path in file_names.own_files(where, "deleted"):
        bits = path.read_bytes()[:1]  # of three pages; the rest is the segment's name
        path.unlink()
        if not gone:
            path.write_bytes(bits)
    (where / "MANIFEST").unlink()
    assert gone or any("not known of which segment" in note for note in recover(where).notes)
    if gone:
        recover(where)
    assert set(contents(where)) == before | {"a_2"}
    words = Index.open(where, WordEncoder())
    assert [hit.id for hit in words.search("cherry")] == []
    assert sorted(hit.id for hit in words.search("coconut")) == ["c_1", "c_2"]


@pytest.mark.parametrize("lost", ["bytes", "header", "file"])
@pytest.mark.parametrize("manifest", [True, False])
def test_a_damaged_segment_is_set_aside_and_its_pages_are_read_again(
    docs: Path, where: Path, lost: str, manifest: bool
) -> None:
    before = contents(where)
    broken = segment_of(where, "b.pdf")
    if lost == "bytes":
        damage(broken)
    elif lost == "header":
        broken.write_bytes(b"?" * 500)
    else:
        broken.unlink()
    if not manifest:
        (where / "MANIFEST").unlink()
    elif lost != "file":
        with pytest.warns(VspladeWarning, match=f"3 of .*{broken.name}.*--recover.*: {docs / 'b.pdf'}"):
            assert Index.open(where).pages == len(before) - 3
    report = recover(where)
    assert report.read_again == [str(docs / "b.pdf")]
    assert report.files == [str(docs / "a.pdf"), str(docs / "c.pdf")]
    assert report.missing == 3, (lost, manifest)
    assert report.set_aside == ([] if lost == "file" else [broken.name + ".damaged"])
    assert lost == "file" or (where / f"{broken.name}.damaged").exists()
    kept = {id: page for id, page in before.items() if not id.startswith("b")}
    assert contents(where) == kept
    encoder = WordEncoder()
    index_paths([docs], where, encoder, workers=1)
    assert sorted(encoder.seen) == ["b_1", "b_2", "b_3"]
    assert contents(where) == before
    assert lost == "file" or (where / f"{broken.name}.damaged").exists()


def test_damaged_side_files(docs: Path, where: Path) -> None:
    before = contents(where)
    for kind in ("deleted", "state"):
        for path in file_names.own_files(where, kind):
            copy = where.parent / f"copy-{path.name}"
            shutil.copytree(where, copy)
            (copy / path.name).write_bytes(b"rubbish")
            report = recover(copy)
            assert report.set_aside == [f"{path.name}.damaged"]
            assert set(contents(copy)) - {"a_2"} == set(before)
            index_paths([docs], copy, WordEncoder(), workers=1)
            assert set(contents(copy)) - {"a_2"} == set(before)


def test_pages_that_no_file_names(where: Path) -> None:
    with IndexWriter(where) as writer:
        writer.add("imported", SparseVector.from_dict({1: 1.0}))
    (where / "MANIFEST").unlink()
    recover(where)
    assert "imported" in Index.open(where)
    damage(file_names.own_files(where, "segment")[-1])
    assert any("1 pages without a source file" in note for note in recover(where).notes)


def test_segments_of_before_need_the_encoders_name(where: Path) -> None:
    """Those of format 1 do not say which encoder made them."""
    before = contents(where)
    for path in file_names.own_files(where, "segment"):
        data = path.read_bytes()
        length = int.from_bytes(data[12:16], "little")
        header = json.loads(data[24 : 24 + length])
        del header["encoder"], header["fingerprint"]
        text = json.dumps(header, separators=(",", ":")).encode().ljust(length)[:length]
        path.unlink()
        path.write_bytes(
            data[:16] + zlib.crc32(text).to_bytes(4, "little") + data[20:24] + text + data[24 + length :]
        )
    (where / "MANIFEST").unlink()
    with pytest.raises(InputError, match="--encoder"):
        recover(where)
    recover(where, EncoderIdentity.of(WordEncoder()))
    assert contents(where) == before
    assert Index.open(where, WordEncoder()).check() == []


def test_a_sound_index_is_left_alone(where: Path) -> None:
    before = {path.name: path.read_bytes() for path in where.iterdir() if path.name != "LOCK"}
    assert not recover(where).needed
    assert {path.name: path.read_bytes() for path in where.iterdir() if path.name != "LOCK"} == before


def test_nothing_to_recover(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="nothing of an index"):
        recover(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_on_the_command_line(where: Path, docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(segment_of(where, "b.pdf"))
    assert run_cli(["index", "--check", "--index", str(where)]) == 2
    assert "--recover" in capsys.readouterr().err
    assert run_cli(["index", "--recover", "--index", str(where), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["read_again"] == [str(docs / "b.pdf")]
    assert f"Index again: {docs / 'b.pdf'}" in shown.err
    assert run_cli(["index", "--recover", "--index", str(where)]) == 0
    assert "this index is sound" in capsys.readouterr().out
