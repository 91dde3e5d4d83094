"""``vsplade serve``: starts the web workers and the indexer, starts again what dies, ends them in order."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vsplade.errors import InputError
from vsplade.serve.jobs import JobStore
from vsplade.serve.metrics import MAX_WORKERS, new_file
from vsplade.serve.settings import Settings, check_exposure
from vsplade.serve.web_worker import GRACE_SECONDS

BACKLOG = 2048
AGAIN_SECONDS = 0.5
"""Between the death of a process and its next start."""
QUICK_DEATHS, QUICK_SECONDS = 5, 5.0
"""A process that dies so often within seconds of its start will not get better."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""numpy shares out every product among all processors. Those of a query are so small that the threads only
wait for each other, and every processor has a worker already."""


@dataclass(slots=True)
class _Child:
    command: list[str]
    sockets: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    quick_deaths: int = 0


class Supervisor:
    """The parent of all processes of a server."""

    def __init__(
        self, settings: Settings, host: str, port: int, workers: int, say: Callable[[str], None]
    ) -> None:
        check_exposure(host, settings.keys)
        if not 1 <= workers <= MAX_WORKERS:
            raise InputError(f"The number of workers must be between 1 and {MAX_WORKERS}, not {workers}.")
        if workers > 1 and settings.in_one_process:
            raise InputError(
                f"{settings.index_dir}: one process at a time can open this, so it is served by one worker. "
                "Leave out --workers, or use the engine's server."
            )
        self._say = say
        self._stop = threading.Event()
        self._sockets = _listen(host, port, workers)
        self.port = self._sockets[0].getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self._settings = replace(settings, metrics=new_file())
        jobs = JobStore(settings.uploads)
        jobs.prepare()
        jobs.begin_again()
        self._children = [
            _Child(_python("vsplade.serve.web_worker", str(number), str(each.fileno())), (each.fileno(),))
            for number, each in enumerate(self._sockets[i % len(self._sockets)] for i in range(workers))
        ]
        if not settings.read_only and not settings.in_one_process:
            self._children.append(_Child(_python("vsplade.serve.indexer")))

    def run(self) -> None:
        """Until a signal or ``stop``."""
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for child in self._children:
                self._start(child)
            while not self._stop.wait(0.1):
                for child in self._children:
                    self._look_after(child)
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        self._stop.set()

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop.set()

    def _start(self, child: _Child) -> None:
        search = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        child.process = subprocess.Popen(
            child.command,
            stdin=subprocess.PIPE,
            pass_fds=child.sockets,
            env={**_ONE_THREAD, **os.environ, "PYTHONPATH": search},
            start_new_session=True,  # ctrl-C reaches this process alone, which ends the others in order
        )
        child.started = time.monotonic()
        assert child.process.stdin is not None
        with suppress(OSError):  # it has died at once: seen at the next look
            child.process.stdin.write(self._settings.to_json().encode() + b"\n")
            child.process.stdin.flush()

    def _look_after(self, child: _Child) -> None:
        if child.process is None or child.process.poll() is None:
            return
        name, code = child.command[-1 if len(child.command) == 4 else 3], child.process.returncode
        quick = time.monotonic() - child.started < QUICK_SECONDS
        child.quick_deaths = child.quick_deaths + 1 if quick else 0
        if child.quick_deaths >= QUICK_DEATHS:
            raise InputError(
                f"{name} ends at once, {QUICK_DEATHS} times now (exit status {code}). See above for why."
            )
        self._say(f"{name} has ended (exit status {code}); it is started again.")
        if self._stop.wait(AGAIN_SECONDS):
            return
        self._start(child)

    def _end(self) -> None:
        """Workers finish what runs, and the indexer commits what it has."""
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.terminate()
        until = time.monotonic() + GRACE_SECONDS + 5
        for process in running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
        for each in self._sockets:
            each.close()
        with suppress(OSError):
            Path(self._settings.metrics).unlink()


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", module, *arguments]


def _listen(host: str, port: int, workers: int) -> list[socket.socket]:
    """A listening socket for each worker where the system shares out connections, else one for all.

    They stay open here: a connection to a worker that has just died waits for the next one.
    """
    own = workers > 1 and hasattr(socket, "SO_REUSEPORT") and sys.platform == "linux"
    found: list[socket.socket] = []
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        for _ in range(workers if own else 1):
            each = socket.socket(family, kind)
            found.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if own:
                if len(found) == 1:
                    _check_free(family, kind, address)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(address)
            each.listen(BACKLOG)
            each.set_inheritable(True)
            address = each.getsockname()
    except OSError as error:
        for each in found:
            each.close()
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error.strerror}. Choose another --port."
        ) from error
    return found


def _check_free(family: int, kind: int, address: tuple[object, ...]) -> None:
    """Another server of the same user could share the port without a word."""
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
