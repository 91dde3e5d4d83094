"""The package's face: instant to import, and nothing heavy comes along."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import vsplade

HEAVY = ("numba", "onnxruntime", "torch", "PIL", "pypdfium2", "numpy", "click", "transformers")


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_import_takes_under_a_fifth_of_a_second() -> None:
    code = "import time; start = time.perf_counter(); import vsplade; print(time.perf_counter() - start)"
    assert min(float(python(code)) for _ in range(3)) < 0.2


def test_import_brings_nothing_heavy() -> None:
    loaded = python("import sys, vsplade; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_loading_the_text_encoder_brings_no_runtime() -> None:
    code = "import sys, vsplade; vsplade.load_encoder('text'); print(*sys.modules)"
    loaded = python(code).split()
    assert [name for name in ("numba", "onnxruntime", "torch", "PIL", "pypdfium2") if name in loaded] == []


@pytest.mark.parametrize("name", vsplade.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(vsplade, name) is not None
    assert name in dir(vsplade)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Indx'"):
        vsplade.Indx  # type: ignore[attr-defined]  # noqa: B018


def test_help_is_instant_and_light() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "vsplade", "--help"]
    seconds, shown = [], ""
    for _ in range(3):
        start = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)
        seconds.append(time.perf_counter() - start)
        assert result.returncode == 0
        shown = result.stderr
    imported = {line.rpartition("|")[2].strip() for line in shown.splitlines()}
    assert "click" in imported
    assert [name for name in ("numba", "onnxruntime", "torch", "PIL", "numpy") if name in imported] == []
    # About 0.15 s on an idle laptop; the slack is for busy CI machines.
    assert min(seconds) < 1.0
