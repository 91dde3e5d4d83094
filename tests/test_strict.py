"""A skipped test fails a strict run, also where the tests run in several processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = {
    "test_module": "import pytest\npytest.importorskip('no_such_package')\n",
    "test_alone": "import pytest\n@pytest.mark.skip(reason='no luck today')\ndef test_it(): pass\n",
    "test_allowed": "import pytest\n@pytest.mark.skip(reason='there is no GPU')\ndef test_it(): pass\n",
}


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("names", "strict", "code"),
    [(("test_allowed",), "1", 0), (("test_module",), "1", 1), (("test_alone",), "1", 1), (SKIPPED, "", 0)],
)
def test_a_skip_fails_unless_its_reason_is_allowed(
    names: tuple[str, ...], strict: str, code: int, workers: str, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for name in names:
        (tmp_path / f"{name}.py").write_text(SKIPPED[name])
    (tmp_path / "test_fine.py").write_text("def test_it(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", workers, "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "VSPLADE_STRICT": strict, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert ("skipped, and must not be" in done.stdout) == (code == 1)
