"""Tiny models and tiny data sets in the layouts of the public ones."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.encode.modernvbert.conftest import own_cache, released  # noqa: F401
from tests.train.conftest import backbone  # noqa: F401

WORDS = ("red", "green", "blue", "page", "total")


def picture(seed: int) -> bytes:
    """Blocks whose place and shade belong to a word."""
    image = Image.new("RGB", (60, 80), "white")
    draw = ImageDraw.Draw(image)
    word = seed % len(WORDS)
    draw.rectangle((5, 5 + 14 * word, 40, 15 + 14 * word), fill=(40 * word, 200 - 40 * word, 30 * seed % 255))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="session")
def colpali(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``vidore/colpali_train_set``: columns and nesting as on the hub, in two files and several row
    groups.
    """
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("colpali")
    (folder / "data").mkdir()
    for part in range(2):
        numbers = range(part * 10, part * 10 + 10)
        rows = [
            {
                "image": {"bytes": picture(n), "path": f"{n}.png"}, "image_filename": f"images/{n}.png",
                "query": None if n == 13 else f" {WORDS[n % 5]} page", "answer": "", "source": "docvqa",
                "options": None, "page": "", "model": "", "prompt": "", "answer_type": None,
            }
            for n in numbers
        ]  # fmt: skip
        table = pyarrow.Table.from_pylist(rows)
        parquet.write_table(table, folder / "data" / f"train-0000{part}-of-00002.parquet", row_group_size=4)
    return folder


@pytest.fixture(scope="session")
def rlhn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``rlhn/rlhn-680K``: one row has no hard negatives left, one has a single one."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("rlhn")
    random = np.random.default_rng(1)

    def passage(n: int) -> dict[str, str]:
        text = " ".join(random.choice(WORDS, 4))
        return {"docid": str(n), "title": f"Title {n}", "text": f"{WORDS[n % 5]} {text}"}

    rows = [
        {
            "query_id": str(n), "query": f" {WORDS[n % 5]}", "positive_passages": [passage(n)],
            "negative_passages": [passage(n + k) for k in range(1, {3: 1, 4: 2}.get(n, 4))],
            "subset": "nq",
        }
        for n in range(15)
    ]  # fmt: skip
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train.parquet", row_group_size=6)
    return folder
