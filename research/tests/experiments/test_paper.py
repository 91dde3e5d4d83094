from __future__ import annotations

import json
from pathlib import Path

import pytest

from research.experiments.benchmarks import BENCHMARKS
from research.experiments.paper import COLUMNS, ROWS, measured_row, to_markdown
from vsplade.errors import InputError


def test_the_papers_table_adds_up() -> None:
    assert len(ROWS) == 22
    for row in ROWS:
        assert len(row.scores) == len(COLUMNS)
        assert sum(row.scores) / 6 == pytest.approx(row.average, abs=0.11), row.name
    for name in ("D2S", "JSDO-Sparse", "ColFlor"):
        row = next(row for row in ROWS if row.name == name)
        assert row.mteb is None
        assert "not run" in row.note
    assert to_markdown().count("\n") == len(ROWS) + 2


def test_a_row_of_ones_own_averages_complete_columns_only(tmp_path: Path) -> None:
    def write(name: str, value: float) -> None:
        (tmp_path / f"{name}.json").write_text(json.dumps({"ndcg@5": value, "flops": 2 * value}))

    write("visrag.mpdocvqa", 0.8)
    write("visrag.slidevqa", 0.9)
    write("irpapers.irpapers", 0.5)
    assert measured_row(tmp_path, "x").splitlines()[-1] == (
        "| x | - | - | - | 85.0 (2 of 6) | - | 50.0 | - | 1.35 |"
    )
    for number, group in enumerate(COLUMNS):
        for subset in BENCHMARKS[group]:
            write(f"{group}.{subset}", number / 10)
    assert measured_row(tmp_path, "x").splitlines()[-1] == (
        "| x | 0.0 | 10.0 | 20.0 | 30.0 | 40.0 | 50.0 | 25.0 | 0.50 |"
    )


def test_a_result_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "irpapers.irpapers.json").write_text("")
    with pytest.raises(InputError, match="no result of vsplade eval"):
        measured_row(tmp_path, "x")
