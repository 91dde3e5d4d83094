"""Order and bounds of the schedule, without processes: threads that finish, fail and die at random."""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice

import pytest

from vsplade.pages.discover import FileProblem
from vsplade.pages.naming import SourceFile
from vsplade.pages.render import NO_PIXELS
from vsplade.pages.render_queue import MAX_STRIKES, Chunk, RenderedPage, Schedule
from vsplade.types import Page


def rendered(chunk: Chunk, number: int) -> RenderedPage:
    file = chunk.task.file
    page = Page(f"{file.doc_id}_{number}", NO_PIXELS, file.path, number)
    return RenderedPage(file, page, chunk.task.pages or 0)


def work(schedule: Schedule, lengths: dict[str, int], crashes: set[tuple[str, int]], seed: int) -> None:
    """A worker that knows how long each file is, and on which pages it must die."""
    chance = random.Random(seed)
    while (chunk := schedule.next_chunk()) is not None:
        path = chunk.task.file.path
        if path not in lengths:
            schedule.failed(chunk, "unreadable")
            continue
        schedule.opened(chunk, lengths[path])
        for number in list(chunk.pages):
            time.sleep(chance.random() * 0.0005)
            if (path, number) in crashes:
                schedule.died(chunk, "crash")
                break
            schedule.rendered(chunk, rendered(chunk, number))
        else:
            schedule.finished(chunk)


@pytest.mark.parametrize("seed", range(25))
def test_random_runs_give_every_page_once_in_order(seed: int) -> None:
    chance = random.Random(seed)
    files, lengths, crashes, expected = [], {}, set(), []
    for place in range(chance.randrange(1, 12)):
        path = f"file{place}"
        pages = chance.randrange(1, 40)
        skip = frozenset(n for n in range(1, pages + 1) if chance.random() < 0.2)
        files.append(SourceFile(path, path, skip))
        if chance.random() < 0.15:
            expected.append((path, None))
            continue
        lengths[path] = pages
        wanted = [n for n in range(1, pages + 1) if n not in skip]
        bad = chance.sample(wanted, min(len(wanted), chance.randrange(0, MAX_STRIKES)))
        crashes |= {(path, n) for n in bad}
        expected += [(path, -n if n in bad else n) for n in wanted]
    schedule = Schedule(files, chunk_pages=chance.randrange(1, 6), window=chance.randrange(1, 7))
    threads = [
        threading.Thread(target=work, args=(schedule, lengths, crashes, seed * 10 + n), daemon=True)
        for n in range(chance.randrange(1, 5))
    ]
    for thread in threads:
        thread.start()
    got: list[tuple[str, int | None]] = []
    for result in schedule.results():
        if isinstance(result, FileProblem):
            got.append((result.path, -result.page if result.page else None))
        else:
            got.append((result.page.path, result.page.number))
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert got == expected


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(30))
def test_many_workers_are_never_left_asleep(seed: int, fast_switches: None) -> None:
    """Many threads, small windows, no pauses: whoever can go on is woken, else this hangs."""
    chance = random.Random(seed)
    paths = [f"file{place}" for place in range(chance.randrange(20, 60))]
    lengths = {path: chance.choice([1, 1, 1, 2, 7, 40]) for path in paths if chance.random() < 0.9}
    crashes = {
        (path, n) for path, pages in lengths.items() for n in range(1, pages + 1) if chance.random() < 0.1
    }
    schedule = Schedule(
        slowly(paths, chance), chunk_pages=chance.randrange(1, 6), window=chance.randrange(1, 7)
    )
    threads = [
        threading.Thread(target=rush, args=(schedule, lengths, crashes), daemon=True)
        for _ in range(chance.randrange(8, 25))
    ]
    for thread in threads:
        thread.start()
    seen: dict[str, list[int | None]] = {path: [] for path in paths}
    for result in schedule.results():
        if isinstance(result, FileProblem):
            seen[result.path].append(-result.page if result.page else None)
        else:
            seen[result.page.path].append(result.page.number)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive(), "a worker sleeps though all is done"
    for path, pages in seen.items():
        wanted = [-n if (path, n) in crashes else n for n in range(1, lengths.get(path, 0) + 1)] or [None]
        # Which of many crashes comes third, and ends the file there, is a matter of chance.
        if pages != wanted:
            assert sum(n is None or n < 0 for n in wanted) >= MAX_STRIKES
            assert pages == wanted[: len(pages)]
            assert str(pages[-1]).startswith("-")


def slowly(paths: list[str], chance: random.Random) -> Iterator[SourceFile]:
    """Now and then the workers have to wait for the next file's name."""
    for path in paths:
        if chance.random() < 0.1:
            time.sleep(0.002)
        yield SourceFile(path, path)


def rush(schedule: Schedule, lengths: dict[str, int], crashes: set[tuple[str, int]]) -> None:
    """A worker like ``work``, but as fast as can be, and the last page ends its chunk."""
    while (chunk := schedule.next_chunk()) is not None:
        path = chunk.task.file.path
        if path not in lengths:
            schedule.failed(chunk, "unreadable")
            continue
        schedule.opened(chunk, lengths[path])
        numbers = list(chunk.pages)
        for number in numbers:
            if (path, number) in crashes:
                schedule.died(chunk, "crash")
                break
            schedule.rendered(chunk, rendered(chunk, number), last=number == numbers[-1])
        if not numbers:
            schedule.finished(chunk)


@pytest.fixture
def fast_switches() -> Iterator[None]:
    """Threads take turns as often as possible, so that they meet in odd places."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_all_workers_wake_up_for_a_long_file_and_the_consumer_for_each_page() -> None:
    schedule = Schedule([SourceFile("a", "a")], chunk_pages=2, window=20)
    first = schedule.next_chunk()
    assert first is not None
    started: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
    handed: queue.SimpleQueue[object] = queue.SimpleQueue()
    waiters = [lambda: started.put(schedule.next_chunk())] * 12
    waiters.append(lambda: [handed.put(result) for result in islice(schedule.results(), 2)])
    for wait in waiters:
        threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.05)
    assert started.empty()
    schedule.opened(first, 100)
    for _ in range(12):
        assert started.get(timeout=10) is not None
    for number in (1, 2):
        page = rendered(first, number)
        schedule.rendered(first, page)
        assert handed.get(timeout=10) is page


@pytest.mark.parametrize("report", ["finished", "failed", "died"])
def test_a_sleeping_worker_learns_how_the_last_chunk_ended(report: str) -> None:
    schedule = Schedule([SourceFile("a", "a")], chunk_pages=2, window=2)
    chunk = schedule.next_chunk()
    assert chunk is not None
    schedule.opened(chunk, 2)
    started: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
    threading.Thread(target=lambda: started.put(schedule.next_chunk()), daemon=True).start()
    time.sleep(0.05)
    assert started.empty()
    getattr(schedule, report)(chunk, *(() if report == "finished" else ("crash",)))
    assert started.get(timeout=10) is (chunk if report == "died" else None)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("cause", ["stop", "files"])
def test_everybody_wakes_up_when_it_ends_early(cause: str) -> None:
    """Workers that wait for room or for a file, and a consumer that waits for a page that never comes."""

    def files() -> Iterator[SourceFile]:
        yield SourceFile("a", "a")
        asleep.wait(10)
        raise LookupError("no more names")

    asleep = threading.Event()
    schedule = Schedule(files(), chunk_pages=1, window=1 if cause == "stop" else 2)
    assert schedule.next_chunk() is not None
    threads = [threading.Thread(target=schedule.next_chunk, daemon=True) for _ in range(20)]
    errors: list[BaseException] = []

    def consume() -> None:
        try:
            list(schedule.results())
        except LookupError as error:
            errors.append(error)

    threads.append(threading.Thread(target=consume, daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert all(thread.is_alive() for thread in threads)
    if cause == "stop":
        schedule.stop(LookupError("no more pages"))
    else:
        asleep.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert len(errors) == 1


def test_slow_consumer_holds_the_workers_back() -> None:
    schedule = Schedule([SourceFile("a", "a")], chunk_pages=2, window=3)
    chunk = schedule.next_chunk()
    assert chunk is not None
    schedule.opened(chunk, 100)
    started = [chunk]
    for _ in range(2):
        chunk = schedule.next_chunk()
        assert chunk is not None
        started.append(chunk)
    waiter = threading.Thread(target=lambda: started.append(schedule.next_chunk()), daemon=True)  # type: ignore[arg-type]
    waiter.start()
    for chunk in started[:3]:
        for number in list(chunk.pages):
            schedule.rendered(chunk, rendered(chunk, number))
        schedule.finished(chunk)
    waiter.join(0.2)
    assert waiter.is_alive(), "a fourth chunk began before any page was taken"
    results = schedule.results()
    assert [next(results).page.number for _ in range(3)] == [1, 2, 3]  # type: ignore[union-attr]
    waiter.join(10)
    assert not waiter.is_alive()
    assert started[3].pages == [7, 8]


def test_giving_up_keeps_the_pages_before() -> None:
    """The third crash ends a file; what other workers rendered of it before that place still counts."""
    schedule = Schedule([SourceFile("a", "a"), SourceFile("b", "b")], chunk_pages=1, window=10)
    first = schedule.next_chunk()
    assert first is not None
    schedule.opened(first, 6)
    second, third, fourth, fifth = (schedule.next_chunk() for _ in range(4))
    assert second is not None
    assert third is not None
    assert fourth is not None
    assert fifth is not None
    for chunk in (second, third, fourth):
        schedule.died(chunk, "crash")
    schedule.rendered(fifth, rendered(fifth, 5))
    schedule.finished(fifth)
    schedule.rendered(first, rendered(first, 1))
    schedule.finished(first)
    other = schedule.next_chunk()
    assert other is not None
    assert other.task.file.path == "b", "the rest of a file that was given up is not begun"
    schedule.failed(other, "unreadable")
    assert schedule.next_chunk() is None
    results = list(schedule.results())
    assert isinstance(results[0], RenderedPage)
    assert [(result.path, result.page) for result in results[1:] if isinstance(result, FileProblem)] == [
        ("a", 2),
        ("a", 3),
        ("a", 4),
        ("b", None),
    ]
    assert len(results) == 5
