"""Has a file changed? Its content is hashed, without ever waiting for one that does not answer."""

from __future__ import annotations

import hashlib
import os
import queue
import stat
import threading
from dataclasses import dataclass
from typing import BinaryIO

from vsplade.errors import PageError
from vsplade.pages import Limits

SLOWEST_BYTES_PER_S = 1_000_000
"""A file may take ``max_seconds``, and its bytes at this rate; a slower drive is given up."""

_BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was when its reading began."""

    hash: str
    status: tuple[int, int, int, int]
    """Size, time of change, inode and device: when they differ later, other bytes may have been read."""

    @property
    def size(self) -> int:
        return self.status[0]

    def is_still(self, path: str) -> bool:
        try:
            return _status(os.stat(path)) == self.status
        except OSError:
            return False


def _status(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def open_regular(path: str) -> BinaryIO:
    """Open a file for reading; a pipe or a device is refused, and never waited for."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    # Without O_NONBLOCK, opening a pipe waits for somebody to write into it.
    stream = open(os.open(path, flags | getattr(os, "O_NONBLOCK", 0)), "rb", buffering=0)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise PageError("is not a regular file")
    return stream


def _digest(stream: BinaryIO, limits: Limits) -> str:
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(_BLOCK_BYTES):
        size += len(block)
        if size > limits.max_bytes:  # it grows while it is read
            raise PageError(_too_large(size, limits))
        digest.update(block)
    return digest.hexdigest()[:32]


def _too_large(size: int, limits: Limits) -> str:
    return f"has {size:,} bytes, above the limit of {limits.max_bytes:,}; split it or raise --max-bytes"


class _Reading:
    """One file that is being hashed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        """Bytes, once the file is open."""
        self.result: Content | Exception | None = None
        self.done = threading.Event()

    def run(self, limits: Limits) -> None:
        try:
            self.result = self._read(limits)
        except Exception as error:  # raised again by who asked
            self.result = error
        self.done.set()

    def _read(self, limits: Limits) -> Content:
        with open_regular(self.path) as stream:
            # Of the file that is open, and before its first byte is read: what changes later is noticed.
            status = _status(os.fstat(stream.fileno()))
            self.size = status[0]
            if self.size > limits.max_bytes:
                raise PageError(_too_large(self.size, limits))
            return Content(_digest(stream, limits), status)


class Hasher:
    """Hashes files, one after the other, within a limit of time.

    It also holds when the system itself never answers. A read from a drive that is gone cannot be ended from
    outside: so it runs in a thread of its own, and one that is late is left behind.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: queue.SimpleQueue[_Reading | None] | None = None

    def read(self, path: str) -> Content:
        """The content's hash. Only a regular file within the limits is read; others are a ``PageError``."""
        reading = _Reading(path)
        self._thread().put(reading)
        seconds = self._limits.max_seconds
        if not reading.done.wait(seconds):
            more = reading.size / SLOWEST_BYTES_PER_S
            if not reading.done.wait(more):
                self.close()
                raise PageError(
                    f"could not be read within {seconds + more:g} seconds; look after its drive, or raise "
                    "--max-seconds"
                )
        if isinstance(reading.result, Content):
            return reading.result
        raise reading.result or PageError("could not be read")

    def _thread(self) -> queue.SimpleQueue[_Reading | None]:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(self._jobs,), name="hasher", daemon=True).start()
        return self._jobs

    def _work(self, jobs: queue.SimpleQueue[_Reading | None]) -> None:
        while (reading := jobs.get()) is not None:
            reading.run(self._limits)

    def close(self) -> None:
        """Let the thread go, once it has done what it is at."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None
