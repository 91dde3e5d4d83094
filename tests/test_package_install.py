"""The light install: the wheel in a clean virtual environment indexes and searches, without torch.

Needs a package registry for the dependencies; VSPLADE_OFFLINE=1 skips it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.skipif(bool(os.environ.get("VSPLADE_OFFLINE")), reason="VSPLADE_OFFLINE is set"),
    pytest.mark.timeout(900),
]


def run(*command: str | Path, cwd: Path) -> str:
    # Without the caller's PYTHONPATH or virtual environment: what is found must come from the wheel.
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    result = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the built wheel and what it depends on; its bin folder."""
    folder = tmp_path_factory.mktemp("install")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    binaries = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = (binaries / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("vsplade-*.whl")
    run(*pip, "install", wheel, cwd=folder)
    return binaries


def test_the_wheel_indexes_and_searches_without_torch(environment: Path, tmp_path: Path) -> None:
    vsplade = environment / "vsplade"
    report = json.loads(
        run(vsplade, "index", ROOT / "examples", "--index", "sample.vsplade", "--json", cwd=tmp_path)
    )
    assert report["pages"] > 0
    code = (
        "import sys, vsplade; hits = vsplade.Index.open('sample.vsplade').search('table'); "
        "print(len(hits), 'torch' in sys.modules, vsplade.__file__)"
    )
    hits, torch, origin = run(environment / "python", "-c", code, cwd=tmp_path).split()
    assert int(hits) > 0
    assert torch == "False"
    assert Path(origin).is_relative_to(environment.parent)
    found = json.loads(run(vsplade, "search", "table", "--index", "sample.vsplade", "--json", cwd=tmp_path))
    assert len(found["hits"]) == int(hits)


def test_the_environment_holds_no_heavy_package(environment: Path, tmp_path: Path) -> None:
    listed = json.loads(run(environment / "python", "-m", "pip", "list", "--format", "json", cwd=tmp_path))
    names = {package["name"].lower() for package in listed}
    assert names.isdisjoint({"torch", "transformers", "scipy", "pdf2image", "opencv-python"})
