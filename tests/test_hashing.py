"""Files are hashed only where that ends: no pipes, no devices, no drives that do not answer."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from pages.encoder import WordEncoder
from pages.samples import write_pdf
from vsplade.errors import PageError
from vsplade.ingest import hashing, index_paths
from vsplade.ingest.hashing import Content, Hasher
from vsplade.pages import Limits, discover

pytestmark = pytest.mark.timeout(30)
pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    content = os.urandom(1_000_003)
    (tmp_path / "a.pdf").write_bytes(content)
    hasher = Hasher(Limits())
    read = hasher.read(str(tmp_path / "a.pdf"))
    assert (read.hash, read.size) == (hashlib.sha256(content).hexdigest()[:32], len(content))
    assert read.is_still(str(tmp_path / "a.pdf"))
    with pytest.raises(FileNotFoundError):
        hasher.read(str(tmp_path / "b.pdf"))


@pipes
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "endless.png"):
        with pytest.raises(PageError, match="not a regular file"):
            Hasher(Limits()).read(str(tmp_path / name))


@pipes
def test_pipes_and_devices_in_a_folder_are_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    (tmp_path / "nowhere.png").symlink_to(tmp_path / "missing")
    reasons = {Path(problem.path).name: problem.reason for problem in discover([tmp_path]).problems}
    assert reasons == {
        "endless.png": "is not a regular file",
        "nowhere.png": "is a link to a file that does not exist",
        "pipe.png": "is not a regular file",
    }


@pipes
def test_a_file_that_becomes_a_pipe_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search for files and the hash, a file can become anything."""
    write_pdf(tmp_path / "docs" / "a.pdf", "apple")
    write_pdf(tmp_path / "docs" / "b.pdf", "banana")
    read_one = Hasher.read

    def swap(self: Hasher, path: str) -> Content:
        if path.endswith("a.pdf"):
            os.unlink(path)
            os.mkfifo(path)
        return read_one(self, path)

    monkeypatch.setattr(Hasher, "read", swap)
    report = index_paths([tmp_path / "docs"], tmp_path / "index", WordEncoder(), workers=1)
    assert (report.new, [problem.reason for problem in report.failures]) == (1, ["is not a regular file"])


def test_too_large_files_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pdf(tmp_path / "docs" / "small.pdf", "apple")
    with (tmp_path / "docs" / "large.pdf").open("wb") as large:
        large.truncate(1 << 40)  # no bytes on the disk: reading it would take hours
    report = index_paths([tmp_path / "docs"], tmp_path / "index", WordEncoder(), workers=1)
    (problem,) = report.failures
    assert report.new == 1
    assert problem.reason.startswith("has 1,099,511,627,776 bytes, above the limit of 1,073,741,824")


def test_a_drive_that_does_not_answer_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "dead", "z"):
        write_pdf(tmp_path / "docs" / f"{name}.pdf", name)
    answered, waited = threading.Event(), []
    open_real = hashing.open_regular

    def open_slow(path: str) -> object:
        if "dead" in path:
            waited.append(answered.wait(60))
        return open_real(path)

    monkeypatch.setattr(hashing, "open_regular", open_slow)
    limits = Limits(max_seconds=3)
    report = index_paths([tmp_path / "docs"], tmp_path / "index", WordEncoder(), workers=1, limits=limits)
    assert waited == [], "the run waited for the drive"
    answered.set()
    assert report.new == 2
    (problem,) = report.failures
    assert "could not be read within 3 seconds" in problem.reason


def test_a_large_file_gets_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pdf").write_bytes(bytes(3_000_000))
    digest = hashing._digest
    monkeypatch.setattr(hashing, "_digest", lambda *given: (time.sleep(1.5), digest(*given))[1])
    assert Hasher(Limits(max_seconds=0.2)).read(str(tmp_path / "a.pdf"))
