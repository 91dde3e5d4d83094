"""``vsplade search --two-stage`` makes one search: recall is a benchmark's business."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vsplade.cli import run
from vsplade.encode.text import TextEncoder
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter


def test_no_exact_search_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = TextEncoder()
    with IndexWriter(tmp_path / "i.vsplade", encoder) as writer:
        for n in range(20):
            writer.add(f"p{n}", encoder.encode_text(f"steam engine number {n} " + "harbour " * (n == 7)))
    stages = []
    real = Index.search

    def watched(self: Index, *given: object, **named: object) -> object:
        stages.append(named.get("two_stage"))
        return real(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Index, "search", watched)
    command = ["search", "harbour", "--index", str(tmp_path / "i.vsplade"), "--two-stage", "50", "--json"]
    assert run(command) == 0
    assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == ["p7"]
    assert len(stages) == 1
    assert stages[0] is not None
    assert run(["search", "--help"]) == 0
    assert "--two-stage" not in capsys.readouterr().out
