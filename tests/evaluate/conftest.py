from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

QUERIES = '{"_id": "q1", "text": "green apples"}\n{"_id": "q2", "text": "steam engine"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t2\nq2\tc\t1\n"
TEXTS = {
    "a": "green apples and pears",
    "b": "a steam engine, a big steam engine",
    "c": "the engine room",
    "d": "sea",
}


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Path]:
    """A tiny data set of four white pictures; every file can be replaced."""

    def make(
        queries: str = QUERIES, qrels: str = QRELS, pages: tuple[str, ...] = ("a", "b", "c", "d")
    ) -> Path:
        folder = tmp_path / "set"
        (folder / "images").mkdir(parents=True)
        for page in pages:
            Image.new("L", (40, 60), 255).save(folder / "images" / f"{page}.png")
        (folder / "queries.jsonl").write_text(queries, encoding="utf-8")
        (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
        return folder

    return make
