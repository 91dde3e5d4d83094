"""No command sends a terminal what it would obey: names of files may hold any character."""

from __future__ import annotations

import ast
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import click.utils
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vsplade.cli
from pages.samples import drawing, write_pdf
from vsplade.cli import cli, run
from vsplade.cli.common import print_json, printable

EVIL = "e\x1b[2J\x1b[31m\x9b5m\u202egnp\u2066\r\n\x07\x7f\u200b\u2028.x"
"""Clears the screen, changes colours, rings, ends lines, turns the direction of writing, hides."""


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a terminal: click takes escape codes out of what goes to a file."""
    monkeypatch.setattr(click.utils, "should_strip_ansi", lambda *_, **__: False)


def commands(group: click.Group = cli, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield *before, name


def unsafe(text: str) -> set[str]:
    """What no output may hold, beside line ends and our own two styles' codes."""
    for ours in ("\x1b[1m", "\x1b[0m", "\x1b[2m", "\x1b[36m", "\x1b[32m", "\x1b[33m"):
        text = text.replace(ours, "")
    return {repr(c) for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int | None = None) -> str:
    """Run a command; returns its standard output, after a look at all that it printed."""
    given_code = run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert not unsafe(printed.out), arguments
    assert not unsafe(printed.err), arguments
    assert code in (None, given_code), printed.err
    return printed.out


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / f"files{EVIL}"
    folder.mkdir()
    write_pdf(folder / f"{EVIL}.pdf", "turbine blade", "library")
    drawing().save(folder / "shown.png")
    (folder / f"{EVIL}broken.png").write_bytes(b"no picture")
    (folder / f"{EVIL}other.zip").touch()
    return folder


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_the_work_of_an_index(
    files: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    where = files.parent / f"index{EVIL}"
    text, at = ("--encoder", "text"), ("--index", where)
    first = call(capsys, "index", files, *at, *text, *flags, code=1)
    call(capsys, "index", files / f"{EVIL}nowhere.png", *at, *flags, code=2)
    call(capsys, "index", "--check", *at, *flags, code=0)
    call(capsys, "index", "--recover", *at, *flags, code=0)
    found = call(capsys, "search", "turbine", *at, "--explain", *flags, code=0)
    call(capsys, "search", f"turbine {EVIL}", *at, *flags, code=0)
    call(capsys, "search", f"{EVIL}", *at, "--filter", f"path={EVIL}", *flags, code=0)
    call(capsys, "stats", *at, *flags, code=0)
    call(capsys, "inspect", files, *text, *flags, code=1)
    vectors = files.parent / f"out{EVIL}"
    written = call(capsys, "encode", files, *text, "--output", vectors, *flags, code=1)
    call(capsys, "export", *at, "--format", "seismic", "--output", vectors, *flags, code=0)
    other = ("--index", files.parent / f"other{EVIL}")
    call(capsys, "import", vectors, *other, "--format", "seismic", *text, *flags, code=0)
    call(capsys, "compact", *at, *flags, code=0)
    call(capsys, "delete", f"{EVIL}unknown", *at, *flags, code=2)
    call(capsys, "delete", f"{EVIL}_1", *at, *flags, code=0)
    if flags:
        paths = [failure["path"] for failure in json.loads(first)["failures"]]
        assert paths == [str(files / f"{EVIL}broken.png")]
        assert json.loads(found)["hits"][0]["metadata"]["path"] == str(files / f"{EVIL}.pdf")
        assert json.loads(written)["output"] == str(vectors)


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_with_names_that_do_not_exist(
    command: tuple[str, ...],
    flags: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each argument and each required option is a name with escape codes; the command may only complain."""
    monkeypatch.chdir(tmp_path)
    found: click.Command = cli
    for name in command:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    arguments: list[str] = []
    for parameter in found.params:
        if isinstance(parameter, click.Argument):
            arguments.append(EVIL)
        elif parameter.required:
            kind = parameter.type
            value = kind.choices[0] if isinstance(kind, click.Choice) else EVIL
            arguments += [parameter.opts[0], str(value)]
    call(capsys, *command, *arguments, *flags)
    call(capsys, *command, f"--{EVIL}", *flags, code=2)


def test_nothing_is_printed_past_the_common_functions() -> None:
    for module in Path(vsplade.cli.__file__).parent.glob("*.py"):
        if module.name != "common.py":
            for node in ast.walk(ast.parse(module.read_text())):
                name = node.func if isinstance(node, ast.Call) else None
                text = ast.unparse(name) if name is not None else ""
                assert text not in ("print", "click.echo", "click.secho", "click.style"), module


@given(st.text())
def test_json_gives_back_every_text(text: str) -> None:
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(click, "echo", printed.append)
        print_json({text: [text]})
    assert not unsafe(printed[0])
    assert json.loads(printed[0]) == {text: [text]}


@given(st.text())
def test_printable_text_is_one_line_that_names_every_character(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) == text.isprintable()
