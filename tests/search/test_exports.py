"""Vectors go out and come back; CIFF is read by protobuf itself, which did not write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vsplade.errors import InputError
from vsplade.exchange.vector_files import export_vectors, read_pages
from vsplade.search.index import Index
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import SparseVector


class Names:
    def __len__(self) -> int:
        return 300

    def token(self, term: int) -> str:
        return f"w{term}" if term != 7 else "ä##,\"'\t"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    rng = np.random.default_rng(1)
    with IndexWriter(tmp_path / "i", EncoderIdentity("test", "1", 300)) as writer:
        for number in range(400):
            terms = np.unique(np.append(rng.integers(0, 300, 20), 7)).astype(np.uint32)
            weights = (rng.random(len(terms)) * (50 if number == 3 else 2) + 0.02).astype(np.float32)
            writer.add(f"page {number}", SparseVector(terms, weights))
        writer.add("empty", SparseVector.from_dict({}))
        writer.commit()
        for number in range(0, 400, 5):
            writer.delete(f"page {number}")
    return Index.open(tmp_path / "i")


def test_seismic_comes_back_exactly(index: Index, tmp_path: Path) -> None:
    assert export_vectors(index, Names(), tmp_path / "out.jsonl", "seismic") == 321
    back = {page.id: page.vector for page in read_pages(tmp_path / "out.jsonl", Names(), "seismic")}
    assert list(back) == list(index.ids())
    for page_id, vector in index.vectors():
        assert back[page_id].terms.tolist() == vector.terms.tolist()
        assert back[page_id].weights.tolist() == vector.weights.tolist()
    first = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert set(first) == {"id", "content", "vector"}


def test_anserini_comes_back_rounded(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "collection"
    folder.mkdir()
    export_vectors(index, Names(), folder / "part.jsonl", "anserini", scale=50)
    first = json.loads((folder / "part.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert set(first) == {"id", "contents", "vector"}
    assert all(isinstance(weight, int) and weight >= 1 for weight in first["vector"].values())
    back = {page.id: page.vector for page in read_pages(folder, Names(), "anserini", scale=50)}
    for page_id, vector in index.vectors():
        assert back[page_id].terms.tolist() == vector.terms.tolist()
        assert np.abs(back[page_id].weights - vector.weights).max(initial=0) <= 0.0101


def _ciff_messages() -> Any:
    """The messages of CIFF's own .proto file, built with protobuf."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    kinds = {"int32": 5, "int64": 3, "double": 1, "string": 9, "message": 11}
    layout = {
        "Header": "int32 version, int32 num_postings_lists, int32 num_docs, int32 total_postings_lists, "
        "int32 total_docs, int64 total_terms_in_collection, double average_doclength, string description",
        "Posting": "int32 docid, int32 tf",
        "PostingsList": "string term, int64 df, int64 cf, message postings",
        "DocRecord": "int32 docid, string collection_docid, int32 doclength",
    }
    file = descriptor_pb2.FileDescriptorProto(name="ciff_test.proto", package="ciff_test", syntax="proto3")
    for name, fields in layout.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(", "), start=1):
            kind, label = field.split(" ")
            one = message.field.add(name=label, number=number, type=kinds[kind], label=1)
            if kind == "message":
                one.type_name, one.label = ".ciff_test.Posting", 3
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ciff_test.{name}"))
        for name in layout
    }


def _split(data: bytes) -> list[bytes]:
    bodies, place = [], 0
    while place < len(data):
        length = shift = 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        bodies.append(data[place : place + length])
        place += length
    return bodies


def test_ciff_is_read_by_protobuf(index: Index, tmp_path: Path) -> None:
    kinds = _ciff_messages()
    export_vectors(index, Names(), tmp_path / "out.ciff", "ciff", scale=100)
    bodies = _split((tmp_path / "out.ciff").read_bytes())
    header = kinds["Header"].FromString(bodies[0])
    assert (header.version, header.num_docs, header.total_docs) == (1, 321, 321)
    lists = [kinds["PostingsList"].FromString(body) for body in bodies[1 : 1 + header.num_postings_lists]]
    records = [kinds["DocRecord"].FromString(body) for body in bodies[1 + header.num_postings_lists :]]
    assert [record.docid for record in records] == list(range(321))
    assert [one.term.encode() for one in lists] == sorted(one.term.encode() for one in lists)
    found: dict[str, dict[str, int]] = {record.collection_docid: {} for record in records}
    for one in lists:
        assert one.df == len(one.postings)
        assert one.cf == sum(posting.tf for posting in one.postings)
        page = 0
        for posting in one.postings:
            page += posting.docid
            found[records[page].collection_docid][one.term] = posting.tf
    for page_id, vector in index.vectors():
        pairs = zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
        assert found[page_id] == {Names().token(term): max(1, round(weight * 100)) for term, weight in pairs}
    assert header.total_terms_in_collection == sum(record.doclength for record in records)
    assert header.average_doclength == pytest.approx(header.total_terms_in_collection / 321)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", "out.jsonl:1: this line is not"),
        ('{"id": "a"}', "out.jsonl:1: this line is not"),
        ('{"id": "a", "vector": {"unheard": 1}}', "the token 'unheard' is not in the vocabulary"),
        ('{"id": "a", "vector": {"w1": "x"}}', "the weight of 'w1' is 'x'"),
        ('{"id": "a", "vector": {"w1": -1}}', "the weight of 'w1' is -1; weights cannot be negative"),
        (
            '{"id": "a", "vector": {"w1": 1%s}}' % ("0" * 400),
            "out.jsonl:1: the weight of 'w1' has too many digits",
        ),
        (
            '{"id": "a", "vector": {"w1": 1e39}}',
            "out.jsonl:1: the weight of 'w1' is 1e[+]39; weights must lie",
        ),
        ('{"id": {}, "vector": {}}', "out.jsonl:1: the id {} is not a text"),
        (
            '{"id": "a", "vector": {}, "metadata": {"k": {}}}',
            "out.jsonl:1: page 'a': the metadata value of 'k'",
        ),
        ('{"id": "a", "vector": {}, "metadata": 7}', "out.jsonl:1: this line is not"),
        ("\xf1\x80 not text at all", "out.jsonl:1: this line is not"),
        ("[" * 100_000, "out.jsonl:1: this line is not"),
        (
            '{"id": "a", "vector": {}}\n{"id": "a", "vector": {}}',
            "jsonl:2: the id 'a' was used before, in .*jsonl:1",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "out.jsonl").write_bytes(line.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        list(read_pages(tmp_path / "out.jsonl", Names(), "seismic"))


def test_unknown_formats_and_scales_are_refused(index: Index, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="use one of seismic, anserini, ciff"):
        export_vectors(index, Names(), tmp_path / "x", "lucene")
    with pytest.raises(InputError, match="scale"):
        export_vectors(index, Names(), tmp_path / "x", "ciff", scale=0)
    with pytest.raises(InputError, match="no such file"):
        list(read_pages(tmp_path / "absent", Names(), "seismic"))


@pytest.mark.parametrize("format", ["anserini", "seismic"])
def test_metadata_comes_back(tmp_path: Path, format: str) -> None:
    """Page numbers, paths and a user's own values: what is imported reads as what was exported."""
    identity = EncoderIdentity("test", "1", 300)
    wanted = {
        "a_1": {"path": "/docs/a.pdf", "page_num": 1, "doc_id": "a", "pages": 2, "year": 2024, "ok": True},
        "a_2": {"path": "/docs/a.pdf", "page_num": 2, "doc_id": "a", "pages": 2, "rate": 0.5},
        "pic": {},
    }
    with IndexWriter(tmp_path / "i", identity) as writer:
        for id, metadata in wanted.items():
            writer.add(id, SparseVector.from_dict({1: 0.25, 7: 1.5}), metadata)
    first = Index.open(tmp_path / "i")
    export_vectors(first, Names(), tmp_path / "out.jsonl", format)
    with IndexWriter(tmp_path / "j", identity) as writer:
        for page in read_pages(tmp_path / "out.jsonl", Names(), format):
            writer.add(page.id, page.vector, page.metadata)
    second = Index.open(tmp_path / "j")
    assert list(second.ids()) == list(first.ids())
    for id, metadata in wanted.items():
        assert second.metadata(id) == metadata
        assert second.vector(id).weights.tolist() == first.vector(id).weights.tolist()
    hits = [(hit.id, hit.doc_id, hit.page_num) for hit in second.search_vector(first.vector("a_1"))]
    assert hits == [("a_1", "a", 1), ("a_2", "a", 2), ("pic", "pic", 1)]


@pytest.mark.parametrize(("written", "read"), [("anserini", "seismic"), ("seismic", "anserini")])
def test_the_other_format_is_refused(index: Index, tmp_path: Path, written: str, read: str) -> None:
    """Taken for the other, weights would be a hundred times too large or too small."""
    export_vectors(index, Names(), tmp_path / "out.jsonl", written)
    with pytest.raises(InputError, match=f"out.jsonl:1: this line has the form of .*--format {written}"):
        list(read_pages(tmp_path / "out.jsonl", Names(), read))


@pytest.mark.parametrize(
    ("line", "form"),
    [
        ('{"id": "a", "vector": {"w1": 120, "w2": 3}}', "anserini"),
        ('{"id": "a", "vector": {"w1": 1.25, "w2": 3}}', "seismic"),
    ],
)
def test_without_the_text_key_the_numbers_tell(tmp_path: Path, line: str, form: str) -> None:
    (tmp_path / "out.jsonl").write_text(line)
    other = {"anserini": "seismic", "seismic": "anserini"}[form]
    assert len(list(read_pages(tmp_path / "out.jsonl", Names(), form))) == 1
    with pytest.raises(InputError, match=f"--format {form}"):
        list(read_pages(tmp_path / "out.jsonl", Names(), other))
