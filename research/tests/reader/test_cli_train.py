"""A step on the command line: its options are the fields of its classes, and errors are for people."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import pytest

from research.command import command, run_step
from research.reader import options
from research.reader.gather import gather_text


def test_text_reports_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("some words")
    out = tmp_path / "out.txt"
    line = ["--out", str(out), "--json"]
    assert run_step([str(tmp_path / "a.txt"), *line], gather_text, options.TextOptions) == 0
    assert json.loads(capsys.readouterr().out)["files"] == 1
    assert run_step([str(tmp_path / "none"), *line], gather_text, options.TextOptions) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def train(run: options.TrainingRun, config: options.TrainingConfig, seen: list[Any]) -> dict[str, Any]:
    """As the step of this name is called."""
    seen.extend((run, config))
    return {"step": 1}


def test_every_field_is_an_option_and_reaches_the_step() -> None:
    seen: list[Any] = []
    line = [
        "--words",
        "w",
        "--fonts",
        "f",
        "--out",
        "o",
        "--pdfs",
        "p",
        "--windows",
        "7",
        "--rate",
        "0.5",
        "--compile",
        "--seed",
        "3",
    ]
    assert run_step(line, train, options.TrainingRun, options.TrainingConfig, seen=seen) == 0
    wanted = options.TrainingRun(words=Path("w"), fonts=Path("f"), out=Path("o"), pdfs=Path("p"))
    assert seen == [wanted, options.TrainingConfig(windows=7, rate=0.5, compile=True, seed=3)]


def test_defaults_on_the_command_line_are_those_of_the_classes() -> None:
    made = command(train, options.TrainingRun, options.TrainingConfig)
    shown = {p.name: p.get_default(click.Context(made)) for p in made.params}
    for field in dataclasses.fields(options.TrainingConfig):
        assert shown[field.name] == field.default, field.name
