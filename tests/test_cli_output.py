"""Printing where that is hard: odd names, terminals that are not UTF-8, streams that are full or closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from PIL import Image

from vsplade.cli import cli, run
from vsplade.cli.show_hits import highlight
from vsplade.encode import load_encoder
from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector, TermMatch

EXAMPLES = Path(__file__).parents[1] / "examples"
HALF = "\udcff"
"""How Python shows a byte that is no text: in a name, or in an argument."""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """One page, about a turbine, whose id and path no terminal can show."""
    encoder = load_encoder("text")
    turbine = Tokenizer.load().encode("turbine")
    with IndexWriter(tmp_path / "i", encoder) as writer:
        vector = SparseVector.from_dict(dict.fromkeys(turbine, 1.0))
        writer.add(f"odd{HALF}\U0001f419", vector, {"path": f"/x/odd\n\x1b[2J{HALF}\U0001f419.png"})
    return tmp_path / "i"


def in_a_process(command: str, encoding: str = "utf-8") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m vsplade {command}"],
        capture_output=True,
        env=environment,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_name_can_be_printed(index: Path, encoding: str) -> None:
    found = in_a_process(f"search turbine --index {index} --json", encoding)
    (hit,) = json.loads(found.stdout.decode(encoding))["hits"]
    assert hit["id"] == f"odd{HALF}\U0001f419"
    shown = in_a_process(f"search turbine --index {index}", "utf-8").stdout.decode()
    place, words = shown.splitlines()
    assert "odd\\n\\x1b[2J\\udcff\U0001f419.png" in place
    assert "turbine" in words


def test_a_query_may_be_no_text(index: Path) -> None:
    found = in_a_process(f"search \"turbine $(printf '\\377')\" --index {index} --json")
    assert json.loads(found.stdout.decode("utf-8"))["query"] == f"turbine {HALF}"


def test_failures_stay_on_their_line(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "files" / "good.png")
    (tmp_path / "files" / "bad\nname.png").touch()
    result = in_a_process(f"index {tmp_path / 'files'} --index {tmp_path / 'i'} --encoder text")
    assert result.returncode == 1
    assert "bad\\nname.png: is an empty file" in result.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("flag", ["", "--json"])
def test_full_output_is_an_error_without_a_trace(index: Path, flag: str) -> None:
    result = in_a_process(f"search turbine --index {index} {flag} > /dev/full")
    assert result.returncode == 2
    assert result.stderr.decode().splitlines() == ["Error: No space left on device."]


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_silence(index: Path, tmp_path: Path, closed: str) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "page.png")
    assert in_a_process(f"search turbine --index {index} {closed}").returncode == 0
    assert in_a_process(f"index {tmp_path / 'page.png'} --index {index} {closed}").returncode == 0


def test_a_bug_is_no_finished_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def broken(as_json: bool) -> None:
        raise ValueError("no such luck")

    monkeypatch.setitem(cli.commands, "broken", broken)
    assert run(["broken", "--json"]) == 2
    printed = capsys.readouterr()
    assert "no such luck" in json.loads(printed.out)["error"]
    assert "Traceback" in printed.err


def test_words_show_whether_the_page_holds_them() -> None:
    encoder = TextEncoder()
    words = encoder.query_words("the turbine turbine blade xyzzyq")
    (turbine,), (blade,) = encoder.vocabulary.encode("turbine"), encoder.vocabulary.encode("blade")
    pieces = words[-1].parts
    matches = [TermMatch("turbine", turbine, 2.0, 1.0), TermMatch("x##", pieces[0], 1.5, 1.0)]
    statuses = ["not found", "found", "found", "not found", "in part"]
    shown = click.unstyle(highlight(words, statuses, {turbine, blade, *pieces}, matches))
    assert shown == "the  turbine 2.00  turbine  [blade]  xyzzyq (in part) 1.50"


@pytest.mark.parametrize(
    "typed",
    [
        "search turbine --min-score nan --index {}",
        "plan --pages 1 --ram nan",
        "plan --pages 1 --core-price inf",
        "export --index {} --format anserini --output x --scale nan",
    ],
)
def test_what_is_no_number_is_refused(typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(typed.format(tmp_path / "index").split()) == 2
    assert "is not a finite number" in capsys.readouterr().err


def test_a_query_that_looks_like_an_option_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "-draft report"]) == 2
    assert "Write -- before a query that begins with -" in capsys.readouterr().err
    assert run(["search", "report", "--draft"]) == 2
    assert "Try: vsplade search --help" in capsys.readouterr().err


def test_a_run_that_reads_nothing_has_no_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["index", str(EXAMPLES / "table.pdf"), "--index", str(tmp_path / "index"), "--encoder", "text"]
    assert run(typed) == 0
    assert "pages/s" in capsys.readouterr().out
    assert run(typed) == 0
    assert "pages/s" not in capsys.readouterr().out
