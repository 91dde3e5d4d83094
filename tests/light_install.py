"""The light install: what the wheel brings indexes and searches, without torch.

Not part of the suite: ``scripts/check-versions`` runs it, where nothing but the wheel is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
BINARIES = Path(sys.executable).parent


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def test_the_wheel_indexes_and_searches_without_torch(tmp_path: Path) -> None:
    vsplade = BINARIES / "vsplade"
    report = json.loads(
        run(vsplade, "index", ROOT / "examples", "--index", "sample.vsplade", "--json", cwd=tmp_path)
    )
    assert report["pages"] > 0
    code = (
        "import sys, vsplade; hits = vsplade.Index.open('sample.vsplade').search('table'); "
        "print(len(hits), 'torch' in sys.modules, vsplade.__file__)"
    )
    hits, torch, origin = run(sys.executable, "-c", code, cwd=tmp_path).split()
    assert int(hits) > 0
    assert torch == "False"
    assert Path(origin).is_relative_to(sys.prefix)
    found = json.loads(run(vsplade, "search", "table", "--index", "sample.vsplade", "--json", cwd=tmp_path))
    assert len(found["hits"]) == int(hits)


def test_the_environment_holds_no_heavy_package() -> None:
    names = {package.name.lower() for package in distributions()}
    assert "vsplade" in names
    assert names.isdisjoint({"torch", "transformers", "scipy", "pdf2image", "opencv-python"})
