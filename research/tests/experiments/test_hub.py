"""Tiny copies of the public benchmarks, in the hub's own layouts."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from research.experiments.benchmarks import BENCHMARKS, repository
from research.experiments.hub import HubOptions, open_dataset, unpack
from vsplade.errors import InputError
from vsplade.evaluate import evaluate_dataset
from vsplade.evaluate.dataset import Dataset, load_dataset

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Rows = list[dict[str, Any]]


def png(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (20, 30), shade).save(buffer, "PNG")
    return buffer.getvalue()


def image(shade: int) -> dict[str, Any]:
    return {"bytes": png(shade), "path": None}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def write(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def three_tables(
    folder: Path,
    split: str = "test",
    corpus: Rows | None = None,
    queries: Rows | None = None,
    qrels: Rows | None = None,
    separator: str = "-",
) -> None:
    s = separator
    corpus = corpus or [{f"corpus{s}id": n, "image": image(n), f"doc{s}id": "d"} for n in range(3)]
    queries = queries or [{f"query{s}id": n, "query": f"question {n}"} for n in range(2)]
    qrels = qrels or [
        {f"query{s}id": 0, f"corpus{s}id": 1, "score": 1},
        {f"query{s}id": 1, f"corpus{s}id": 2, "score": 2},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
        write(folder / name / f"{split}-00000-of-00001.parquet", rows)


def check(dataset: Dataset, pages: Sequence[str], qrels: dict[str, dict[str, int]]) -> None:
    assert dataset.image_ids == frozenset(pages)
    assert dataset.qrels == qrels
    assert set(dataset.judged) == set(qrels)


def test_vidore_v2_keeps_the_english_questions(root: Path) -> None:
    folder = root / "vidore" / "biomedical_lectures_v2"
    queries = [
        {"query-id": 0, "query": "what is it", "language": "english"},
        {"query-id": 1, "query": "qu'est-ce", "language": "french"},
    ]
    qrels = [{"query-id": q, "corpus-id": 2, "score": 1 + q} for q in range(2)]
    three_tables(folder, queries=queries, qrels=qrels)
    dataset = open_dataset("vidore-v2:biomedical", root)
    check(dataset, ["0", "1", "2"], {"0": {"2": 1}})
    assert dataset.queries == {"0": "what is it"}


def test_vidore_v3_has_underscores_and_other_files_beside(root: Path) -> None:
    folder = root / "vidore_v3_hr"  # without the owner: a copy in a folder of one's own
    three_tables(folder, separator="_")
    write(folder / "documents_metadata" / "test-00000-of-00001.parquet", [{"doc_id": "d", "url": "x"}])
    check(open_dataset("vidore-v3:hr", root), ["0", "1", "2"], {"0": {"1": 1}, "1": {"2": 2}})


def test_visrag_ids_that_are_no_file_names(root: Path) -> None:
    folder = root / "openbmb" / "VisRAG-Ret-Test-ArxivQA"
    three_tables(
        folder,
        split="train",
        corpus=[{"corpus-id": "a/b.jpg", "image": image(1)}, {"corpus-id": "plain.jpg", "image": image(2)}],
        queries=[{"query-id": "x-1", "query": "which line"}],
        qrels=[{"query-id": "x-1", "corpus-id": "a/b.jpg", "score": 1}],
    )
    check(open_dataset("visrag:arxivqa", root), ["a%2Fb.jpg", "plain.jpg"], {"x-1": {"a%2Fb.jpg": 1}})


def test_visdoc_ood_repeats_judgements(root: Path) -> None:
    folder = root / "VLM2Vec" / "MMLongBench-page-fixed"
    qrels = [{"query-id": 0, "corpus-id": 1, "score": 3}] * 3
    three_tables(folder, qrels=qrels)
    check(open_dataset("visdoc-ood:mmlongbench-page", root), ["0", "1", "2"], {"0": {"1": 3}})
    three_tables(folder, qrels=[*qrels, {"query-id": 0, "corpus-id": 1, "score": 1}])
    with pytest.raises(InputError, match=r"qrels.*row 4: .*judged 1 here and 3 before"):
        open_dataset("visdoc-ood:mmlongbench-page", root)


def test_vidore_v1_is_one_table(root: Path) -> None:
    folder = root / "vidore" / "docvqa_test_subsampled"
    rows = [
        {"query": "how many", "image": image(1), "image_filename": "p1.jpg", "answer": "3"},
        {"query": "how much", "image": image(1), "image_filename": "p1.jpg", "answer": "4"},
        {"query": None, "image": image(2), "image_filename": "p2.jpg", "answer": None},
    ]
    write(folder / "data" / "test-00000-of-00001.parquet", rows)
    dataset = open_dataset("vidore-v1:docvqa", root)
    check(dataset, ["p1.jpg", "p2.jpg"], {"q0": {"p1.jpg": 1}, "q1": {"p1.jpg": 1}})


def irpapers(folder: Path, answer: str = "98_2") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "irpapers-docs.csv").open("w", newline="") as file:
        writer = csv.DictWriter(
            file, ["dataset_id", "pdf_id_x", "page_number", "base64_str", "transcription"]
        )
        writer.writeheader()
        for page in (1, 2):
            picture = base64.b64encode(png(page) + b"\0" * 200_000).decode()
            row = {"dataset_id": f"98_{page}", "pdf_id_x": 98, "page_number": page, "base64_str": picture}
            writer.writerow({**row, "transcription": "many\nlines, with commas"})
    with (folder / "irpapers-queries.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["question", "answer", "dataset_id"])
        writer.writeheader()
        writer.writerow({"question": "which loss, exactly?", "answer": "x", "dataset_id": answer})
    (folder / "irpapers-visual-queries.csv").write_text("question,dataset_id\nother,98_1\n")


def test_irpapers_is_csv_with_base64(root: Path) -> None:
    irpapers(root / "weaviate" / "IRPAPERS")
    check(open_dataset("irpapers", root), ["98_1", "98_2"], {"q0": {"98_2": 1}})
    assert csv.field_size_limit() < 2**31 - 1  # put back


def test_a_folder_in_the_hubs_layout_needs_no_name(root: Path) -> None:
    three_tables(root)
    dataset = open_dataset(root)
    report = evaluate_dataset(dataset, texts={"0": "nothing", "1": "question zero 0", "2": "question 1"})
    assert report.measures["recall@1"] == 1.0
    again = open_dataset(root)
    assert again.path == dataset.path  # unpacked once
    (root / "queries" / "test-00000-of-00001.parquet").touch()
    assert open_dataset(root).path != dataset.path


def test_jsonl_and_tsv_do_as_well(root: Path) -> None:
    three_tables(root)
    (root / "queries" / "test-00000-of-00001.parquet").unlink()
    (root / "queries.jsonl").write_text('{"_id": "0", "text": "zero"}\n{"_id": "1", "text": "one"}\n')
    (root / "qrels" / "test-00000-of-00001.parquet").unlink()
    (root / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n0\t2\t1\n")
    check(open_dataset(root), ["0", "1", "2"], {"0": {"2": 1}})


BAD: list[tuple[Callable[[Path], None], str]] = [
    (
        lambda f: three_tables(f, qrels=[{"query-id": 0, "corpus-id": 9, "score": 1}]),
        r"qrels.*row 1: page '9'",
    ),
    (
        lambda f: three_tables(f, qrels=[{"query-id": 7, "corpus-id": 1, "score": 1}]),
        r"qrels.*row 1: query '7'",
    ),
    (
        lambda f: three_tables(f, qrels=[{"query-id": 0, "corpus-id": 1, "score": -1}]),
        r"row 1: the score must",
    ),
    (
        lambda f: three_tables(f, corpus=[{"corpus-id": 1, "image": image(1)}] * 2),
        r"corpus.*row 2: page id '1' was used before, at .*row 1",
    ),
    (
        lambda f: three_tables(f, corpus=[{"corpus-id": 1, "image": {"bytes": None, "path": "x.png"}}]),
        r"corpus.*row 1: the picture is missing",
    ),
    (
        lambda f: three_tables(f, corpus=[{"corpus-id": 1, "image": {"bytes": b"text", "path": "x.png"}}]),
        r"corpus.*row 1: the picture of page '1' is no PNG",
    ),
    (
        lambda f: three_tables(f, queries=[{"query-id": 0, "query": "  "}, {"query-id": 1, "query": "b"}]),
        r"queries.*row 1: query '0' is empty",
    ),
    (lambda f: three_tables(f, queries=[{"query-id": 0, "query": "a"}] * 2), r"row 2: query id '0' was used"),
    (
        lambda f: three_tables(f, queries=[{"query-id": 0, "words": "a"}]),
        r"no 'query' or 'text'; the columns",
    ),
    (lambda f: irpapers(f, answer="98_9"), r"irpapers-queries.csv, row 1: page '98_9' is not in the corpus"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_mistakes_have_their_file_and_row(root: Path, make: Callable[[Path], None], message: str) -> None:
    make(root)
    with pytest.raises(InputError, match=message):
        open_dataset(root)
    assert not list((root.parent / "cache").rglob("qrels.tsv"))  # nothing half done is kept


def test_names_are_explained(root: Path) -> None:
    root.mkdir()
    with pytest.raises(InputError, match="vidore-v2:biomedical, vidore-v2:economics"):
        open_dataset("vidore-v2", root)
    with pytest.raises(InputError, match="no subset 'bio'"):
        open_dataset("vidore-v2:bio", root)
    with pytest.raises(InputError, match="hf download --repo-type dataset vidore/esg_reports_v2"):
        open_dataset("vidore-v2:esg", root)
    with pytest.raises(InputError, match="is not a folder"):
        open_dataset("vidore-v9:esg", root)
    assert repository("irpapers") == "weaviate/IRPAPERS"
    assert len(BENCHMARKS) == 6


def test_damaged_parquet_is_an_error(root: Path) -> None:
    three_tables(root)
    (root / "qrels" / "test-00000-of-00001.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="not a parquet file"):
        open_dataset(root)


def test_the_command_prints_a_folder_for_vsplade_eval(root: Path) -> None:
    three_tables(root / "vidore" / "biomedical_lectures_v2")
    folder = unpack(HubOptions("vidore-v2:biomedical", root))
    assert len(load_dataset(folder).queries) == 2
