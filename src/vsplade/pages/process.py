"""The parent's end of one renderer process: start it, talk to it, end it, say how it died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BufferedReader
from typing import IO

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import VspladeError
from vsplade.pages.protocol import Header, read_frame

START_SECONDS = 120.0
"""Loading Python and the libraries on a machine that is very busy."""

START_PAUSES = (0.2, 1.0, 3.0)
"""Seconds before a process that died while it started is tried again: memory may be short for a moment."""

_PIPE_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 14
_F_SETPIPE_SZ = 1031


def worker_command(module: str = "vsplade.pages.render_worker") -> list[str]:
    # -P: a file called PIL.py in the folder the user happens to be in must not be imported.
    return [sys.executable, "-P", "-m", module]


def watch_clock(
    processes: Sequence[RendererProcess], closing: threading.Event, seconds: float
) -> threading.Thread:
    """A thread that ends processes whose answers are overdue, until ``closing``; it is not started yet."""

    def watch() -> None:
        while not closing.wait(min(0.2, seconds / 4)):
            for process in processes:
                process.end_if_late()

    return threading.Thread(target=watch, daemon=True)


class RendererProcess:
    """One process at a time, started again when needed. Used by one thread; ``end_if_late`` by another."""

    def __init__(
        self,
        setup: Mapping[str, object],
        inherited: Sequence[int] = (),
        command: Sequence[str] | None = None,
    ) -> None:
        """``inherited``: open files that the process shall have too, under the same numbers."""
        self._inherited = inherited
        self._setup = json.dumps(setup).encode()
        self._command = list(command or worker_command())
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        self._lock = threading.Lock()
        self._deadline: float | None = None
        self._late = False
        self._closing = threading.Event()

    def send(self, job: Mapping[str, object]) -> None:
        """Hand over a job, starting the process if there is none."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(OSError):  # it has just died: the next receive finds out and says why
            _write_line(self._process.stdin, json.dumps(job).encode())

    def receive(self, seconds: float) -> tuple[Header, NDArray[np.uint8]] | None:
        """The next answer; None when the process died or had to be ended because it took too long."""
        assert self._process is not None
        assert isinstance(self._process.stdout, BufferedReader)
        with self._lock:
            self._deadline = time.monotonic() + seconds
        try:
            return read_frame(self._process.stdout)
        finally:
            with self._lock:
                self._deadline = None

    def end_if_late(self) -> None:
        """End the process when the answer that ``receive`` waits for is overdue."""
        with self._lock:
            if self._deadline is not None and time.monotonic() > self._deadline and self._process is not None:
                self._late = True
                self._deadline = None
                self._process.kill()

    def bury(self, seconds: float) -> str:
        """Clear away the dead process and say why it died; ``seconds`` is the time that it was given."""
        process = self._process
        self._process = None
        if process is None:
            return "the renderer was not running"
        _finish(process)
        if self._late:
            return f"took longer than {seconds:g} seconds; raise --max-seconds if it is worth the time"
        return f"crashed the renderer ({_cause(process)}); the file is damaged or hostile"

    def complaints(self) -> str:
        """The end of what the process wrote on its standard error."""
        self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, self._complaints.tell() - 2000))
        return self._complaints.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the process, also in the middle of a job. Safe from any thread, any number of times."""
        with self._lock:
            self._closing.set()
            if self._process is not None:
                self._process.kill()

    def release(self) -> None:
        """Give back what is left after ``close``, once no thread uses this object any more."""
        if self._process is not None:
            _finish(self._process)
            self._process = None
        self._complaints.close()

    def _start(self) -> None:
        """Start the process; one that dies before it is ready is tried again a few times."""
        for pause in (*START_PAUSES, None):
            process = self._spawn()
            if self.receive(START_SECONDS) is not None or self._closing.is_set():
                return
            late = self._late
            self.bury(START_SECONDS)
            if late or pause is None or self._closing.wait(pause):
                break
        tries = "" if late else f" after {len(START_PAUSES) + 1} tries"
        raise VspladeError(
            f"The page renderer cannot be started{tries} ({' '.join(self._command)}; {_cause(process)}). "
            f"It said: {self.complaints() or 'nothing'}"
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._complaints.truncate(0)
        self._complaints.seek(0)
        search = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=_BUFFER_BYTES,
            pass_fds=self._inherited,
            env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        )
        with self._lock:
            self._process = process
            self._late = False
            if self._closing.is_set():
                process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        _widen(process.stdout.fileno())
        with suppress(OSError):  # it may have died at once: noticed by who waits for its answer
            _write_line(process.stdin, self._setup)
        return process


def _cause(process: subprocess.Popen[bytes]) -> str:
    """How a process ended."""
    code = process.returncode
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _write_line(stream: IO[bytes], line: bytes) -> None:
    stream.write(line + b"\n")
    stream.flush()


def _widen(descriptor: int) -> None:
    """A larger pipe on Linux: fewer turns between the processes for each page."""
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # over this user's quota for pipes: the usual size works too
            fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)


def _finish(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # unsent bytes for a process that is gone
                stream.close()
