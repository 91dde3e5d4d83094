from __future__ import annotations

import pytest

from vsplade.evaluate.paper import COLUMNS, ROWS, to_markdown


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
