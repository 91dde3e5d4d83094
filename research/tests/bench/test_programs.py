"""Every program of research starts: what it imports is there, and it explains itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "research").rglob("*.py")
    if '__name__ == "__main__"' in path.read_text("utf-8") and "tests" not in path.parts
)
NO_HELP = {"research.bench.worker"}  # started by research.bench.search alone


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NO_HELP])
def test_it_starts(name: str) -> None:
    command = [sys.executable, "-m", name.removesuffix(".__main__"), "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage" in result.stdout.lower()
