"""``vsplade train`` on the command line: options reach the step, and what is missing is named."""

from __future__ import annotations

import builtins
import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import pytest

from vsplade.cli import cli, run
from vsplade.cli.training import needs_extra, train
from vsplade.errors import MissingExtraError
from vsplade.train import options


def test_text_reports_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("some words")
    out = tmp_path / "out.txt"
    assert run(["train", "text", str(tmp_path / "a.txt"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 1
    assert run(["train", "text", str(tmp_path / "none"), "--out", str(out), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


@pytest.mark.parametrize(
    "module", ["torch", "onnx", "safetensors.torch", "wordfreq", "tokenizers", "fontTools"]
)
def test_a_missing_module_of_the_extra_is_named(module: str) -> None:
    with pytest.raises(MissingExtraError, match=r"vsplade\[train\]"), needs_extra():
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def test_another_missing_module_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra():
        raise ModuleNotFoundError("No module named 'vsplade.trian'", name="vsplade.trian")


def test_training_without_torch_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_import = builtins.__import__

    def without_torch(name: str, *rest: Any, **named: Any) -> Any:
        if name == "torch" or name.startswith(("torch.", "vsplade.train.reader")):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real_import(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    paths = ["--words", "w.npz", "--fonts", str(tmp_path), "--out", str(tmp_path / "run")]
    assert run(["train", "reader", *paths]) == 2
    assert "pip install 'vsplade[train]'" in capsys.readouterr().err


def test_every_field_is_an_option_and_reaches_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
    pytest.importorskip("safetensors")
    from vsplade.train import reader

    seen: list[Any] = []

    def record(run: options.TrainingRun, config: options.TrainingConfig, say: Any) -> dict[str, Any]:
        seen.extend((run, config))
        return {"step": 1}

    monkeypatch.setattr(reader, "train", record)
    line = "train reader --words w --fonts f --out o --pdfs p --windows 7 --rate 0.5 --compile --seed 3"
    assert run(line.split()) == 0
    wanted = options.TrainingRun(words=Path("w"), fonts=Path("f"), out=Path("o"), pdfs=Path("p"))
    assert seen == [wanted, options.TrainingConfig(windows=7, rate=0.5, compile=True, seed=3)]


def test_defaults_on_the_command_line_are_those_of_the_classes() -> None:
    command = train.commands["reader"]
    context = click.Context(command)
    shown = {p.name: p.get_default(context) for p in command.params}
    for field in dataclasses.fields(options.TrainingConfig):
        assert shown[field.name] == field.default, field.name


def test_every_step_is_listed() -> None:
    assert "train" in cli.commands
    steps = {"text", "fonts", "vocabulary", "words", "query-table", "reader", "probe", "export", "retrieval"}
    steps |= {"certainty", "narrow", "revive", "paper", "captions", "query-side", "ablation"}
    assert set(train.commands) == steps
