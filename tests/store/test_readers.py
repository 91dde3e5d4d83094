"""Readers in other processes during updates: each look sees a whole commit, never a mixture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vsplade.errors import IndexLockedError
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter

from . import crash_worker
from .oracle import identity

WAYS = ("reopen", "refresh")


def read_during(folder: Path, readers: int, updates: int) -> list[int]:
    """Looks that each reader took."""
    with IndexWriter(folder, identity(crash_worker.VOCABULARY)) as target:
        target.commit()
        workers = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "store.reader_worker",
                    folder,
                    str(updates),
                    WAYS[n % 2],
                ],
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(readers)
        ]
        for number in range(1, updates + 1):
            crash_worker.write_commit(target, number)
            target.commit()
            if number % 50 == 0:
                target.compact()
    looks = []
    for worker in workers:
        out, problem = worker.communicate(timeout=600)
        assert worker.returncode == 0, problem
        looks.append(int(out.split()[1]))
    return looks


def test_three_readers_during_sixty_updates(tmp_path: Path) -> None:
    assert min(read_during(tmp_path / "i", 3, 60)) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_eight_readers_during_a_thousand_updates(tmp_path: Path) -> None:
    assert min(read_during(tmp_path / "i", 8, 1000)) >= 10


def test_an_open_index_keeps_its_commit(tmp_path: Path) -> None:
    with IndexWriter(tmp_path, identity(crash_worker.VOCABULARY)) as target:
        crash_worker.write_commit(target, 1)
        target.commit()
        index = Index.open(tmp_path)
        before = [(hit.id, hit.score) for hit in index.search(crash_worker.vector("p1", 1), 50)]
        for number in range(2, 30):
            crash_worker.write_commit(target, number)
            target.commit()
        target.compact()
        assert [(hit.id, hit.score) for hit in index.search(crash_worker.vector("p1", 1), 50)] == before
        assert index.refresh()
        assert not index.refresh()
        assert index.state()["commit"] == 29


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with IndexWriter(tmp_path, identity(crash_worker.VOCABULARY)) as target:
        with pytest.raises(IndexLockedError, match=r"another process \(pid \d+\) is writing"):
            IndexWriter(tmp_path)
        crash_worker.write_commit(target, 1)
    assert Index.open(tmp_path).pages == len(crash_worker.contents(1))
    IndexWriter(tmp_path).close()
