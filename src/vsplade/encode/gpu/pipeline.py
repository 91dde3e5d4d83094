"""Several batches under way on one GPU, taking turns, all started by one thread.

A batch is a generator: it hands its work to the device and yields where it needs a number back. Another batch
goes on meanwhile. One thread a batch would do the same, but every call of torch lets go of Python's lock, and
threads that take it from each other at each of some hundred calls do little else.

The thread stays: torch keeps what cuDNN prepares for a shape of pictures (a third of a second, all layers)
for each thread apart.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")
Steps = Generator[Any, None, T]
"""Yields what to wait for (a ``torch.cuda.Event``), None where that is nothing, or ``HOST_ONLY``."""
HOST_ONLY = "what is left does not need the device"
"""It is done in another thread then: the one that keeps the device busy must not be held up."""


def finish(steps: Steps[T]) -> T:
    """All of it at once, waiting where it must wait."""
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if event is not None and event is not HOST_ONLY:
            event.synchronize()


@dataclass(eq=False)
class _Work(Generic[T]):
    steps: Steps[T]
    answer: Future[T]
    stream: Any
    event: Any = None

    @property
    def can_go_on(self) -> bool:
        try:
            return self.event is None or bool(self.event.query())
        except RuntimeError:  # the device has failed; so will the next step, and it says so
            return True

    def go_on(self) -> bool:
        """One step, after what it waits for; False when it was the last that needs the device."""
        here: AbstractContextManager[Any] = torch.cuda.stream(self.stream) if self.stream else nullcontext()
        try:
            if self.event is not None and self.event is not HOST_ONLY:
                self.event.synchronize()  # asleep, where query() would keep a processor busy
            with here:
                self.event = next(self.steps)
        except StopIteration as end:
            if self._is_wanted():
                self.answer.set_result(end.value)
            return False
        except Exception as error:  # whoever asks for the answer raises it
            if self._is_wanted():
                self.answer.set_exception(error)
            return False
        return self.event is not HOST_ONLY

    def _is_wanted(self) -> bool:
        """Whether the answer was not cancelled; from now on it cannot be."""
        return self.answer.set_running_or_notify_cancel()

    def end(self) -> None:
        """The rest, if there is any."""
        while not self.answer.done():
            self.go_on()


class StreamScheduler(Generic[T]):
    """As many pieces of work at a time as there are streams; the oldest that can go on goes first.

    Whoever does not want an answer any more cancels it: the work is then left where it is.
    """

    def __init__(self, streams: Sequence[Any]) -> None:
        """Streams that stay, because memory freed on one is of no use to another."""
        self._free = list(streams)
        # one waits for its turn, so that it can begin at once; more would only hold memory
        self._next: Queue[tuple[Steps[T], Future[T]] | None] = Queue(1)
        self._active: list[_Work[T]] = []
        self._ending = False
        self._host = ThreadPoolExecutor(1, thread_name_prefix="reader-host")
        self._thread = threading.Thread(target=self._run, name="reader-gpu", daemon=True)
        self._thread.start()

    def put(self, steps: Steps[T], answer: Future[T]) -> None:
        """Waits while others wait for their turn."""
        self._next.put((steps, answer))

    def close(self) -> None:
        """Ends when all is done; nobody may ``put`` any more."""
        self._next.put(None)
        self._thread.join()
        self._host.shutdown(wait=True)

    def _run(self) -> None:
        with torch.inference_mode():
            while self._begin():
                self._go_on()

    def _go_on(self) -> None:
        """One step of one of them."""
        work = next((work for work in self._active if work.can_go_on), self._active[0])
        if work.answer.cancelled():
            work.steps.close()
        elif work.go_on():
            return
        elif not work.answer.done():
            self._host.submit(work.end)
        self._active.remove(work)
        self._free.append(work.stream)

    def _begin(self) -> bool:
        """Takes what waits, if there is a stream for it; False when all is done and no more will come."""
        while self._free and not self._ending:
            try:
                job = self._next.get(block=not self._active)
            except Empty:
                break
            if job is None:
                self._ending = True
            else:
                self._active.append(_Work(*job, self._free.pop()))
        return bool(self._active)
