from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from research.experiments.docmatix import write_recall_set
from vsplade.errors import InputError
from vsplade.evaluate import load_dataset

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def picture() -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.new("L", (20, 30), 200).save(buffer, "JPEG")
    return {"bytes": buffer.getvalue(), "path": None}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def turn(question: str) -> dict[str, str]:
    return {"user": question, "assistant": "yes", "source": "PDFA"}


def test_every_page_of_the_document_is_right(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"images": [picture()] * 2, "texts": [turn("what is sold?"), turn("by whom?")]},
        {"images": [picture()], "texts": []},
    ]
    file = write(tmp_path / "a.parquet", rows)
    assert write_recall_set(tmp_path / "set", [file], questions=10) == (3, 2)
    dataset = load_dataset(tmp_path / "set")
    assert dataset.image_ids == {"d0_1", "d0_2", "d1_1"}
    assert set(dataset.queries.values()) == {"what is sold?", "by whom?"}
    assert all(pages == {"d0_1": 1, "d0_2": 1} for pages in dataset.qrels.values())
    assert write_recall_set(tmp_path / "one", [file], questions=1) == (3, 1)


def test_bad_rows_are_named(tmp_path: Path) -> None:
    no_picture = write(
        tmp_path / "a.parquet", [{"images": [{"bytes": None, "path": "x"}], "texts": [turn("a?")]}]
    )
    with pytest.raises(InputError, match=r"a.parquet, row 1: the picture is missing"):
        write_recall_set(tmp_path / "set", [no_picture], 5)
    no_pages = write(tmp_path / "b.parquet", [{"pages": 3, "texts": [turn("a?")]}])
    with pytest.raises(InputError, match=r"b.parquet, row 1: the document has no pages"):
        write_recall_set(tmp_path / "set", [no_pages], 5)
    silent = write(tmp_path / "c.parquet", [{"images": [picture()], "texts": [turn(" ")]}])
    with pytest.raises(InputError, match="None of the documents has a question"):
        write_recall_set(tmp_path / "set", [silent], 5)
