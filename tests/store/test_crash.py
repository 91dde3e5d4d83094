"""kill -9 at random moments of an update: the index opens and holds exactly a committed state."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector, Windows

from . import crash_worker
from .oracle import identity


def holds_one_commit(folder: Path) -> int:
    """The commit that the index holds; fails if it holds anything but a whole one."""
    index = Index.open(folder)
    assert index.check() == []
    commit = index.state().get("commit", 0)
    assert isinstance(commit, int)
    wanted = crash_worker.contents(commit)
    assert {id: index.metadata(id)["commit"] for id in index.ids()} == wanted
    for id, written in wanted.items():
        stored, given = index.vector(id), crash_worker.vector(id, written)
        assert stored.weights.tolist() == given.weights.tolist()
        assert windows_of(stored) == windows_of(given)
        assert index.thumbnail(id) == bytes([written % 256]) * 2000
    return commit


def windows_of(vector: SparseVector) -> list[tuple[int, bytes]]:
    windows = vector.meaning
    if not isinstance(windows, Windows):
        return []
    return sorted(zip(windows.clusters.tolist(), map(bytes, windows.codes), strict=True))


def kill_rounds(folder: Path, rounds: int) -> int:
    IndexWriter(folder, identity(crash_worker.VOCABULARY)).close()
    pause = random.Random(0)
    last = 0
    for _ in range(rounds):
        worker = subprocess.Popen(
            [sys.executable, "-m", "store.crash_worker", str(folder)],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"  # it also took the lock that the killed one held
        # A few commits, then a random moment of the next: also on a slow machine there is something to lose.
        for _ in range(pause.randrange(3)):
            last = int(worker.stdout.readline())
        time.sleep(pause.uniform(0, 0.1))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        commit = holds_one_commit(folder)
        assert commit >= last  # nothing that was committed, and said to be, is ever lost
        last = commit
    IndexWriter(folder).close()  # removes what the last one left
    named = Index.open(folder)._view.snapshot.manifest.files() | {"MANIFEST", "LOCK"}
    assert {path.name for path in folder.iterdir()} == named
    return last


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a POSIX signal")
def test_fifteen_kills(tmp_path: Path) -> None:
    assert kill_rounds(tmp_path / "i", 15) > 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a POSIX signal")
def test_two_hundred_kills(tmp_path: Path) -> None:
    assert kill_rounds(tmp_path / "i", 200) > 150
