"""The bytes are those of docs/index-format.md: read here with nothing of vsplade, only what the page says."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector

from .oracle import identity, random_vector

DOCUMENT = Path(__file__).parents[2] / "docs" / "index-format.md"
PAGES = 5000
TERMS = 40


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[SparseVector]]:
    folder = tmp_path_factory.mktemp("index")
    rng = np.random.default_rng(0)
    vectors = [random_vector(rng, TERMS, 12) for _ in range(PAGES)]
    with IndexWriter(folder, identity(TERMS)) as writer:
        for number, vector in enumerate(vectors):
            writer.add(f"page-{number}", vector, {"n": number % 3, "odd": True} if number % 2 else {}, b"jpg")
        writer.set_state("a", [1])
        writer.commit()
        writer.delete("page-9")
    return folder, vectors


def manifest(folder: Path) -> dict[str, Any]:
    first, body = (folder / "MANIFEST").read_bytes().split(b"\n", 1)
    assert first == b"vsplade-index 2 %08x" % zlib.crc32(body)
    return json.loads(body)  # type: ignore[no-any-return]


def arrays(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    data = path.read_bytes()
    mark, version, length, checksum, zero = struct.unpack("<8sIIII", data[:24])
    assert (mark, version, zero) == (b"VSPLADE\0", 1, 0)
    text = data[24 : 24 + length]
    assert (24 + length) % 64 == 0
    assert zlib.crc32(text) == checksum
    header = json.loads(text)
    rest = data[24 + length :]
    assert len(rest) == header["data_bytes"]
    found = {}
    for name, entry in header["arrays"].items():
        assert entry["offset"] % 64 == 0
        found[name] = np.frombuffer(rest, entry["dtype"], entry["count"], entry["offset"])
        assert zlib.crc32(found[name].tobytes()) == entry["crc32"]
    return header, found


def test_vectors_and_levels(written: tuple[Path, list[SparseVector]]) -> None:
    folder, vectors = written
    (entry,) = manifest(folder)["segments"]
    header, found = arrays(folder / entry["file"])
    assert (header["pages"], header["postings"]) == (PAGES, sum(map(len, vectors)))
    dense = np.zeros((PAGES, TERMS), dtype=np.float32)
    for number, vector in enumerate(vectors):
        start, end = found["forward.starts"][number : number + 2].astype(int)
        assert found["forward.terms"][start:end].tolist() == vector.terms.tolist()
        assert found["forward.weights"][start:end].tolist() == vector.weights.tolist()
        dense[number, vector.terms] = vector.weights
    stride = -(-PAGES // 64) * 64
    rows = 0
    for place, term in enumerate(found["full.terms"].tolist()):
        top, count = float(found["full.tops"][place]), int(found["full.counts"][place])
        where = int(found["full.places"][place])
        levels = np.zeros(PAGES)
        if where >= 1 << 31:
            row = where - (1 << 31)
            levels[:] = found["full.dense"][row * stride :][:PAGES]
            rows += 1
        else:
            levels[found["full.offsets"][where : where + count]] = found["full.levels"][where : where + count]
        assert count == np.count_nonzero(dense[:, term])
        assert (
            levels.tolist() == np.ceil(dense[:, term].astype(np.float64) * (255 / top)).clip(0, 255).tolist()
        )
    assert rows > 0


def test_pages_and_columns(written: tuple[Path, list[SparseVector]]) -> None:
    folder, _ = written
    (entry,) = manifest(folder)["segments"]
    header, found = arrays(folder / entry["file"])

    def text(name: str, page: int) -> bytes:
        start, end = found[f"{name}.starts"][page : page + 2].astype(int)
        return found[f"{name}.bytes"][start:end].tobytes()  # type: ignore[no-any-return]

    assert text("id", 7) == b"page-7"
    assert json.loads(text("metadata", 7)) == {"n": 1, "odd": True}
    assert text("thumbnail", 7) == b"jpg"
    hashed = int.from_bytes(hashlib.blake2b(b"page-7", digest_size=8).digest(), "little")
    assert found["hash.pages"][np.searchsorted(found["hash.values"], np.uint64(hashed))] == 7
    number = header["columns"].index("n")
    values = json.loads(found[f"column.{number}.values"].tobytes())
    codes = found[f"column.{number}.codes"]
    assert [values[code - 1] if code else None for code in codes[:4]] == [None, 1, None, 0]
    assert entry["deleted"] == 1
    bits = (folder / entry["tombstones"]).read_bytes()
    assert zlib.crc32(bits) == entry["tombstones_crc32"]
    assert [page for page in range(PAGES) if bits[page // 8] >> page % 8 & 1] == [9]


def test_state(written: tuple[Path, list[SparseVector]]) -> None:
    folder, _ = written
    (entry,) = manifest(folder)["state"]
    body = (folder / entry["file"]).read_bytes()
    assert (json.loads(body), zlib.crc32(body)) == ({"a": [1]}, entry["crc32"])


def test_every_array_and_key_is_documented(written: tuple[Path, list[SparseVector]]) -> None:
    folder, _ = written
    text = DOCUMENT.read_text("utf-8")
    head = manifest(folder)
    header, found = arrays(folder / head["segments"][0]["file"])
    names = {re.sub(r"^full\.", "", re.sub(r"column\.\d+", "column.N", name)) for name in found}
    for name in [*names, *head, *header, *head["segments"][0], *head["state"][0]]:
        assert re.search(rf"\b{re.escape(name)}\b", text), f"docs/index-format.md does not describe {name}"
