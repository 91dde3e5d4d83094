"""Every benchmark starts: what it imports is there, and it explains itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
LIBRARIES = {"full_size"}


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in LIBRARIES)
)
def test_it_starts(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent / "src")}
    result = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--help"],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "usage" in result.stdout.lower()
