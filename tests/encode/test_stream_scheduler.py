"""Pieces of work that take turns: in order, side by side, and none is lost."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import pytest

pytest.importorskip("torch")

from vsplade.encode.gpu.pipeline import HOST_ONLY, Steps, StreamScheduler, finish


class Event:
    """Done only after it was asked about a few times, or waited for."""

    def __init__(self, after: int = 0) -> None:
        self.left = after

    def query(self) -> bool:
        self.left -= 1
        return self.left < 0

    def synchronize(self) -> None:
        self.left = 0


def work(name: str, log: list[str], waits: list[int]) -> Steps[str]:
    for number, after in enumerate(waits):
        log.append(f"{name}{number}")
        yield Event(after)
    return name.upper()


def run(turns: StreamScheduler[str], pieces: list[Steps[str]]) -> list[Future[str]]:
    answers: list[Future[str]] = [Future() for _ in pieces]
    for piece, answer in zip(pieces, answers, strict=True):
        turns.put(piece, answer)
    turns.close()
    return answers


def test_finish_runs_to_the_end() -> None:
    log: list[str] = []
    assert finish(work("a", log, [1, 2])) == "A"
    assert log == ["a0", "a1"]


def test_one_goes_on_while_another_waits() -> None:
    log: list[str] = []
    both_are_there = threading.Event()

    def waiting() -> Steps[str]:
        both_are_there.wait(5)
        return (yield from work("a", log, [1000, 0]))

    turns: StreamScheduler[str] = StreamScheduler([None, None])
    answers: list[Future[str]] = [Future(), Future()]
    turns.put(waiting(), answers[0])
    turns.put(work("b", log, [0, 0]), answers[1])
    both_are_there.set()
    turns.close()
    assert [answer.result(1) for answer in answers] == ["A", "B"]
    assert log == ["a0", "b0", "b1", "a1"]


def test_more_work_than_streams() -> None:
    log: list[str] = []
    pieces = [work(name, log, [2, 0, 1]) for name in "abcdefg"]
    assert [answer.result(1) for answer in run(StreamScheduler([None, None]), pieces)] == list("ABCDEFG")
    assert len(log) == 21


def test_an_error_is_the_answer_and_the_others_go_on() -> None:
    def broken() -> Steps[str]:
        yield None
        raise ValueError("odd page")

    log: list[str] = []
    first, second = run(StreamScheduler([None]), [broken(), work("a", log, [0])])
    with pytest.raises(ValueError, match="odd page"):
        first.result(1)
    assert second.result(1) == "A"


def test_a_cancelled_answer_ends_its_work_and_no_other() -> None:
    left: list[str] = []

    def endless(name: str) -> Steps[str]:
        try:
            while True:
                yield None
        finally:
            left.append(name)

    turns: StreamScheduler[str] = StreamScheduler([None])
    answers: list[Future[str]] = [Future() for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        puts = [threads.submit(turns.put, endless(f"{n}"), answer) for n, answer in enumerate(answers[:4])]
        for answer in answers[:4]:
            assert answer.cancel()
        for put in puts:
            put.result(5)
        turns.put(work("a", [], [0]), answers[4])
        assert answers[4].result(5) == "A"
    turns.close()
    for answer in answers[:4]:
        with pytest.raises(CancelledError):
            answer.result(1)
    assert set(left) <= set("0123")  # those that had begun


def test_cancelled_too_late_is_not_cancelled() -> None:
    """Between the last step and the answer: the thread must live on."""
    answer: Future[str] = Future()

    def steps() -> Steps[str]:
        yield None
        assert answer.cancel()
        return "nobody hears it"

    turns: StreamScheduler[str] = StreamScheduler([None])
    turns.put(steps(), answer)
    after: Future[str] = Future()
    turns.put(work("b", [], [0]), after)
    assert after.result(5) == "B"
    turns.close()
    assert answer.cancelled()


def test_what_needs_no_device_is_done_in_another_thread() -> None:
    def steps(fails: bool = False) -> Steps[str]:
        yield None
        here = threading.current_thread().name
        yield HOST_ONLY
        if fails:
            raise ValueError("odd page")
        return f"{here} {threading.current_thread().name}"

    one, two, three = run(StreamScheduler([None]), [steps(), steps(fails=True), steps()])
    assert one.result(1).split() == ["reader-gpu", "reader-host_0"]
    with pytest.raises(ValueError, match="odd page"):
        two.result(1)
    assert three.result(1) == one.result(1)
    assert len(set(finish(steps()).split())) == 1


def test_a_device_that_fails_is_no_endless_wait() -> None:
    class Broken:
        def query(self) -> bool:
            raise RuntimeError("the device is gone")

        synchronize = query

    def steps() -> Steps[str]:
        yield Broken()
        return "never"

    for answer in run(StreamScheduler([None, None]), [steps(), steps(), steps()]):
        with pytest.raises(RuntimeError, match="gone"):
            answer.result(1)
