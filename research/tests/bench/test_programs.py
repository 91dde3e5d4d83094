"""Every program of research starts: what it imports is there, and it explains itself."""

from __future__ import annotations

import runpy
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
def test_it_starts(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    assert not left.value.code
    assert "usage" in capsys.readouterr().out.lower()
