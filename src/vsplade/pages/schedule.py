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
    """Shared by the threads that feed the workers (``next_chunk`` and the reports) and one consumer."""

    def __init__(self, files: Iterable[SourceFile], chunk_pages: int, window: int) -> None:
        self._files = iter(files)
        self._chunk_pages = chunk_pages
        self._window = window
        self._changed = threading.Condition()
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
        with self._changed:
            while not self._stopped:
                while self._waiting and self._waiting[0].task.drops(self._waiting[0]):
                    heapq.heappop(self._waiting)
                if self._waiting and self._may_start(self._waiting[0]):
                    return self._start(heapq.heappop(self._waiting))
                if self._wants_file():
                    self._pull()
                elif self._exhausted and not self._waiting and not self._busy:
                    return None
                else:
                    self._changed.wait()
        return None

    def opened(self, chunk: Chunk, pages: int) -> None:
        """The file could be opened: now it is known how many pages are left to give out."""
        with self._changed:
            task = chunk.task
            chunk.pages = [number for number in chunk.pages if number <= pages]
            if task.pages is None:
                task.pages = pages
                first = (chunk.pages[-1] if chunk.pages else 0) + 1
                rest = (number for number in range(first, pages + 1) if number not in task.file.skip)
                while part := list(islice(rest, self._chunk_pages)):
                    self._queue(Chunk((task.index, part[0]), task, part))
            self._changed.notify_all()

    def rendered(self, chunk: Chunk, result: Rendered) -> None:
        """The first of the chunk's open pages is finished, one way or the other."""
        with self._changed:
            chunk.pages = chunk.pages[1:]
            if not chunk.task.drops(chunk):
                chunk.results.append(result)
            self._changed.notify_all()

    def finished(self, chunk: Chunk) -> None:
        with self._changed:
            chunk.done = True
            self._busy -= 1
            self._changed.notify_all()

    def failed(self, chunk: Chunk, reason: str) -> None:
        """The file cannot be used (any further)."""
        with self._changed:
            self._give_up(chunk, reason)
            self._busy -= 1
            self._changed.notify_all()

    def died(self, chunk: Chunk, reason: str) -> None:
        """The worker died over the chunk's first open page: that page is lost, the others get another try."""
        with self._changed:
            task = chunk.task
            task.strikes += 1
            self._busy -= 1
            if task.pages is None or task.strikes >= MAX_STRIKES:
                self._give_up(chunk, reason)
            else:
                if chunk.pages:
                    chunk.results.append(FileProblem(task.file.path, reason, chunk.pages.pop(0)))
                if chunk.pages:
                    heapq.heappush(self._waiting, chunk)
                else:
                    chunk.done = True
            self._changed.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """End everything; the consumer raises ``error``."""
        with self._changed:
            self._stopped = True
            self._error = self._error or error
            self._changed.notify_all()

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
        with self._changed:
            while not self._tasks:
                self._raise_if_stopped()
                if self._exhausted:
                    return None
                self._changed.wait()
            return self._tasks.popleft()

    def _chunk_at(self, task: FileTask, position: int) -> Chunk | None:
        with self._changed:
            # Later chunks are known once the first is done, and the consumer comes here only after that.
            if position >= len(task.chunks) or task.drops(task.chunks[position]):
                for chunk in task.chunks:
                    self._leave_window(chunk)
                self._changed.notify_all()
                return None
            self._head = task.chunks[position]
            self._changed.notify_all()
            return self._head

    def _next_result(self, chunk: Chunk) -> Rendered | None:
        with self._changed:
            while not chunk.results:
                self._raise_if_stopped()
                if chunk.done:
                    self._leave_window(chunk)
                    self._changed.notify_all()
                    return None
                self._changed.wait()
            return chunk.results.popleft()

    def _raise_if_stopped(self) -> None:
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise RuntimeError("the renderer was closed while its results were being read")

    # Under the lock.

    def _may_start(self, chunk: Chunk) -> bool:
        return chunk.holds_place or self._in_window < self._window or chunk is self._head

    def _start(self, chunk: Chunk) -> Chunk:
        if not chunk.holds_place:
            chunk.holds_place = True
            self._in_window += 1
        self._busy += 1
        return chunk

    def _leave_window(self, chunk: Chunk) -> None:
        if chunk.holds_place:
            chunk.holds_place = False
            self._in_window -= 1

    def _wants_file(self) -> bool:
        idle = not self._waiting and not self._pulling and not self._exhausted
        return idle and self._in_window < self._window

    def _pull(self) -> None:
        """Take the next file from the caller's iterable, without the lock: it may do work of its own."""
        self._pulling = True
        self._changed.release()
        file: SourceFile | None = None
        error: BaseException | None = None
        try:
            file = next(self._files, None)
        except BaseException as caught:  # handed to the consumer, who raises it
            error = caught
        finally:
            self._changed.acquire()
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
        self._changed.notify_all()

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
