"""Pages go into Parquet shards and come back to the bit; what is damaged or foreign is refused whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fsspec")

import pyarrow.parquet as pq

from vsplade.cli import run
from vsplade.errors import InputError, ModelMismatchError, StorageError
from vsplade.exchange import parquet_index
from vsplade.exchange.parquet import Shard, write_shard
from vsplade.exchange.parquet_index import export_parquet, import_parquet
from vsplade.exchange.shard_folder import ShardFolder
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.segment import StoredPage
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector, Windows

IDENTITY = EncoderIdentity("test", "1", 5000)


def random_page(number: int, rng: np.random.Generator) -> StoredPage:
    terms = np.unique(rng.integers(0, 5000, int(rng.integers(0, 60)))).astype(np.uint32)
    weights = (rng.random(len(terms)) * 3 + 0.01).astype(np.float32)
    windows = int(rng.integers(0, 4))
    codes = rng.integers(-127, 128, (windows, 24)).astype(np.int8) | np.int8(1)
    meaning = Windows(codes, rng.integers(0, 200, windows).astype(np.uint16)) if windows else None
    metadata = {
        "path": f"/files/ä {number // 7}.pdf",
        "page_num": number % 7 + 1,
        "share": number / 3,
        "tags": ["a", 1, None],
        "seen": number % 2 == 0,
    }
    thumbnail = rng.bytes(30) if number % 5 == 0 else b""
    return StoredPage(f"page {number} – ü", SparseVector(terms, weights, meaning), metadata, thumbnail)


def make_index(folder: Path, pages: int = 300, seed: int = 1) -> Index:
    rng = np.random.default_rng(seed)
    with IndexWriter(folder, IDENTITY) as writer:
        for number in range(pages):
            page = random_page(number, rng)
            writer.add(page.id, page.vector, page.metadata, page.thumbnail)
        writer.set_state("file:/files/ä 0.pdf", {"doc_id": "ä 0", "pages": 7})
        writer.commit()
        for number in range(0, pages, 9):
            writer.delete(f"page {number} – ü")
    return Index.open(folder)


def content(index: Index) -> list[tuple[object, ...]]:
    """All that an index keeps, as bytes and plain values, in page order."""
    rows: list[tuple[object, ...]] = []
    for page_id in index.ids():
        vector = index.vector(page_id)
        windows = vector.meaning
        meaning = (
            (windows.codes.tobytes(), windows.clusters.tobytes()) if isinstance(windows, Windows) else None
        )
        rows.append(
            (
                page_id,
                vector.terms.tobytes(),
                vector.weights.tobytes(),
                meaning,
                repr(index.metadata(page_id)),
                index.thumbnail(page_id),
            )
        )
    return [*rows, tuple(sorted(map(repr, index.state().items())))]


def test_an_index_comes_back_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_index, "SHARD_PAGES", 64)
    index = make_index(tmp_path / "a")
    assert export_parquet(index, tmp_path / "shards") == index.pages == 266
    assert len(list((tmp_path / "shards").glob("part-*.parquet"))) == 5
    assert import_parquet(tmp_path / "shards", tmp_path / "b") == (266, True)
    assert content(Index.open(tmp_path / "b")) == content(index)
    assert Index.open(tmp_path / "b").identity == index.identity


def test_any_fsspec_place_will_do(tmp_path: Path) -> None:
    index = make_index(tmp_path / "a", 40)
    export_parquet(index, "memory://bucket/shards")
    import_parquet("memory://bucket/shards", tmp_path / "b")
    assert content(Index.open(tmp_path / "b")) == content(index)


def test_other_tools_read_it(tmp_path: Path) -> None:
    index = make_index(tmp_path / "a", 20)
    export_parquet(index, tmp_path / "shards")
    table = pq.read_table(tmp_path / "shards" / "part-000000.parquet")
    first = next(iter(index.ids()))
    row = table.slice(0, 1).to_pylist()[0]
    assert (row["id"], row["terms"]) == (first, index.vector(first).terms.tolist())
    assert np.array(row["weights"], np.float32).tolist() == index.vector(first).weights.tolist()


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_a_half_written_shard_is_named_and_nothing_is_added(tmp_path: Path, keep: float) -> None:
    export_parquet(make_index(tmp_path / "a", 100), tmp_path / "shards")
    shard = tmp_path / "shards" / "part-000000.parquet"
    body = shard.read_bytes()
    shard.write_bytes(body[: int(keep * len(body)) if keep < 1 else int(keep)])
    with pytest.raises(InputError, match=r"part-000000\.parquet.*half-written or damaged"):
        import_parquet(tmp_path / "shards", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_every_flipped_byte_is_noticed_or_harmless() -> None:
    rng = np.random.default_rng(3)
    pages = [random_page(number, rng) for number in range(6)]
    body = write_shard(pages, IDENTITY)

    def read(body: bytes) -> list[tuple[object, ...]]:
        import io

        rows = Shard(io.BytesIO(body), "x.parquet").pages()
        return [
            (p.id, p.vector.terms.tolist(), p.vector.weights.tobytes(), p.metadata, p.thumbnail) for p in rows
        ]

    whole = read(body)
    noticed = 0
    for place in range(0, len(body), 37):
        broken = bytearray(body)
        broken[place] ^= 0x55
        try:
            assert read(bytes(broken)) == whole
        except (InputError, ModelMismatchError):
            noticed += 1
    assert noticed > len(body) // 37 // 2


def test_another_model_is_refused(tmp_path: Path) -> None:
    export_parquet(make_index(tmp_path / "a", 20), tmp_path / "shards")
    with IndexWriter(tmp_path / "b", EncoderIdentity("test", "2", 5000)) as writer:
        writer.add("x", SparseVector.from_dict({1: 1.0}))
    with pytest.raises(ModelMismatchError, match="fingerprint 2"):
        import_parquet(tmp_path / "shards", tmp_path / "b")
    assert Index.open(tmp_path / "b").pages == 1
    folder = ShardFolder(tmp_path / "shards")
    folder.commit("part-9", [], EncoderIdentity("test", "2", 5000))
    with pytest.raises(ModelMismatchError, match=r"part-9\.parquet"):
        import_parquet(tmp_path / "shards", tmp_path / "c")


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "shards")
    page = StoredPage("one", SparseVector.from_dict({1: 1.0}), {"path": "/a"})
    folder.commit("part-1", [page], IDENTITY)
    folder.commit("part-2", [page], IDENTITY)
    with pytest.raises(InputError, match=r"part-2\.parquet: the id 'one' stands in .*part-1\.parquet"):
        import_parquet(tmp_path / "shards", tmp_path / "b")


def test_a_page_of_another_file_is_never_replaced(tmp_path: Path) -> None:
    folder = ShardFolder(tmp_path / "shards")
    vector = SparseVector.from_dict({1: 1.0})
    folder.commit("part-1", [StoredPage("report_1", vector, {"path": "/new/report.pdf"})], IDENTITY)
    with IndexWriter(tmp_path / "b", IDENTITY) as writer:
        writer.add("report_1", vector, {"path": "/old/report.pdf"})
    with pytest.raises(InputError, match=r"part-1\.parquet.*/new/report\.pdf.*/old/report\.pdf"):
        import_parquet(tmp_path / "shards", tmp_path / "b")


def test_an_interrupted_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_index, "SHARD_PAGES", 50)
    monkeypatch.setattr(parquet_index, "COMMIT_PAGES", 50)
    index = make_index(tmp_path / "a")
    export_parquet(index, tmp_path / "shards")

    def stop(done: int, total: int) -> None:
        if done >= 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_parquet(tmp_path / "shards", tmp_path / "b", progress=stop)
    assert 0 < Index.open(tmp_path / "b").pages < index.pages
    import_parquet(tmp_path / "shards", tmp_path / "b")
    again = Index.open(tmp_path / "b")
    assert content(again) == content(index)
    assert again.statistics()["deleted"] == 0, "pages were added twice"


def test_an_unfinished_shard_is_named(tmp_path: Path) -> None:
    export_parquet(make_index(tmp_path / "a", 20), tmp_path / "shards")
    (tmp_path / "shards" / "part-000007.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"part-000007\.parquet.*not finished"):
        import_parquet(tmp_path / "shards", tmp_path / "b")


@pytest.mark.parametrize("where", ["nosuch://x/y", "s4://bucket/x"])
def test_an_unreachable_place_is_named(where: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, StorageError), match=where.split(":")[0]):
        import_parquet(where, tmp_path / "b")


def test_a_file_of_something_else_is_no_shard(tmp_path: Path) -> None:
    import pyarrow as pa

    (tmp_path / "shards").mkdir()
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "shards" / "other.parquet")
    with pytest.raises(InputError, match=r"other\.parquet.*not one of vsplade's"):
        import_parquet(tmp_path / "shards", tmp_path / "b")


def test_a_folder_without_shards_is_no_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "report.pdf").write_bytes(b"%PDF-")
    index = str(tmp_path / "index")
    assert run(["index", "--from-parquet", str(tmp_path / "shards"), "--index", index]) == 2
    assert "there are no Parquet shards with pages in this folder" in capsys.readouterr().err
    assert not Path(index).exists()
