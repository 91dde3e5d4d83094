"""The scripts of research/runs: they can be read by sh, and the docs name them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted((ROOT / "research" / "runs").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_sh_can_read_it(script: Path) -> None:
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_script_is_in_the_docs() -> None:
    docs = "".join(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert [script.name for script in SCRIPTS if script.name not in docs and script.name != "common.sh"] == []


def test_a_report_s_sections_name_scripts_that_are_there() -> None:
    from research.experiments.report import SECTIONS

    assert {section.script for section in SECTIONS} <= {script.name for script in SCRIPTS}
