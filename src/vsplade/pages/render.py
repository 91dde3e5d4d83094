"""Files in, pages out, in order, through worker processes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vsplade.errors import InputError
from vsplade.pages.discover import FileProblem
from vsplade.pages.limits import Limits
from vsplade.pages.naming import SourceFile
from vsplade.pages.pixels import as_image
from vsplade.pages.process import RendererProcess, watch_clock
from vsplade.pages.protocol import Header
from vsplade.pages.render_queue import Chunk, Rendered, RenderedPage, Schedule
from vsplade.pages.shared_memory import SharedSlots
from vsplade.types import Encoder, Page

NO_PIXELS = Image.new("L", (1, 1), 255)
"""The picture of a page that was asked for without pixels (``longest_edge`` 0)."""

BUFFER_BYTES = 96 << 20
"""Rendered pages that may wait for the consumer, all together (at least one chunk of one page a worker)."""

GPU_PAGES = 600
"""Pages that an encoder on a GPU may hold while it fills its batches."""

_MAX_CHUNK_PAGES = 32
_MAX_WORKERS = 64


def default_workers(longest_edge: int, gpu: bool = False) -> int:
    """Half of the processors, because an encoder of pixels needs the others; all of them for text alone, and
    where the encoder runs on a GPU.
    """
    processors = os.cpu_count() or 1
    if sys.platform == "linux":
        processors = len(os.sched_getaffinity(0))  # a container may have fewer than the machine
    if gpu:
        return max(1, min(_MAX_WORKERS, processors))
    return max(1, min(8, processors // 2 if longest_edge else processors))


def render(
    files: Iterable[SourceFile],
    longest_edge: int,
    *,
    grey: bool = False,
    background: bool = False,
    thumbnail: int = 0,
    limits: Limits | None = None,
    workers: int | None = None,
) -> Generator[Rendered, None, None]:
    """Yield every page of ``files`` in order, or a ``FileProblem`` in the place of what could not be read.

    A picture that has no more pixels than a square of ``longest_edge`` keeps them, a larger one is shrunk to
    that edge; 0 asks for text and sizes only, without pixels. ``grey`` asks for pictures in mode ``L`` only,
    a third of the bytes; ``background`` for workers that give way to this process; ``thumbnail`` above 0 for
    a JPEG with that longest edge as well. ``files`` is read lazily, from another thread. Close the generator
    to end early.
    """
    count = default_workers(longest_edge) if workers is None else workers
    if not 1 <= count <= _MAX_WORKERS:
        raise InputError(f"The number of workers must be between 1 and {_MAX_WORKERS}, not {count}.")
    if longest_edge < 0 or thumbnail < 0:
        raise InputError("The longest edge and the thumbnail size must not be negative.")
    setup = {"longest_edge": longest_edge, "grey": grey, "background": background, "thumbnail": thumbnail}
    return _results(_Pool(files, setup, limits or Limits(), count))


def render_for(
    encoder: Encoder,
    files: Iterable[SourceFile],
    *,
    thumbnail: int = 0,
    limits: Limits | None = None,
    workers: int | None = None,
) -> Generator[Rendered, None, None]:
    """``render`` as an encoder wants its pages.

    One that ``reads_grey`` gets them in grey; one that is ``on_gpu`` leaves all processors to the
    workers, but for the little that keeps the GPU busy, and that comes first.
    """
    edge = encoder.longest_edge
    gpu = encoder.on_gpu
    count = default_workers(edge, gpu) if workers is None else workers
    return render(
        files,
        edge,
        grey=encoder.reads_grey,
        background=gpu,
        thumbnail=thumbnail,
        limits=limits,
        workers=count,
    )


def _results(pool: _Pool) -> Generator[Rendered, None, None]:
    with closing(pool):
        pool.start()
        yield from pool.schedule.results()


class _Pool:
    """The worker processes, a thread for each, and one that watches the clock."""

    def __init__(
        self,
        files: Iterable[SourceFile],
        setup: dict[str, int],
        limits: Limits,
        workers: int,
    ) -> None:
        page_bytes = max(1, setup["longest_edge"] ** 2 * (1 if setup["grey"] else 3))
        # Some room, so that one slow page does not make every worker wait for its turn to be handed out.
        window = max(workers + 2, min(4 * workers, BUFFER_BYTES // page_bytes))
        chunk_pages = max(1, min(_MAX_CHUNK_PAGES, BUFFER_BYTES // (window * page_bytes)))
        self.schedule = Schedule(files, chunk_pages, window)
        self._seconds = limits.max_seconds
        # Pages that wait here, and those that the consumer may hold; what is not used costs nothing.
        held = GPU_PAGES if setup["background"] else 2 * workers
        self._slots = SharedSlots(window * chunk_pages + held, page_bytes if setup["longest_edge"] else 0)
        shared, slot_bytes = self._slots.descriptor, self._slots.slot_bytes
        worker_setup = {**setup, "limits": asdict(limits), "shared": shared, "slot_bytes": slot_bytes}
        inherited = [] if shared is None else [shared]
        self._processes = [RendererProcess(worker_setup, inherited) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(process,), daemon=True) for process in self._processes
        ]
        self._closing = threading.Event()
        self._clock = watch_clock(self._processes, self._closing, self._seconds)

    def start(self) -> None:
        for thread in (*self._threads, self._clock):
            thread.start()

    def close(self) -> None:
        self._closing.set()
        self.schedule.stop()
        for process in self._processes:
            process.close()
        for thread in (*self._threads, self._clock):
            if thread.ident is not None:
                thread.join()
        for process in self._processes:
            process.release()
        self._slots.close()

    def _serve(self, process: RendererProcess) -> None:
        try:
            while (chunk := self.schedule.next_chunk()) is not None:
                self._render_chunk(process, chunk)
        except Exception as error:
            # Whatever it is, the consumer raises it; else it would wait for ever for a thread that is gone.
            self.schedule.stop(error)

    def _render_chunk(self, process: RendererProcess, chunk: Chunk) -> None:
        slots = self._slots.take(len(chunk.pages))
        try:
            self._render_into(process, chunk, slots)
        finally:
            self._slots.give_back(*slots)

    def _render_into(self, process: RendererProcess, chunk: Chunk, slots: list[int]) -> None:
        """``slots`` are left over when all is done."""
        process.send({"path": chunk.task.file.path, "pages": chunk.pages, "slots": slots})
        while (answer := process.receive(self._seconds)) is not None:
            header, payload = answer
            if header["kind"] == "opened":
                self.schedule.opened(chunk, header["pages"])
            elif header["kind"] == "failed":
                return self.schedule.failed(chunk, header["reason"])
            elif header["kind"] == "done":
                return self.schedule.finished(chunk)
            else:
                result = self._page_or_problem(chunk, header, payload, slots)
                self.schedule.rendered(chunk, result, header["last"])
                if header["last"]:
                    return None
        if not self._closing.is_set():
            self.schedule.died(chunk, process.bury(self._seconds))

    def _page_or_problem(
        self, chunk: Chunk, header: Header, payload: NDArray[np.uint8], slots: list[int]
    ) -> Rendered:
        if header["kind"] == "bad_page":
            return FileProblem(chunk.task.file.path, header["reason"], header["number"])
        return _page(chunk, header, *self._unpack(header, payload, slots))

    def _unpack(
        self, header: Header, payload: NDArray[np.uint8], slots: list[int]
    ) -> tuple[NDArray[np.uint8], bytes | None]:
        split = len(payload) - header["thumbnail"]
        thumbnail = payload[split:].tobytes() or None
        if "slot" not in header:
            return payload[:split], thumbnail
        slots.remove(header["slot"])
        return self._slots.pixels(header["slot"], header["length"]), thumbnail


def _page(chunk: Chunk, header: Header, pixels: NDArray[np.uint8], thumbnail: bytes | None) -> RenderedPage:
    task = chunk.task
    pages = task.pages or 1
    image = NO_PIXELS
    if "mode" in header:
        image = as_image(header["mode"], tuple(header["size"]), pixels)
    page = Page(
        id=task.file.page_id(header["number"], pages),
        image=image,
        path=task.file.path,
        number=header["number"],
        text=header["text"],
        metadata={"width": round(header["width"], 2), "height": round(header["height"], 2)},
    )
    return RenderedPage(task.file, page, pages, thumbnail)
