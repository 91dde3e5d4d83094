"""The file that a container is built from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.serve.conftest import ROOT


def test_the_containerfile_has_nothing_to_object_to() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert hadolint is not None, "it comes with vsplade[dev]"
    ended = subprocess.run(
        [hadolint, "--no-color", str(ROOT / "Containerfile")], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (0, "")
