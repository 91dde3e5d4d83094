"""Flipped bytes are found, a full disk loses nothing, foreign or missing files are named."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vsplade.errors import IndexFormatError, InputError, StorageError, VspladeError, VspladeWarning
from vsplade.search.index import Index
from vsplade.store import durable, snapshot
from vsplade.store import manifest as manifests
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

from . import crash_worker
from .oracle import identity
from .test_crash import holds_one_commit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index with everything in it: segments, tombstones, state, thumbnails."""
    with IndexWriter(tmp_path / "i", identity(crash_worker.VOCABULARY)) as target:
        for number in (1, 2, 3):
            crash_worker.write_commit(target, number)
            target.commit()
    return tmp_path / "i"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != "LOCK")


def test_every_kind_of_file_is_there(folder: Path) -> None:
    kinds = {path.name.split("-")[0] for path in files(folder)}
    assert kinds == {"MANIFEST", "segment", "deleted", "state"}
    assert Index.open(folder).check() == []


def test_a_flipped_byte_anywhere_is_found(folder: Path) -> None:
    for path in files(folder):
        sound = path.read_bytes()
        step = max(1, len(sound) // 150)
        for place in sorted({*range(min(64, len(sound))), *range(0, len(sound), step)}):
            broken = bytearray(sound)
            broken[place] ^= 0x10
            path.write_bytes(bytes(broken))
            assert _problems(folder), f"{path.name}: the flipped byte {place} was not found"
        path.write_bytes(sound)
    assert _problems(folder) == []


def _problems(folder: Path) -> list[str]:
    try:
        with warnings.catch_warnings(action="ignore", category=VspladeWarning):
            return Index.open(folder).check()
    except IndexFormatError as error:
        return [str(error)]


def told(use: Callable[[], object]) -> str:
    """What somebody who opens an index is told of damage: by an error, or by a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            use()
        except VspladeError as error:
            return str(error)
    return " ".join(str(one.message) for one in caught)


def test_a_cut_file_is_found_when_the_index_is_opened(folder: Path) -> None:
    for path in files(folder):
        sound = path.read_bytes()
        path.write_bytes(sound[: len(sound) // 2])
        assert path.name in told(lambda: Index.open(folder).state())
        path.write_bytes(sound)


def test_a_missing_file_is_named(folder: Path) -> None:
    for path in files(folder):
        path.rename(folder / "elsewhere")
        said = told(lambda: Index.open(folder))
        assert ("lost its MANIFEST" if path.name == "MANIFEST" else path.name) in said
        assert "--recover" in said
        (folder / "elsewhere").rename(path)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_searching_a_damaged_segment_does_not_crash(
    folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large segments are not verified when opened: what is read from them is checked before it is followed.
    Wrong results perhaps, until ``check`` is run, or an error that says so, but never a crash."""
    monkeypatch.setattr(snapshot, "VERIFY_UP_TO", 0)
    warnings.simplefilter("ignore", VspladeWarning)
    path = next(path for path in files(folder) if path.name.startswith("segment"))
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    query = SparseVector(np.arange(50, dtype=np.uint32), np.ones(50, np.float32))
    header = int.from_bytes(sound[12:16], "little") + 24
    left_out = 0
    for _ in range(60):
        broken = bytearray(sound)
        for place in rng.integers(header, len(sound), 40):
            broken[place] = int(rng.integers(256))
        path.write_bytes(bytes(broken))
        index = Index.open(folder, engine=engine)
        index.search(query, 10)
        left_out += index.damage is not None
    assert 0 < left_out < 60  # some damage cannot be seen in what a search reads


def test_a_small_damaged_segment_is_found_when_the_index_is_opened(folder: Path) -> None:
    path = next(path for path in files(folder) if path.name.startswith("segment"))
    sound = bytearray(path.read_bytes())
    sound[-100] ^= 1
    path.write_bytes(bytes(sound))
    with pytest.raises(IndexFormatError, match=f"{path.name}: this index file is damaged"):
        Index.open(folder, whole=True)
    with pytest.warns(VspladeWarning, match=path.name):
        Index.open(folder)


def test_a_page_that_is_live_twice_is_found(folder: Path) -> None:
    """No byte is wrong here, but a tombstone is missing."""
    with IndexWriter(folder) as target:
        target.add(next(Index.open(folder).ids()), crash_worker.vector("p1", 1))  # replaces one page
    assert Index.open(folder).check() == []
    manifest = manifests.load(folder)
    entries = tuple(replace(entry, deleted=0, tombstones=None) for entry in manifest.segments)
    manifests.store(folder, manifest.with_changes(segments=entries))
    assert any("and again in" in problem for problem in Index.open(folder).check())


def test_versions_and_strangers_are_refused(folder: Path) -> None:
    manifest = folder / "MANIFEST"
    sound = manifest.read_bytes()
    manifest.write_bytes(sound.replace(b"vsplade-index 2 ", b"vsplade-index 9 "))
    with pytest.raises(IndexFormatError, match="format version 9"):
        Index.open(folder)
    manifest.write_bytes(b"hello\n" + sound)
    with pytest.raises(IndexFormatError, match="damaged"):
        Index.open(folder)


# -- full disk ----------------------------------------------------------------------------------------


def _failing(real: Callable[..., object], fail_at: int, count: list[int]) -> Callable[..., object]:
    def call(*args: object, **options: object) -> object:
        count[0] += 1
        if count[0] == fail_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    return call


def _error_of(call: Callable[[], object]) -> StorageError | None:
    try:
        call()
    except StorageError as error:
        return error
    return None


@pytest.mark.parametrize("operation", ["_write_all", "fsync", "replace"])
@pytest.mark.parametrize("retry", [True, False])
def test_a_full_disk_at_every_write(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, retry: bool
) -> None:
    """Each write, sync and rename of a commit fails once: an error, the last commit untouched, and the writer
    can try again."""
    owner = durable if operation == "_write_all" else os
    failures = 0
    for fail_at in range(1, 200):
        copy = tmp_path / f"copy-{operation}-{retry}-{fail_at}"
        shutil.copytree(folder, copy)
        target = IndexWriter(copy)
        crash_worker.write_commit(target, 4)
        count = [0]
        with monkeypatch.context() as patch:
            patch.setattr(owner, operation, _failing(getattr(owner, operation), fail_at, count))
            error = _error_of(target.commit)
        assert error is None or "No space left" in str(error)
        failures += error is not None
        if count[0] < fail_at:
            target.close()
            break
        # A failed sync of the folder comes after the rename: then the new commit may be the one on disk.
        assert holds_one_commit(copy) in (3, 4)
        assert operation == "fsync" or holds_one_commit(copy) == 3
        assert not list(copy.glob("*.new"))
        if retry:
            target.commit()
            assert holds_one_commit(copy) == 4
        target.close()
        if not retry:
            with IndexWriter(copy) as second:
                if holds_one_commit(copy) == 3:
                    crash_worker.write_commit(second, 4)
            assert holds_one_commit(copy) == 4
        shutil.rmtree(copy)
    assert failures >= 3


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file size limits")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("no"), OSError(errno.EIO, "bad disk")])
def test_a_write_that_is_cut_short_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise error

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(StorageError if isinstance(error, OSError) else type(error)):
        durable.write_durably(tmp_path / "file", chunks())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_real_limit_on_file_size(tmp_path: Path) -> None:
    """The kernel itself refuses the write (EFBIG), in the middle of a segment."""
    import resource
    import signal

    with IndexWriter(tmp_path, identity(crash_worker.VOCABULARY)) as target:
        crash_worker.write_commit(target, 1)
    target = IndexWriter(tmp_path)
    for number in range(100):
        target.add(f"big-{number}", crash_worker.vector("p1", 1), {}, bytes(10_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
        with pytest.raises(StorageError, match="could not be written"):
            target.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert holds_one_commit(tmp_path) == 1
    target.commit()
    target.close()
    assert Index.open(tmp_path).pages == len(crash_worker.contents(1)) + 100
