"""The fingerprint covers everything that a vector depends on: the model's files, the options and the code."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from vsplade.encode import load_encoder
from vsplade.encode.reader import reader as reader_module
from vsplade.encode.reader.reader import REVISION, ReaderEncoder
from vsplade.encode.reader.reader_queries import MODEL, ReaderOptions
from vsplade.errors import InputError

SCRIPT = Path(__file__).parents[2] / "scripts" / "reader_revision.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    specification = importlib.util.spec_from_file_location("reader_revision", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_code_that_changes_vectors_is_another_revision(script: ModuleType) -> None:
    record = json.loads(script.RECORD.read_text("utf-8"))
    now = script.digests(script.HERE / "src")
    changed = sorted(
        name for name in {*now, *record["modules"]} if now.get(name) != record["modules"].get(name)
    )
    assert not changed, (
        f"{', '.join(changed)} changed, and vectors depend on that. Run scripts/reader_revision.py: it finds "
        "out whether they are the same, and raises REVISION if not. Commit what it writes."
    )
    assert record["revision"] == REVISION


def test_every_module_on_the_way_to_a_vector_counts(script: ModuleType) -> None:
    names = {name.removeprefix("vsplade.") for name in script.digests(script.HERE / "src")}
    reader = {
        f"encode.reader.{name}"
        for name in ("boxes", "detect", "ink_windows", "bigrams", "reader", "orientation")
    }
    other = {"encode.gpu.resize_torch", "encode.tokenizer", "encode.weighting"}
    assert reader | other | {"pages.resize", "pages.pdf", "pages.picture"} <= names
    assert not {name for name in names if name.startswith(("store", "search", "cli", "ingest"))}


def test_only_what_runs_counts(script: ModuleType, tmp_path: Path) -> None:
    def of(text: str) -> str:
        (tmp_path / "module.py").write_text(text)
        found: str = script.digest(tmp_path / "module.py")
        return found

    first = of('"""What."""\nA = 0.5\n"""Why."""\n\ndef f(x):\n    "How."\n    return x * A  # so\n')
    assert first == of("A = 0.5\ndef f(x):\n    return (x\n      * A)\n")
    assert first != of("A = 0.6\ndef f(x):\n    return x * A\n")
    assert first != of("A = 0.5\ndef f(x):\n    return A * x\n")
    assert of("REVISION = 1\n") == of("REVISION = 2\n")


def test_each_file_of_the_model_and_each_option_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {load_encoder("reader").fingerprint, load_encoder("reader:point=efficient").fingerprint}
    seen.add(load_encoder("reader:longest_edge=1216").fingerprint)
    for name in ("size.onnx", "speller.onnx", "query.npy", "related.npy", "certainty.npy"):
        copy = tmp_path / name.replace(".", "_")
        shutil.copytree(MODEL, copy)
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        seen.add(ReaderEncoder(ReaderOptions(model=str(copy))).fingerprint)
    config = json.loads((MODEL / "reader.json").read_text())
    for key, value in (("best", 3), ("weights", "0" * 16), ("floor", -3.0)):
        copy = tmp_path / key
        shutil.copytree(MODEL, copy)
        (copy / "reader.json").write_text(json.dumps({**config, key: value}))
        seen.add(ReaderEncoder(ReaderOptions(model=str(copy))).fingerprint)
    monkeypatch.setattr(reader_module, "REVISION", REVISION + 1)
    seen.add(load_encoder("reader").fingerprint)
    assert len(seen) == 3 + 5 + 3 + 1


@pytest.mark.parametrize("name", ["trunk.onnx", "head.onnx"])
def test_weights_that_are_not_those_of_the_fingerprint_are_refused(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "model"
    shutil.copytree(MODEL, copy)
    (copy / name).write_bytes((copy / name).read_bytes()[:-1] + b"\x00")
    with pytest.raises(InputError, match=r"reader\.json was written for"):
        ReaderEncoder(ReaderOptions(model=str(copy))).cells  # noqa: B018
