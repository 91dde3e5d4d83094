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
