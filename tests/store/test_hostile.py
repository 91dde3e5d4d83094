"""An index folder from a stranger: a clean error or an answer, never a crash, a hang or a download."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vsplade.errors import IndexFormatError, InputError, StorageError, VspladeError
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter

from . import crash_worker
from .oracle import identity
from .test_damage import files, told


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "i")


def make(folder: Path) -> Path:
    with IndexWriter(folder, identity(crash_worker.VOCABULARY)) as target:
        for number in (1, 2, 3):
            crash_worker.write_commit(target, number)
            target.commit()
        target.set_state("file:a", {"doc_id": "a", "hash": "1", "pages": 3, "done": [[1, 3]], "metadata": {}})
    return folder


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    body = (folder / "MANIFEST").read_bytes().split(b"\n", 1)[1]
    changed = json.dumps({**json.loads(body), **changes}).encode()
    (folder / "MANIFEST").write_bytes(b"vsplade-index 2 %08x\n" % zlib.crc32(changed) + changed)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("first", "last"), [(0, 400), pytest.param(400, 3000, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_altered_indexes_with_right_checksums(first: int, last: int, tmp_path: Path) -> None:
    """In processes of their own: what this looks for are crashes."""
    base = make(tmp_path / "base")
    done = subprocess.run(
        [sys.executable, "-m", "store.hostile_worker", base, tmp_path, str(first), str(last)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, f"exit code {done.returncode} after: {done.stderr[-3000:]}"
    outcomes = json.loads(done.stdout)
    for engine in ("numpy", "numba"):  # refused, searched in part, or altered in a way that may be
        assert outcomes[f"{engine}: refused"] > (last - first) / 10
        assert outcomes[f"{engine}: in part"] > (last - first) / 10
        assert outcomes[f"{engine}: done"] > (last - first) / 20


@pytest.mark.parametrize("pages", [65_537, 1 << 20, 1 << 40, -1, 0, True, "3", None])
def test_a_page_count_that_cannot_be(folder: Path, pages: object) -> None:
    entries = json.loads((folder / "MANIFEST").read_bytes().split(b"\n", 1)[1])["segments"]
    entries[0]["pages"] = pages
    rewrite_manifest(folder, segments=entries)
    with pytest.raises(IndexFormatError, match="'pages' cannot be"):
        Index.open(folder)


@pytest.mark.parametrize(
    "name", ["../segment-00000001.vsp", "/etc/passwd", "x", "segment-1.vsp", "a/segment-00000001.vsp"]
)
def test_paths_cannot_leave_the_folder(folder: Path, name: str) -> None:
    entries = json.loads((folder / "MANIFEST").read_bytes().split(b"\n", 1)[1])["segments"]
    entries[0]["file"] = name
    rewrite_manifest(folder, segments=entries)
    with pytest.raises(IndexFormatError, match="MANIFEST: this index file is damaged: 'file' cannot be"):
        Index.open(folder)


@pytest.mark.parametrize("body", [b"[]", b"3", b"{}", b"{", b"[" * 100_000, b"\xff\xfe", b'{"encoder": 1}'])
def test_a_manifest_that_is_something_else(folder: Path, body: bytes) -> None:
    (folder / "MANIFEST").write_bytes(b"vsplade-index 2 %08x\n" % zlib.crc32(body) + body)
    for use in (Index.open, IndexWriter):
        with pytest.raises(IndexFormatError, match="MANIFEST: this index file is damaged"):
            use(folder)


posix = pytest.mark.skipif(os.name != "posix", reason="needs links and pipes of POSIX")


@posix
def test_a_lock_that_is_a_link_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("my thesis")
    (folder / "LOCK").unlink()
    (folder / "LOCK").symlink_to(precious)
    with pytest.raises(VspladeError, match="LOCK: this is a link"):
        IndexWriter(folder)
    (folder / "LOCK").unlink()
    os.link(precious, folder / "LOCK")
    with pytest.raises(StorageError, match="not one of vsplade's"):
        IndexWriter(folder)
    assert precious.read_text() == "my thesis"


@posix
def test_an_unfinished_file_that_is_a_link_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("my thesis")
    (folder / "MANIFEST.new").symlink_to(precious)
    with IndexWriter(folder) as writer:
        writer.delete("p3")
    assert precious.read_text() == "my thesis"
    assert (folder / "MANIFEST.new").is_symlink()
    assert Index.open(folder).check() == []


@posix
@pytest.mark.timeout(60)
def test_pipes_links_and_folders_in_place_of_files(folder: Path, tmp_path: Path) -> None:
    for path in [*files(folder), folder / "LOCK"]:
        path.rename(tmp_path / "kept")
        for make_it in (os.mkfifo, os.mkdir, lambda path: os.symlink(tmp_path / "kept", path)):
            make_it(path)
            for use in (Index.open, IndexWriter):
                if path.name == "LOCK" and use == Index.open:
                    continue
                assert path.name in told(partial(use, folder))
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        (tmp_path / "kept").rename(path)
    assert Index.open(folder).check() == []


@pytest.mark.parametrize(
    "name", ["owner/model", "modernvbert:model=owner/model", "reader:model=owner/model", "owner/model+text"]
)
def test_an_index_never_starts_a_download(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def snapshot_download(name: str, *, local_files_only: bool = False, **_: object) -> str:
        asked.append(local_files_only)
        raise OSError("not in the cache")

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)  # type: ignore[arg-type]
    rewrite_manifest(folder, encoder=name)
    with pytest.raises(InputError, match="never starts a download"):
        Index.open(folder).search("words")
    from vsplade.ingest import index_paths

    (folder.parent / "a.png").write_bytes(b"")
    with pytest.raises(InputError, match="never starts a download"):
        index_paths([folder.parent / "a.png"], folder)
    assert all(asked)
    assert name.startswith("reader") or asked


def test_an_index_cannot_bring_its_own_model(folder: Path) -> None:
    (folder / "model").mkdir()
    for name in (str(folder / "model"), f"reader:model={folder / 'model'}"):
        rewrite_manifest(folder, encoder=name)
        with pytest.raises(InputError, match="never starts a download"):
            _ = Index.open(folder).encoder


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_side_files_that_may_not_be_read(folder: Path) -> None:
    for path in files(folder):
        path.chmod(0)
        for use in (Index.open, IndexWriter):
            with pytest.raises(VspladeError, match=path.name):
                use(folder)
        path.chmod(0o644)
