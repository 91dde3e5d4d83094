"""A renderer's process: opens files, renders pages, sends pixels. Run it with ``python -m``.

It is a program of its own and not a ``multiprocessing`` child, so that it never imports the caller's main
module, inherits no thread or lock, and trusts nothing but the frames of ``protocol.py``. Everything that can
crash or hang on a hostile file happens here.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from vsplade.errors import PageError
from vsplade.pages.djvu import DjvuFile
from vsplade.pages.formats import HEAD, looks_like
from vsplade.pages.limits import Limits
from vsplade.pages.naming import DJVU_SUFFIXES, OFFICE_SUFFIXES, PDF_SUFFIXES, suffix
from vsplade.pages.office import to_pdf
from vsplade.pages.pdf import PdfFile
from vsplade.pages.picture import PictureFile, thumbnail_jpeg
from vsplade.pages.pixels import PageContent
from vsplade.pages.protocol import write_at, write_frame

Job = dict[str, Any]

_GIVES_WAY = 5
"""Steps of niceness of a worker that must not hold up its parent."""


class OpenFile(Protocol):
    """A file whose pages can be asked for by their 1-based number."""

    pages: int

    def page(self, number: int, longest_edge: int, grey: bool = False) -> PageContent:
        """``grey``: colour is not needed."""
        ...

    def close(self) -> None: ...


def open_file(path: str, limits: Limits) -> OpenFile:
    """Open by ending: what the file is called decides what it is allowed to be."""
    size = os.stat(path).st_size
    if size > limits.max_bytes:
        raise PageError(
            f"has {size:,} bytes, above the limit of {limits.max_bytes:,}; split it or raise --max-bytes"
        )
    file = _open(path, limits)
    try:
        if file.pages < 1:
            raise PageError("has no pages")
        if file.pages > limits.max_pages:
            raise PageError(
                f"has {file.pages:,} pages, above the limit of {limits.max_pages:,}; "
                "split it or raise --max-pages"
            )
    except PageError:
        file.close()
        raise
    return file


def _open(path: str, limits: Limits) -> OpenFile:
    ending = suffix(path)
    if ending in PDF_SUFFIXES:
        return PdfFile(path, limits)
    if ending in OFFICE_SUFFIXES:
        with open(path, "rb") as stream:
            if not looks_like(stream.read(HEAD), ending):
                raise PageError(f"is not a {ending} file, although its name says so, or it is damaged")
        return PdfFile(to_pdf(path, limits), limits)
    return DjvuFile(path, limits) if ending in DJVU_SUFFIXES else PictureFile(path, limits)


def reason(error: Exception) -> str:
    """What to tell a person about an error of ours or of a decoder."""
    if isinstance(error, PageError):
        return str(error)
    if isinstance(error, MemoryError):
        return "needs more memory than there is; make it smaller"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read: {error.strerror}"
    return f"is damaged: {error or type(error).__name__}"


class LastFile:
    """The file that was opened last, kept open: the next job is most often for the same one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._key: tuple[object, ...] | None = None
        self._file: OpenFile | None = None

    def open(self, path: str) -> OpenFile:
        state = os.stat(path)
        key = (path, state.st_mtime_ns, state.st_size, state.st_ino)
        if self._file is None or self._key != key:
            if self._file is not None:
                self._file.close()
                self._file = None
            self._file, self._key = open_file(path, self._limits), key
        return self._file


class Worker:
    """Answers jobs."""

    def __init__(self, output: int, setup: dict[str, Any], limits: Limits) -> None:
        self._output = output
        self._longest_edge: int = setup["longest_edge"]
        self._grey: bool = setup["grey"]
        self._thumbnail: int = setup["thumbnail"]
        self._shared: int | None = setup["shared"]
        self._slot_bytes: int = setup["slot_bytes"]
        self._slots: list[int] = []
        self._last = LastFile(limits)

    def run(self, job: Job) -> None:
        # The handlers below are wide on purpose: whatever a decoder throws at one file must reach the report
        # as that file's failure and leave the process fit for the next one.
        try:
            file = self._last.open(job["path"])
        except Exception as error:
            self._send({"kind": "failed", "reason": reason(error)})
            return
        self._send({"kind": "opened", "pages": file.pages})
        self._slots = job["slots"]
        numbers = [number for number in job["pages"] if number <= file.pages]
        for number in numbers:
            last = number == numbers[-1]
            try:
                self._send_page(file, number, last)
            except BrokenPipeError:
                raise
            except Exception as error:
                self._send({"kind": "bad_page", "number": number, "reason": reason(error), "last": last})
        if not numbers:
            self._send({"kind": "done"})

    def _send_page(self, file: OpenFile, number: int, last: bool) -> None:
        edge = self._longest_edge or self._thumbnail
        content = file.page(number, edge, self._grey and not self._thumbnail)
        header = {
            "kind": "page",
            "number": number,
            "last": last,
            "width": content.width,
            "height": content.height,
            "text": content.text,
        }
        small = b""
        data: bytes | memoryview = b""
        if content.pixels is not None:
            if self._thumbnail:
                small = thumbnail_jpeg(content.pixels.image(), self._thumbnail)
            if self._longest_edge:
                pixels = content.pixels.grey() if self._grey else content.pixels
                header |= {"mode": pixels.mode, "size": pixels.size}
                data = pixels.data
                length = memoryview(data).nbytes
                if self._shared is not None and self._slots and length <= self._slot_bytes:
                    slot = self._slots.pop(0)
                    write_at(self._shared, data, slot)
                    header |= {"slot": slot, "length": length}
                    data = b""
        self._send(header | {"thumbnail": len(small)}, data, small)

    def _send(self, header: dict[str, object], *payload: bytes | memoryview) -> None:
        write_frame(self._output, header, *payload)


def _read_jobs(jobs: queue.SimpleQueue[Job]) -> None:
    for line in sys.stdin.buffer:
        jobs.put(json.loads(line))
    # The parent is gone. It may have been killed, and the file at hand may hang for ever: leave at once.
    os._exit(0)


def _bound_memory(limits: Limits) -> None:
    """So that a file which blows up in a decoder is refused here, before the whole machine suffers.

    Windows has no such limit.
    """
    if sys.platform != "win32":
        import resource

        most = limits.memory
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or most < hard:
            with suppress(ValueError, OSError):  # some systems refuse to limit it; then it is not limited
                resource.setrlimit(resource.RLIMIT_AS, (most, hard))


class JobRunner(Protocol):
    def run(self, job: Job) -> None: ...


def serve_jobs(begin: Callable[[int, Job, Limits], JobRunner]) -> None:
    """The life of a worker's process: a setup comes, then jobs, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's business
    output = os.dup(1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(output, os.O_BINARY)
    os.dup2(2, 1)  # whatever a library prints must not end up between two frames
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    setup = jobs.get()
    limits = Limits(**setup["limits"])
    _bound_memory(limits)
    worker = begin(output, setup, limits)
    write_frame(output, {"kind": "ready"})
    while True:
        try:
            worker.run(jobs.get())
        except BrokenPipeError:
            return


def main() -> None:
    serve_jobs(_begin)


def _begin(output: int, setup: Job, limits: Limits) -> Worker:
    if setup["background"] and hasattr(os, "nice"):
        os.nice(_GIVES_WAY)
    return Worker(output, setup, limits)


if __name__ == "__main__":
    main()
