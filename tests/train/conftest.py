"""A tiny model in the layout of the public one."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from tests.encode.modernvbert import tiny

    folder = tmp_path_factory.mktemp("backbone")
    return tiny.write_folder(folder, tiny.upstream_tensors(), released=False, longest_edge=64)


QUICK = [
    part
    for setting in ("batch=2", "steps=2", "precision=float32", "gradient_checkpointing=false", "lora_rank=2")
    for part in ("--set", setting)
]
"""A run of seconds."""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
