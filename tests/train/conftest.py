"""A tiny model in the layout of the public one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.encode.modernvbert.conftest import own_cache  # noqa: F401


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


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err
