from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vsplade.pages import process

HOSTILE = [sys.executable, str(Path(__file__).with_name("hostile_worker.py"))]


@pytest.fixture
def hostile_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with telling names now crash or hang their renderer."""
    monkeypatch.setattr(process, "worker_command", lambda: HOSTILE)


@pytest.fixture
def broken_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The renderer's program cannot start."""
    monkeypatch.setattr(process, "worker_command", lambda: [*HOSTILE, "--broken"])
