"""Work over threads: everything once, nobody idle at the end, and an error is not lost."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsplade.search.native.work_queue import WorkQueue


@settings(max_examples=60, deadline=None)
@given(count=st.integers(0, 300), threads=st.integers(-1, 5), most=st.integers(1, 50))
def test_everything_is_done_once(count: int, threads: int, most: int) -> None:
    done: list[range] = []
    WorkQueue(count, threads, most).work_off(done.append)
    assert sorted(place for share in done for place in share) == list(range(count))
    assert all(1 <= len(share) <= most for share in done)


def test_the_last_runs_are_short() -> None:
    shares = WorkQueue(200, 2, 100)
    sizes = []
    while share := shares.take():
        sizes.append(len(share))
    assert sizes[0] == 50
    assert sizes[-4:] == [1] * 4
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("raised_in_main", [True, False])
def test_the_first_error_ends_it_all(raised_in_main: bool) -> None:
    both_busy = threading.Barrier(2)
    begun: list[range] = []

    def work(share: range) -> None:
        begun.append(share)
        both_busy.wait(10)
        if (threading.current_thread() is threading.main_thread()) == raised_in_main:
            raise ValueError("this one")
        time.sleep(0.1)  # by then the other thread has failed

    with pytest.raises(ValueError, match="this one"):
        WorkQueue(100, 2, 1).work_off(work)
    assert len(begun) == 2
