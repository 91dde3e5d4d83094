from __future__ import annotations

from pathlib import Path

import pytest

from vsplade.errors import InputError
from vsplade.evaluate import read_run, write_run


def test_a_run_survives_the_file(tmp_path: Path) -> None:
    run = {"q1": {"b": 0.1 + 0.2, "a": 1 / 3, "c": 1 / 3}, "q2": {"a": -2.0}}
    write_run(tmp_path / "x.run", run, tag="mine")
    assert read_run(tmp_path / "x.run") == run
    assert (tmp_path / "x.run").read_text().splitlines()[:2] == [
        "q1 Q0 a 1 0.3333333333333333 mine",
        "q1 Q0 c 2 0.3333333333333333 mine",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q1 Q0 x 2 0.5 t", r"line 2: page 'x' is not in the corpus \(1 pages\)"),
        ("q7 Q0 a 2 0.5 t", r"line 2: query 'q7' is not in this data set"),
        ("q1 Q0 a 2 0.5 t", r"line 2: page 'a' is listed twice"),
        ("q1 Q0 a 2 0.5", r"line 2: expected 6 columns .*found 5"),
        ("q1 Q0 a 2 many t", r"line 2: the score 'many' is not a number"),
        ("q1 Q0 a 2 nan t", r"line 2: the score 'nan' is not a finite number"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.run"
    path.write_text("q1 Q0 a 1 1.0 t\n" + line + "\n")
    with pytest.raises(InputError, match=r"x\.run, " + message):
        read_run(path, {"q1"}, {"a"})


def test_an_empty_or_missing_run_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "x.run").write_text("\n")
    with pytest.raises(InputError, match="holds no results"):
        read_run(tmp_path / "x.run")
    with pytest.raises(InputError, match="does not exist"):
        read_run(tmp_path / "y.run")


def test_ids_with_spaces_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'my page'"):
        write_run(tmp_path / "x.run", {"q": {"my page": 1.0}})
