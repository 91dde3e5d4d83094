"""A small index of the sample files, and servers on it: inside this process, and as a program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from vsplade import index_paths
from vsplade.serve.app import create_app
from vsplade.serve.indexer import Indexer
from vsplade.serve.settings import ServeLimits, Settings

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the samples, never changed; ``copy_of`` gives one to change."""
    folder = tmp_path_factory.mktemp("made")
    files = folder / "files"
    shutil.copytree(EXAMPLES, files, ignore=shutil.ignore_patterns("*.py", "*.md", "scan.pdf"))
    index = folder / "pages.vsplade"
    kinds = {"report": "prose", "paper": "prose", "slides": "slides", "table": "table"}
    index_paths(
        [files],
        index,
        "text",
        metadata=lambda path: {"kind": kinds[Path(path).stem], "year": 2020 + len(Path(path).stem)},
    )
    return index


class Running:
    """A server in this process, with its indexer on a thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.stop = threading.Event()
        self.client = TestClient(
            create_app(settings), base_url="http://localhost", raise_server_exceptions=False
        )
        self._thread = threading.Thread(target=Indexer(settings).run_forever, args=(self.stop,))
        self._thread.start()

    def close(self) -> None:
        self.stop.set()
        self._thread.join()
        self.client.close()

    def wait(self, job: dict[str, object], seconds: float = 60.0) -> dict[str, object]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            now = self.client.get(f"/v1/jobs/{job['id']}").json()
            if now["state"] in ("done", "failed"):
                return now
            time.sleep(0.05)
        raise AssertionError(f"the job did not end: {now}")


Start = Callable[..., Running]


@pytest.fixture
def start(made: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts a server on a copy of the index; keywords are settings."""
    running: list[Running] = []

    def begin(limits: dict[str, int] | None = None, empty: bool = False, **settings: object) -> Running:
        index = tmp_path / "pages.vsplade"
        if empty:
            from vsplade import IndexWriter, load_encoder

            IndexWriter(index, load_encoder("text")).close()
        elif not index.exists():
            shutil.copytree(made, index)
        facts = {"index_dir": str(index), "uploads": str(tmp_path / "uploads"), **settings}
        running.append(Running(Settings(**facts, limits=ServeLimits(**(limits or {})))))
        return running[-1]

    yield begin
    for each in running:
        each.close()


@pytest.fixture(scope="session")
def looking(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server that nobody changes."""
    uploads = tmp_path_factory.mktemp("uploads")
    app = create_app(Settings(str(made), str(uploads), read_only=True))
    return TestClient(app, base_url="http://localhost", raise_server_exceptions=False)


def serve_command(index: Path | str, *arguments: str, port: str = "0") -> list[str]:
    return [sys.executable, "-m", "vsplade", "serve", "--index", str(index), "--port", port, *arguments]


class Program:
    """``vsplade serve`` as users run it."""

    def __init__(self, index: Path | str, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = serve_command(index, "--json", *arguments)
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        told = ""
        assert self.process.stdout is not None
        while not told.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(
                    f"the server ended: {self.process.stderr.read() if self.process.stderr else ''}"
                )
            told += line
        assert "url" in json.loads(told), told
        self.url: str = json.loads(told)["url"]

    def ready(self, seconds: float = 240.0) -> Program:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if httpx.get(self.url + "ready", timeout=5).status_code == 200:
                    return self
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        raise AssertionError("the server did not get ready")

    def end(self, seconds: float = 40.0) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@pytest.fixture
def program_at() -> Iterator[Callable[..., Program]]:
    """Starts ``vsplade serve --index`` with this place."""
    running: list[Program] = []

    def begin(index: Path | str, *arguments: str, **more: object) -> Program:
        running.append(Program(index, *arguments, **more))  # type: ignore[arg-type]
        return running[-1]

    yield begin
    for each in running:
        each.end()


@pytest.fixture
def program(made: Path, tmp_path: Path, program_at: Callable[..., Program]) -> Callable[..., Program]:
    """On a copy of the samples' index."""

    def begin(*arguments: str, **more: object) -> Program:
        index = tmp_path / "pages.vsplade"
        if not index.exists():
            shutil.copytree(made, index)
        return program_at(index, *arguments, **more)

    return begin
