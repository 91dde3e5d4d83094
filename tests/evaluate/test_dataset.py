from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from vsplade.errors import InputError
from vsplade.evaluate import load_dataset, read_page_texts

MakeDataset = Callable[..., Path]
HEADER = "query-id\tcorpus-id\tscore\n"


def test_reads_the_layout(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    assert dataset.queries == {"q1": "green apples", "q2": "steam engine"}
    assert dataset.qrels == {"q1": {"a": 1}, "q2": {"b": 2, "c": 1}}
    assert dataset.image_ids == {"a", "b", "c", "d"}
    assert [file.name for file in dataset.files] == ["a.png", "b.png", "c.png", "d.png"]


def test_reads_gzipped_queries_and_integer_ids(make_dataset: MakeDataset) -> None:
    folder = make_dataset(qrels=HEADER + "7\ta\t1\n")
    (folder / "queries.jsonl").unlink()
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(b'{"_id": 7, "text": "seven"}\n'))
    assert load_dataset(folder).queries == {"7": "seven"}


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        (HEADER + "q1\ta\t1\nq2\tnowhere\t1\n", r"qrels\.tsv, line 3: .*'nowhere'.*images/nowhere"),
        (HEADER + "q1\ta\t1\nq9\ta\t1\n", r"qrels\.tsv, line 3: query 'q9' is not in queries\.jsonl"),
        (HEADER + "q1\ta\t1\n\nq1\ta\t0\n", r"qrels\.tsv, line 4: .*judged before, on line 2"),
        (HEADER + "q1\ta\n", r"qrels\.tsv, line 2: expected 3 columns"),
        (
            HEADER + "q1\ta\thigh\n",
            r"qrels\.tsv, line 2: the score must be a whole number from 0 to 1,000, found 'high'",
        ),
        (HEADER + "q1\ta\t-1\n", r"qrels\.tsv, line 2: the score"),
        (HEADER + "q1\ta\t99999999999999999999\n", r"qrels\.tsv, line 2: the score"),
        ("q1\ta\t1\n", r"qrels\.tsv, line 1: expected the header"),
        (HEADER, r"qrels\.tsv holds no judgements"),
        ("", r"qrels\.tsv, line 1: expected the header"),
    ],
)
def test_bad_judgements_name_file_and_line(make_dataset: MakeDataset, qrels: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_dataset(make_dataset(qrels=qrels))


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (
            '{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n',
            r"line 2: query id 'q1' was used before, on line 1",
        ),
        ('{"_id": "q1", "text": " "}\n', r"line 1: query 'q1' is empty"),
        ('{"_id": "q1", "text": "a"}\n{"_id": "q2"\n', r"line 2: not JSON"),
        ("[" * 100_000, r"line 1: not JSON"),
        ('{"id": "q1", "text": "a"}\n', r'line 1: expected \{"_id"'),
        ('{"_id": "q1", "text": 5}\n', r'line 1: "text" must be a text'),
        ('{"_id": null, "text": "x"}\n', r'line 1: "_id" must be a text'),
        ("\n", r"holds no queries"),
    ],
)
def test_bad_queries_name_file_and_line(make_dataset: MakeDataset, queries: str, message: str) -> None:
    with pytest.raises(InputError, match=r"queries\.jsonl.*" + message):
        load_dataset(make_dataset(queries=queries))


def test_two_files_for_one_page_id(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    Image.new("L", (4, 4)).save(folder / "images" / "a.webp")
    with pytest.raises(InputError, match=r"a\.webp and a\.png would both be page 'a'"):
        load_dataset(folder)


def test_missing_parts_are_named(make_dataset: MakeDataset, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        load_dataset(tmp_path / "nothing")
    folder = make_dataset()
    (folder / "pdfs").mkdir()
    with pytest.raises(InputError, match=r"both images/ and pdfs/"):
        load_dataset(folder)
    (folder / "pdfs").rmdir()
    (folder / "qrels.tsv").unlink()
    with pytest.raises(InputError, match=r"qrels\.tsv does not exist"):
        load_dataset(folder)
    (folder / "queries.jsonl.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"has both queries\.jsonl and queries\.jsonl\.gz"):
        load_dataset(folder)


def test_damaged_gzip_is_an_input_error(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    (folder / "queries.jsonl").unlink()
    (folder / "queries.jsonl.gz").write_bytes(gzip.compress(b'{"_id": "q1", "text": "x"}\n' * 50)[:-12])
    with pytest.raises(InputError, match="damaged"):
        load_dataset(folder)


def test_pages_of_pdfs_are_checked_when_they_are_known(make_dataset: MakeDataset) -> None:
    folder = make_dataset(qrels=HEADER + "q1\treport_3\t1\n")
    for file in (folder / "images").iterdir():
        file.unlink()
    (folder / "images").rmdir()
    (folder / "pdfs").mkdir()
    (folder / "pdfs" / "report.pdf").write_bytes(b"%PDF-")
    dataset = load_dataset(folder)
    dataset.check_corpus({"report_1", "report_2", "report_3"})
    with pytest.raises(InputError, match=r"line 2: .*report\.pdf has no page 3"):
        dataset.check_corpus({"report_1", "report_2"})


def test_page_texts_refuse_unknown_and_repeated_pages(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"_id": "a", "text": ""}\n{"_id": "x", "text": "b"}\n')
    assert read_page_texts(path) == {"a": "", "x": "b"}
    with pytest.raises(InputError, match=r"texts\.jsonl, line 2: page 'x' is not in the corpus"):
        read_page_texts(path, {"a"})
    path.write_text('{"_id": "a", "text": ""}\n{"_id": "a", "text": "b"}\n')
    with pytest.raises(InputError, match=r"line 2: page 'a' was given before, on line 1"):
        read_page_texts(path)


def test_not_utf8_names_the_line(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    (folder / "queries.jsonl").write_bytes(b'{"_id": "q1", "text": "x"}\n{"_id": "q2", "text": "\xff"}\n')
    with pytest.raises(InputError, match=r"line 2: not UTF-8"):
        load_dataset(folder)


def test_a_stray_file_among_the_pages_is_named(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    (folder / "images" / "notes.txt").write_text("x")
    with pytest.raises(InputError, match=r"notes\.txt is not a picture"):
        load_dataset(folder)
