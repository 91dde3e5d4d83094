"""The package's face: light to import: nothing heavy comes along."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vsplade

HEAVY = ("numba", "onnxruntime", "torch", "PIL", "pypdfium2", "numpy", "click", "transformers")


def python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout


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


def test_help_is_light() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "vsplade", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    imported = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "click" in imported
    assert [name for name in ("numba", "onnxruntime", "torch", "PIL", "numpy") if name in imported] == []
