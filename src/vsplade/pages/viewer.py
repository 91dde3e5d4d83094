"""Look at single pages of files, one call a page: for pictures of hits, not for jobs over thousands of files.

A process that is kept alive answers in the time that the page takes to render; starting one costs half a
second. It is a process for the same reason that ``render`` has them: files may be hostile.
"""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from vsplade.errors import PageError
from vsplade.pages.limits import Limits
from vsplade.pages.pixels import as_image
from vsplade.pages.process import RendererProcess, watch_clock, worker_command
from vsplade.types import Box

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True, slots=True)
class LayerWord:
    """A word of a file's own text layer, and its place."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class ViewedPage:
    """One page, upright."""

    path: str
    number: int
    pages: int
    """Of the file."""
    width: float
    """Natural size: points in a PDF, pixels in a picture."""
    height: float
    image: Image.Image | None
    """None where no pixels were asked for."""
    text: str | None
    words: tuple[LayerWord, ...]
    """Of the text layer, in its order."""


class PageViewer:
    """A few processes that render one page when asked. Safe on several threads, which wait for their turn."""

    def __init__(self, processes: int = 1, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        setup = {"limits": asdict(self._limits)}
        command = worker_command("vsplade.pages.viewer_process")
        self._all = [RendererProcess(setup, command=command) for _ in range(processes)]
        self._free: queue.SimpleQueue[RendererProcess] = queue.SimpleQueue()
        for process in self._all:
            self._free.put(process)
        self._closing = threading.Event()
        self._clock = watch_clock(self._all, self._closing, self._limits.max_seconds)
        self._clock.start()

    def view(self, path: str, number: int = 1, longest_edge: int = 1600, words: bool = False) -> ViewedPage:
        """Page ``number`` of a file; ``longest_edge`` 0 for no pixels. A PageError says what is wrong."""
        with self._process() as process:
            process.send({"path": path, "number": number, "edge": longest_edge, "words": words})
            answer = process.receive(self._limits.max_seconds)
            if answer is None:
                if self._closing.is_set():
                    raise PageError(f"{path}: the viewer was closed.")
                raise PageError(f"{path}: {process.bury(self._limits.max_seconds)}.")
        header, payload = answer
        if header["kind"] == "failed":
            raise PageError(f"{path}: {header['reason']}.")
        image = as_image(header["mode"], tuple(header["size"]), payload) if "mode" in header else None
        return ViewedPage(
            path=path,
            number=number,
            pages=header["pages"],
            width=header["width"],
            height=header["height"],
            image=image,
            text=header["text"],
            words=tuple(LayerWord(text, Box(*box)) for text, *box in header["words"]),
        )

    @contextmanager
    def _process(self) -> Iterator[RendererProcess]:
        process = self._free.get()
        try:
            yield process
        finally:
            self._free.put(process)

    def close(self) -> None:
        """End the processes; pages that are being rendered become errors."""
        self._closing.set()
        for process in self._all:
            process.close()
        self._clock.join()
        for _ in self._all:
            self._free.get().release()


@cache
def shared_viewer() -> PageViewer:
    """One for this process, started when first used, ended with it."""
    viewer = PageViewer()
    atexit.register(viewer.close)
    return viewer
