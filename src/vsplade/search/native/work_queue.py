"""Many small pieces of work over a few threads: each takes the next few when it is free."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

_SHARES_A_THREAD = 2


class WorkQueue:
    """Hands out 0..``count`` - 1 in runs of at most ``most``, which grow shorter towards the end so that all
    threads finish together."""

    def __init__(self, count: int, threads: int, most: int) -> None:
        self._next = 0
        self._count = count
        self._threads = max(1, min(threads, count))
        self._most = most
        self._lock = Lock()

    def take(self) -> range:
        """The next run; empty when there is no more."""
        with self._lock:
            left = self._count - self._next
            size = min(self._most, max(1, left // (_SHARES_A_THREAD * self._threads)))
            first, self._next = self._next, min(self._count, self._next + size)
            return range(first, self._next)

    def work_off(self, work: Callable[[range], None]) -> None:
        """Call ``work`` with every run; this thread works too. The first error ends it all."""
        if self._threads == 1:
            for first in range(0, self._count, self._most):
                work(range(first, min(self._count, first + self._most)))
            return
        with ThreadPoolExecutor(self._threads - 1) as pool:
            others = [pool.submit(self._work, work) for _ in range(self._threads - 1)]
            self._work(work)
        for other in others:
            other.result()

    def _work(self, work: Callable[[range], None]) -> None:
        try:
            while share := self.take():
                work(share)
        except BaseException:
            with self._lock:
                self._next = self._count
            raise
