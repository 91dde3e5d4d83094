"""Pages a second on a given number of processors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

COMMAND = [sys.executable, "-m", "research.bench.reading"]
pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes cannot be bound here")


def test_on_one_processor(tmp_path: Path) -> None:
    for number in range(2):
        page = Image.new("L", (400, 200), 255)
        ImageDraw.Draw(page).text((20, 20), f"page {number} of the report")
        page.save(tmp_path / f"{number}.png")
    done = subprocess.run(
        [*COMMAND, str(tmp_path), "--cores", "1", "--pages", "2", "--json"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert (report["cores"], report["pages"]) == (1, 2)
    # One processor gives at most a second of its time a second.
    assert report["reader"]["pages_per_s"] <= 1.05 * report["reader"]["pages_per_cpu_s"]
    assert ("tesseract" in report) == ("tesseract is not installed" not in done.stderr)


@pytest.mark.parametrize("cores", ["0", "100000"])
def test_processors_that_are_not_there(cores: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(tmp_path), "--cores", cores], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"the processors that are there, not {cores}" in done.stderr
