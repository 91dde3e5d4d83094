"""The paper's model on the command line: train on PDFs, index, search without torch; and every bad input."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the paper's model needs torch: pip install 'vsplade[hf]'")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from tests.encode.modernvbert import tiny
from tests.train.conftest import QUICK, said

from vsplade.cli import run
from vsplade.cli.training import needs_extra
from vsplade.errors import MissingExtraError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write_folder(tmp_path / "model", tiny.released_tensors(), longest_edge=64)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    shutil.copy(EXAMPLES / "paper.pdf", folder)
    return folder


def test_train_on_pdfs_index_and_search_without_torch(
    backbone: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, index = tmp_path / "run", tmp_path / "my.vsplade"
    line = ["train", "--from-pdfs", str(scans), "--backbone", str(backbone), "--out", str(out), *QUICK]
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"step": 2, "steps": 2, "finished": True}
    assert run(["index", str(scans), "--index", str(index), "--model", str(out / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0
    assert run(["search", "page total", "--index", str(index), "--json"]) == 0
    here = json.loads(capsys.readouterr().out)
    assert run(["query-side", str(out / "model"), "--out", str(tmp_path / "light"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["terms"] == tiny.TERMS
    shutil.rmtree(out)
    shutil.rmtree(tmp_path / "cache")
    without = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'safetensors', 'jinja2']));"
        "from vsplade.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    search = ["search", "page total", "--index", str(index), "--encoder", str(tmp_path / "light"), "--json"]
    there = subprocess.run(
        [sys.executable, "-c", without, *search], capture_output=True, text=True, check=True
    )
    assert json.loads(there.stdout)["hits"] == here["hits"]


def test_from_pdfs_takes_small_folders_and_says_what_it_needs(
    backbone: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["train", "--backbone", str(backbone), "--out", str(tmp_path / "run")]
    assert run([*line, "--from-pdfs", str(scans), "--set", "steps=1", "--set", "precision=float32"]) == 0
    assert "there are no more" in said(capsys)
    assert run(line) == 2
    assert "--from-pdfs" in said(capsys)
    assert run([*line, "--from-pdfs", str(tmp_path / "cache")]) == 2


@pytest.mark.slow
def test_two_processes_by_torchrun(backbone: Path, tmp_path: Path) -> None:
    """Sixteen pairs: a batch is what two processes can share."""
    out = tmp_path / "run"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    line = ["train", "--from-pdfs", str(EXAMPLES), "--backbone", str(backbone), "--out", str(out)]
    line += ["--set", "steps=2", "--set", "precision=float32", "--set", "lora_rank=2"]
    done = subprocess.run(
        [*launch, "-m", "vsplade", *line], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "a batch is 8 pairs" in done.stderr
    assert (out / "model" / "model.safetensors").is_file()
    assert len((out / "log.jsonl").read_text().splitlines()) == 2  # one process writes it


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.pop("encoder.mlm_head.dense.weight"), "lacks encoder.mlm_head.dense.weight"),
        (lambda t: t.update({"encoder.mlm_head.more": torch.zeros(1)}), "in excess, encoder.mlm_head.more"),
        (
            lambda t: t.update({"query_encoder.projection.weight": torch.zeros(1, 7)}),
            "query_encoder.projection.weight is (1, 7)",
        ),
        (lambda t: t.pop("query_encoder.projection.bias"), "query_encoder.projection.bias"),
    ],
    ids=["missing", "extra", "misshapen", "no table"],
)
def test_a_checkpoint_that_does_not_fit(
    change: object, named: str, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = tiny.released_tensors()
    change(tensors)  # type: ignore[operator]
    folder = tiny.write_folder(tmp_path / "bad", tensors, longest_edge=64)
    assert run(["index", str(scans), "--index", str(tmp_path / "i.vsplade"), "--model", str(folder)]) == 2
    message = said(capsys)
    assert named in message
    assert "Traceback" not in message
    line = ["train", "--from-pdfs", str(scans), "--backbone", str(folder), "--out", str(tmp_path / "r")]
    assert run([*line, *QUICK]) == 2
    assert "Traceback" not in said(capsys)


def test_model_and_encoder_are_one_choice(
    model: Path, scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["index", str(scans), "--index", str(tmp_path / "i.vsplade")]
    assert run([*line, "--model", str(model), "--encoder", "text"]) == 2
    assert "leave --encoder out" in said(capsys)
    assert run([*line, "--model", "nothing-here"]) == 2
    assert "There is no folder nothing-here" in said(capsys)


@pytest.mark.parametrize("module", ["torch", "transformers", "safetensors.torch", "tokenizers"])
def test_a_missing_module_of_the_extra_is_named(module: str) -> None:
    with pytest.raises(MissingExtraError, match=r"vsplade\[hf\]"), needs_extra("hf"):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def test_another_missing_module_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("hf"):
        raise ModuleNotFoundError("No module named 'vsplade.trian'", name="vsplade.trian")


def test_training_without_torch_says_what_to_install(
    scans: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_import = builtins.__import__

    def without_torch(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch" or name.startswith(("torch.", "vsplade.train.adapt")):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real_import(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    assert run(["train", "--from-pdfs", str(scans)]) == 2
    assert "pip install 'vsplade[hf]'" in said(capsys)
