"""Which pages are rendered next, and which result is handed out next: order and bounds, no processes.

Files are cut into chunks of a few pages, so that several workers can share one long PDF. Chunks start in the
order in which their pages will be handed out, and only a window of chunks may have been started and not yet
handed out. That bounds memory however slow the consumer is. The chunk that the consumer waits for may always
start, window or not: nothing can get stuck.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from vsplade.pages.discover import FileProblem
from vsplade.pages.naming import SourceFile
from vsplade.types import Page

MAX_STRIKES = 3
"""A file may crash or hang its renderer this often before the rest of it is given up."""


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A page and what belongs to it."""

    file: SourceFile
    page: Page
    pages: int
    """In the whole file."""
    thumbnail: bytes | None = None
    """JPEG."""


Rendered = RenderedPage | FileProblem


@dataclass(order=True, slots=True)
class Chunk:
    """Some pages of one file, rendered by one worker in one go."""

    place: tuple[int, int]
    task: FileTask = field(compare=False)
    pages: list[int] = field(compare=False)
    results: deque[Rendered] = field(default_factory=deque, compare=False)
    done: bool = field(default=False, compare=False)
    holds_place: bool = field(default=False, compare=False)
    """Counts in the window: started, and not yet handed out in full."""


@dataclass(slots=True)
class FileTask:
    """One file on its way."""

    index: int
    file: SourceFile
    pages: int | None = None
    chunks: list[Chunk] = field(default_factory=list)
    strikes: int = 0
    cut: tuple[int, int] | None = None
    """The chunk at which the file was given up; the chunks before it still count."""

    def drops(self, chunk: Chunk) -> bool:
        return self.cut is not None and chunk.place > self.cut


class Schedule:
    """Shared by the threads that feed the workers (``next_chunk`` and the reports) and one consumer.

    A page costs no more wake-ups than it must: with many workers, threads that look and sleep again would
    take most of the time. The consumer is woken for the chunk that it waits for. Of the workers, one is woken
    when one may go on, and whoever leaves ``next_chunk`` wakes another when there is more to do.
    """

    def __init__(self, files: Iterable[SourceFile], chunk_pages: int, window: int) -> None:
        self._files = iter(files)
        self._chunk_pages = chunk_pages
        self._window = window
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        """Where workers wait for something to do."""
        self._news = threading.Condition(self._lock)
        """Where the consumer waits for ``_head``, or, when that is None, for the next file."""
        self._tasks: deque[FileTask] = deque()
        self._next_index = count()
        self._waiting: list[Chunk] = []
        self._head: Chunk | None = None
        self._in_window = 0
        self._busy = 0
        self._pulling = False
        self._exhausted = False
        self._stopped = False
        self._error: BaseException | None = None

    # The workers' side.

    def next_chunk(self) -> Chunk | None:
        """Wait for work; None when there will be none."""
        with self._lock:
            while True:
                self._idle.wait_for(self._worker_may_go_on)
                if self._wants_file():
                    self._pull()
                else:
                    chunk = self._start_first()
                    self._wake_worker()
                    return chunk

    def opened(self, chunk: Chunk, pages: int) -> None:
        """The file could be opened: now it is known how many pages are left to give out."""
        with self._lock:
            task = chunk.task
            chunk.pages = [number for number in chunk.pages if number <= pages]
            if task.pages is None:
                task.pages = pages
                first = (chunk.pages[-1] if chunk.pages else 0) + 1
                rest = (number for number in range(first, pages + 1) if number not in task.file.skip)
                while part := list(islice(rest, self._chunk_pages)):
                    self._queue(Chunk((task.index, part[0]), task, part))
                self._wake_worker()

    def rendered(self, chunk: Chunk, result: Rendered, last: bool = False) -> None:
        """The first of the chunk's open pages is finished, one way or the other; ``last`` ends the chunk."""
        with self._lock:
            chunk.pages = chunk.pages[1:]
            if not chunk.task.drops(chunk):
                chunk.results.append(result)
            if last:
                self.finished(chunk)
            else:
                self._tell_consumer(chunk)

    def finished(self, chunk: Chunk) -> None:
        with self._lock:
            chunk.done = True
            self._leave_work(chunk)

    def failed(self, chunk: Chunk, reason: str) -> None:
        """The file cannot be used (any further)."""
        with self._lock:
            self._give_up(chunk, reason)
            self._leave_work(chunk)

    def died(self, chunk: Chunk, reason: str) -> None:
        """The worker died over the chunk's first open page: that page is lost, the others get another try."""
        with self._lock:
            task = chunk.task
            task.strikes += 1
            if task.pages is None or task.strikes >= MAX_STRIKES:
                self._give_up(chunk, reason)
            else:
                if chunk.pages:
                    chunk.results.append(FileProblem(task.file.path, reason, chunk.pages.pop(0)))
                if chunk.pages:
                    heapq.heappush(self._waiting, chunk)
                else:
                    chunk.done = True
            self._leave_work(chunk)

    def stop(self, error: BaseException | None = None) -> None:
        """End everything; the consumer raises ``error``."""
        with self._lock:
            self._stopped = True
            self._error = self._error or error
            self._wake_worker()
            self._news.notify()

    # The consumer's side.

    def results(self) -> Iterator[Rendered]:
        """Everything, file by file and page by page."""
        while (task := self._next_task()) is not None:
            position = 0
            while (chunk := self._chunk_at(task, position)) is not None:
                while (result := self._next_result(chunk)) is not None:
                    yield result
                position += 1

    def _next_task(self) -> FileTask | None:
        with self._lock:
            while not self._tasks:
                self._raise_if_stopped()
                if self._exhausted:
                    return None
                self._news.wait()
            return self._tasks.popleft()

    def _chunk_at(self, task: FileTask, position: int) -> Chunk | None:
        with self._lock:
            # Later chunks are known once the first is done, and the consumer comes here only after that.
            if position >= len(task.chunks) or task.drops(task.chunks[position]):
                self._head = None
                for chunk in task.chunks:
                    self._leave_window(chunk)
            else:
                self._head = task.chunks[position]
                if self._head is self._first_waiting():  # it may start now, window or not
                    self._wake_worker()
            return self._head

    def _next_result(self, chunk: Chunk) -> Rendered | None:
        with self._lock:
            while not chunk.results:
                self._raise_if_stopped()
                if chunk.done:
                    self._leave_window(chunk)
                    return None
                self._news.wait()
            return chunk.results.popleft()

    def _raise_if_stopped(self) -> None:
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise RuntimeError("the renderer was closed while its results were being read")

    # Under the lock: who may go on, and who is told.

    def _worker_may_go_on(self) -> bool:
        """To start a chunk, to look for the next file, or home."""
        if self._stopped:
            return True
        if (first := self._first_waiting()) is not None:
            return first.holds_place or self._in_window < self._window or first is self._head
        return self._wants_file() or (self._exhausted and not self._busy)

    def _wake_worker(self) -> None:
        """To be called after each change that may let a worker go on.

        One is enough. If another takes the work before the woken one gets the lock, that other one calls this
        when it leaves ``next_chunk``, and so does the woken one when it finds work.
        """
        if self._worker_may_go_on():
            self._idle.notify()

    def _tell_consumer(self, chunk: Chunk) -> None:
        if chunk is self._head:
            self._news.notify()

    # Under the lock: the changes.

    def _first_waiting(self) -> Chunk | None:
        while self._waiting and self._waiting[0].task.drops(self._waiting[0]):
            heapq.heappop(self._waiting)
        return self._waiting[0] if self._waiting else None

    def _start_first(self) -> Chunk | None:
        if self._stopped or not self._waiting:
            return None
        chunk = heapq.heappop(self._waiting)
        if not chunk.holds_place:
            chunk.holds_place = True
            self._in_window += 1
        self._busy += 1
        return chunk

    def _leave_work(self, chunk: Chunk) -> None:
        self._busy -= 1
        self._wake_worker()
        self._tell_consumer(chunk)

    def _leave_window(self, chunk: Chunk) -> None:
        if chunk.holds_place:
            chunk.holds_place = False
            self._in_window -= 1
            self._wake_worker()

    def _wants_file(self) -> bool:
        idle = not self._waiting and not self._pulling and not self._exhausted and not self._stopped
        return idle and self._in_window < self._window

    def _pull(self) -> None:
        """Take the next file from the caller's iterable, without the lock: it may do work of its own.

        No worker is woken: the one that calls this looks again at what there is to do.
        """
        self._pulling = True
        self._lock.release()
        file: SourceFile | None = None
        error: BaseException | None = None
        try:
            file = next(self._files, None)
        except BaseException as caught:  # handed to the consumer, who raises it
            error = caught
        finally:
            self._lock.acquire()
            self._pulling = False
        if error is not None:
            self._stopped = True
            self._error = error
        elif file is None:
            self._exhausted = True
        else:
            task = FileTask(next(self._next_index), file)
            wanted = (number for number in count(1) if number not in file.skip)
            self._queue(Chunk((task.index, 0), task, list(islice(wanted, self._chunk_pages))))
            self._tasks.append(task)
            if self._head is not None:
                return
        self._news.notify()

    def _queue(self, chunk: Chunk) -> None:
        chunk.task.chunks.append(chunk)
        heapq.heappush(self._waiting, chunk)

    def _give_up(self, chunk: Chunk, reason: str) -> None:
        task = chunk.task
        chunk.done = True
        if not task.drops(chunk):
            task.cut = chunk.place
            lost = chunk.pages[0] if task.pages is not None and chunk.pages else None
            chunk.results.append(FileProblem(task.file.path, reason, lost))
