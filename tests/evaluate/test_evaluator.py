from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import Tokenizer, normalise
from vsplade.encode.units import ungrouped, units
from vsplade.errors import InputError, PageError
from vsplade.evaluate import (
    PageVectors,
    bm25_encoder,
    encode_texts,
    evaluate_dataset,
    load_dataset,
    read_page_texts,
)
from vsplade.types import Page, SparseVector, TermStatistics

from .conftest import TEXTS
from .exact import ExactSearch

MakeDataset = Callable[..., Path]
DATA = Path(os.environ.get("VSPLADE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "dev"


def write_texts(path: Path, texts: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in texts.items()))
    return path


def test_texts_are_searched_with_bm25(make_dataset: MakeDataset, tmp_path: Path) -> None:
    report = evaluate_dataset(make_dataset(), texts=write_texts(tmp_path / "t.jsonl", TEXTS))
    assert report.measures["ndcg@5"] == 1.0
    assert report.measures["recall@1"] == pytest.approx((1 + 0.5) / 2)
    assert set(report.run) == {"q1", "q2"}
    assert list(report.run["q2"]) == ["b", "c"]
    wanted = {
        "ndcg@5",
        "recall@1",
        "recall@5",
        "recall@100",
        "queries",
        "pages",
        "pages_per_s",
        "active_terms",
        "flops",
    }
    assert wanted <= set(report.to_json())
    assert (report.queries, report.pages, report.pages_per_s) == (2, 4, None)
    assert json.loads(json.dumps(report.to_json(per_query=True)))["per_query"]["recall@1"] == {
        "q1": 1.0,
        "q2": 0.5,
    }


def test_vectors_give_the_same_report_as_the_texts_they_came_from(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    folder, encoder = make_dataset(), TextEncoder()
    vectors = encode_texts(encoder, TEXTS)
    vectors.save(tmp_path / "v.npz")
    again = PageVectors.load(tmp_path / "v.npz")
    from_vectors = evaluate_dataset(folder, encoder, vectors=again)
    from_texts = evaluate_dataset(folder, encoder, texts=TEXTS)
    assert from_vectors.run == from_texts.run
    assert from_vectors.flops == from_texts.flops > 0


def test_a_smaller_or_larger_corpus_is_refused(make_dataset: MakeDataset) -> None:
    folder, encoder = make_dataset(), TextEncoder()
    three = {page: text for page, text in TEXTS.items() if page != "d"}
    with pytest.raises(InputError, match=r"1 of the 4 pages .* have no vector \(first: 'd'\)"):
        evaluate_dataset(folder, encoder, vectors=encode_texts(encoder, three))
    with pytest.raises(InputError, match="'e', which is not in"):
        evaluate_dataset(folder, encoder, vectors=encode_texts(encoder, {**TEXTS, "e": "more"}))
    with pytest.raises(InputError, match="'e', which is not in"):
        evaluate_dataset(folder, encoder, texts={**TEXTS, "e": "more"})
    with pytest.raises(InputError, match="not both"):
        evaluate_dataset(folder, encoder, vectors=encode_texts(encoder, TEXTS), texts=TEXTS)


def test_a_page_without_text_stays_in_the_corpus_and_is_mentioned(make_dataset: MakeDataset) -> None:
    report = evaluate_dataset(make_dataset(), texts={page: TEXTS[page] for page in "abc"})
    assert report.pages == 4
    assert report.notes == ("1 of 4 pages have no text (first: d)",)


def test_unanswerable_queries_are_mentioned_and_count_zero(make_dataset: MakeDataset) -> None:
    folder = make_dataset(
        queries='{"_id": "q1", "text": "green apples"}\n{"_id": "q2", "text": "..."}\n'
        '{"_id": "q3", "text": "sea"}\n',
        qrels="query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n",
    )
    report = evaluate_dataset(folder, texts=TEXTS)
    assert report.measures["ndcg@5"] == 0.5
    assert "1 query has no judgement: left out" in report.notes
    assert "1 query has no known term: zero" in report.notes


def test_damaged_vectors_are_refused(tmp_path: Path) -> None:
    (tmp_path / "v.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(InputError, match="does not hold page vectors"):
        PageVectors.load(tmp_path / "v.npz")
    np.savez(tmp_path / "w.npz", ids=np.array(["a"]), offsets=[0, 3], terms=[1], weights=[1.0])
    with pytest.raises(InputError, match="do not fit together"):
        PageVectors.load(tmp_path / "w.npz")
    with pytest.raises(InputError, match="Two pages have the id 'a'"):
        PageVectors.collect([("a", TextEncoder().encode_text("x"))] * 2)


def test_exact_search_equals_a_dense_product() -> None:
    rng = np.random.default_rng(1)
    dense = (rng.random((50, 40)) * (rng.random((50, 40)) < 0.2)).astype(np.float32)

    rows = [SparseVector(np.flatnonzero(r).astype(np.uint32), r[np.flatnonzero(r)]) for r in dense]
    vectors = PageVectors.collect((f"p{i:02}", row) for i, row in enumerate(rows))
    search = ExactSearch(vectors)
    query = SparseVector(np.array([0, 3, 7, 99], dtype=np.uint32), np.array([1, 0.5, 2, 9], dtype=np.float32))
    expected = dense[:, [0, 3, 7]].astype(np.float64) @ np.array([1, 0.5, 2])
    best = [(f"p{i:02}", expected[i]) for i in np.lexsort((np.arange(50), -expected)) if expected[i] > 0]
    found = search.search(query, 100)
    assert [page for page, _ in found] == [page for page, _ in best]
    assert [score for _, score in found] == pytest.approx([score for _, score in best])
    assert search.document_frequency(query.terms).tolist() == [
        *(np.count_nonzero(dense[:, [0, 3, 7]], axis=0)),
        0,
    ]


def pieces(text: str) -> list[int]:
    """The terms that BM25 counts, without those for words that stand together."""
    found = units(ungrouped(normalise(text)))
    return [term for unit in found for run in unit for term, _, _ in Tokenizer.load().spans(run)]


def bm25s_scores(texts: dict[str, str], queries: list[str]) -> list[dict[str, float]]:
    """bm25s' own scores over our tokens: the same formula, somebody else's code."""
    bm25s = pytest.importorskip("bm25s")
    model = bm25s.BM25(method="lucene", k1=1.2, b=0.75, dtype="float64")
    model.index([[str(t) for t in pieces(text)] for text in texts.values()], show_progress=False)
    results = []
    for query in queries:
        tokens = [t for t in map(str, pieces(query)) if t in model.vocab_dict]
        scores = model.get_scores(tokens) if tokens else np.zeros(len(texts))
        results.append(dict(zip(texts, scores.tolist(), strict=True)))
    return results


def check_against_bm25s(texts: dict[str, str], queries: list[str]) -> None:
    encoder = bm25_encoder(texts)
    search = ExactSearch(encode_texts(encoder, texts))
    for query, expected in zip(queries, bm25s_scores(texts, queries), strict=True):
        asked = encoder.encode_query(query, search)
        single = asked.terms < len(Tokenizer.load())
        found = dict(search.search(SparseVector(asked.terms[single], asked.weights[single]), len(texts)))
        # bm25s leaves out the constant factor k1 + 1, as Lucene does since version 8.
        scaled = {page: score * 2.2 for page, score in expected.items() if score > 0}
        assert found == pytest.approx(scaled, rel=1e-5)


def test_bm25_equals_bm25s() -> None:
    check_against_bm25s(TEXTS, ["steam engine engine", "green sea", "nothing-of-this-is-there zq"])


@pytest.mark.skipif(not DATA.is_dir(), reason="the dev sets are not here (set VSPLADE_DATA)")
@pytest.mark.parametrize(("name", "least"), [("mpdocvqa", 0.749), ("slidevqa", 0.798)])
def test_bm25_on_captions_reaches_the_published_baseline(name: str, least: float) -> None:
    report = evaluate_dataset(DATA / name, texts=DATA / name / "vlm_text.jsonl.gz")
    assert report.measures["ndcg@5"] >= least
    assert report.pages == {"mpdocvqa": 741, "slidevqa": 1285}[name]


def test_the_index_finds_what_exact_search_finds(make_dataset: MakeDataset) -> None:
    folder, encoder = make_dataset(), TextEncoder()
    vectors = encode_texts(encoder, TEXTS)
    exact = ExactSearch(vectors)
    report = evaluate_dataset(folder, encoder, vectors=vectors)
    for query, text in load_dataset(folder).queries.items():
        expected = exact.search(encoder.encode_query(text, exact), 100)
        assert list(report.run[query]) == [page for page, _ in expected]
        assert list(report.run[query].values()) == pytest.approx([score for _, score in expected])


@pytest.mark.skipif(not DATA.is_dir(), reason="the dev sets are not here (set VSPLADE_DATA)")
def test_bm25_equals_bm25s_on_real_captions() -> None:
    dataset = load_dataset(DATA / "mpdocvqa")
    texts = read_page_texts(DATA / "mpdocvqa" / "vlm_text.jsonl.gz")
    check_against_bm25s(texts, list(dataset.queries.values())[:200])


class DarkPixels:
    """Counts dark pixels: enough of an encoder to follow pages from file to score."""

    name, fingerprint, vocabulary, longest_edge = "dark", "dark-1", Tokenizer.load(), 60
    reads_grey = on_gpu = latin_only = False

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        batch = list(pages)  # takes all pages before it answers the first, as a batching encoder may
        for page in batch:
            dark = int((np.asarray(page.image.convert("L")) < 128).sum())
            yield SparseVector.from_dict({7: float(dark)})

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        return SparseVector.from_dict({7: 1.0})


def test_pages_are_rendered_and_encoded_in_order(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder = make_dataset()
    for page, dark in {"a": 10, "b": 30, "c": 20}.items():
        image = Image.new("L", (40, 60), 255)
        image.paste(0, (0, 0, dark, 10))
        image.save(folder / "images" / f"{page}.png")
    seen: list[tuple[int, int]] = []
    report = evaluate_dataset(
        folder,
        DarkPixels(),
        workers=1,
        progress=lambda done, total: seen.append((done, total)),
        keep_vectors=tmp_path / "v.npz",
    )
    assert list(report.run["q1"]) == ["b", "c", "a"]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert report.pages_per_s is not None
    assert report.pages_per_s > 0
    again = evaluate_dataset(folder, DarkPixels(), vectors=PageVectors.load(tmp_path / "v.npz"))
    assert again.run == report.run


def test_a_page_that_cannot_be_read_stops_the_evaluation(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    (folder / "images" / "c.png").write_bytes(b"not a picture")
    with pytest.raises(PageError, match=r"c\.png.*\w\. Repair"):
        evaluate_dataset(folder, DarkPixels(), workers=1)


def test_a_set_without_pages_needs_texts(make_dataset: MakeDataset) -> None:
    folder = make_dataset()
    for file in (folder / "images").iterdir():
        file.unlink()
    (folder / "images").rmdir()
    assert evaluate_dataset(folder, texts=TEXTS).measures["ndcg@5"] == 1.0
    with pytest.raises(PageError, match="neither images/ nor pdfs/"):
        evaluate_dataset(folder, "text")


EXAMPLES = Path(__file__).parents[2] / "examples"


def make_pdf_set(folder: Path, qrels: str) -> Path:
    (folder / "pdfs").mkdir(parents=True)
    for name in ("report", "slides", "table"):
        shutil.copy(EXAMPLES / f"{name}.pdf", folder / "pdfs")
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "maintenance of the turbine"}\n'
        '{"_id": "q2", "text": "dobsonian reflector mirror"}\n'
    )
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    return folder


def test_a_folder_of_pdfs_is_judged_page_by_page(tmp_path: Path) -> None:
    folder = make_pdf_set(tmp_path / "set", "q1\treport_2\t1\nq2\tslides_2\t1\n")
    report = evaluate_dataset(folder, "text", workers=1)
    assert report.pages == 8
    assert report.measures["recall@1"] == 1.0


def test_a_judged_page_beyond_the_end_of_a_pdf_is_named(tmp_path: Path) -> None:
    folder = make_pdf_set(tmp_path / "set", "q1\treport_2\t1\nq2\tslides_9\t1\n")
    with pytest.raises(InputError, match=r"qrels\.tsv, line 3: .*slides\.pdf has no page 9"):
        evaluate_dataset(folder, "text", workers=1)
