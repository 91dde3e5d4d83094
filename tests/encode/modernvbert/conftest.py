"""A tiny model of the released layout, and a cache folder of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests read it only; one that changes the folder makes its own."""
    from tests.encode.modernvbert import tiny

    return tiny.write_folder(tmp_path_factory.mktemp("released"), tiny.released_tensors())
