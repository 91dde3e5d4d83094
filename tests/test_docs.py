"""Documented or fail: every command, flag, folder and public name is shown, and links lead somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import vsplade
from vsplade.cli import cli

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "vsplade"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def commands(group: click.Group, prefix: str = "vsplade") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        path = f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, path)
        else:
            yield path, command


COMMANDS = dict(commands(cli))


def sections(document: Path) -> dict[str, str]:
    """Heading to what stands under it, up to the next heading of any depth."""
    parts = re.split(r"^#+ (.+)$", document.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip((title.strip("` ") for title in parts[1::2]), parts[2::2], strict=True))


def flags(command: click.Command) -> list[str]:
    return [
        flag
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for flag in (*parameter.opts, *parameter.secondary_opts)
    ]


@pytest.mark.parametrize("path", COMMANDS)
def test_command_and_its_flags_are_in_the_reference(path: str) -> None:
    reference = sections(ROOT / "docs" / "cli.md")
    assert path in reference, f"docs/cli.md has no heading for `{path}`"
    shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", reference[path]))
    missing = [flag for flag in flags(COMMANDS[path]) if flag not in shown]
    assert not missing, f"docs/cli.md does not show {missing} of `{path}`"


@pytest.mark.parametrize("path", COMMANDS)
def test_reference_shows_no_flag_that_is_gone(path: str) -> None:
    section = sections(ROOT / "docs" / "cli.md").get(path, "")
    table = set(re.findall(r"^\| `(--?[a-z][\w-]*)", section, flags=re.MULTILINE))
    assert table <= {*flags(COMMANDS[path]), "--help"}


def test_reference_has_no_command_that_is_gone() -> None:
    titles = [title for title in sections(ROOT / "docs" / "cli.md") if title.startswith("vsplade ")]
    assert set(titles) == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_speaks_json_and_explains_itself(path: str) -> None:
    command = COMMANDS[path]
    assert "--json" in flags(command)
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts[0]} has no help"


def test_help_shows_what_matters_in_one_line_each() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    menu = shown.partition("Commands:\n")[2].partition("\nMore")[0].splitlines()
    assert 1 < len(menu) <= 12
    assert [line for line in menu if line.endswith("...") or not line.endswith(".")] == []
    assert [name for name in cli.commands if not re.search(rf"\b{name}\b", shown)] == []


def test_exit_codes_are_in_the_reference() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert [code for code in ("0", "1", "2", "130") if f"| {code} |" not in text] == []


def test_architecture_asks_a_question_for_every_folder() -> None:
    headings = re.findall(r"^## `(\w+)/`: .+\?$", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE)
    folders = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()]
    assert sorted(headings) == sorted([*folders, "research"])


def test_python_page_shows_every_public_name() -> None:
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert [name for name in vsplade.__all__ if name not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", document.read_text("utf-8"))
    local = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_120_characters(document: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in lines if len(line) > 120] == []


def test_readme_test_command_is_what_ci_runs() -> None:
    assert "scripts/check" in (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"^exec scripts/check$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)


def test_python_examples_run_one_after_the_other(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    script = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "turbine" in result.stdout
    assert "there is no index here" in result.stdout
