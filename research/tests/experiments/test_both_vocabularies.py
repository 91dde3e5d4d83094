"""Every experiment with a perfect and with a random vector, in the reader's vocabulary and in a cased one of
the paper's kind: the answers are known.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("tokenizers")

from research.experiments import (
    cases,
    flops,
    fusing,
    grounding,
    growth,
    lexicon,
    outputs,
    reranking,
    scale,
)
from research.experiments.behaviour import behaviour, query_subsets
from research.experiments.embeddings import Embeddings
from research.experiments.typeset_pages import write_pages
from vsplade.errors import InputError
from vsplade.evaluate import PageVectors, evaluate_dataset, load_dataset, measure
from vsplade.evaluate.dataset import Dataset
from vsplade.evaluate.runs import Run
from vsplade.search.index import Index
from vsplade.types import SparseVector

from .conftest import WORDS, Known


@pytest.fixture
def dataset(known: Known, tmp_path: Path) -> Dataset:
    """Each page is asked for by its own text."""
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for page in known.pages:
        Image.new("L", (8, 8), 255).save(folder / "images" / f"{page}.png")
    queries = [f'{{"_id": "q{page}", "text": "{text}"}}' for page, text in known.pages.items()]
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{page}\t{page}\t1" for page in known.pages)]
    (folder / "qrels.tsv").write_text("\n".join(qrels) + "\n")
    return load_dataset(folder)


def test_grounding(known: Known) -> None:
    terms = sorted(set(lexicon.text_terms(known)(" ".join(WORDS) + " 0123456789 ABCDEFGHIJKLMNOPQRSTUVWXYZ")))
    half = {"p": "".join(f"{word} " for word in WORDS)}
    inside = set(lexicon.text_terms(known)(half["p"]))
    both = SparseVector.from_dict(dict.fromkeys(terms, 1.0))
    table = grounding.grounding(
        known, half,
        {"perfect": lexicon.encode_texts(known, half), "more": PageVectors.collect([("p", both)]),
         "random": PageVectors.collect([("p", next(iter(known.random())))])},
    )  # fmt: skip
    for top in grounding.TOPS:
        assert table["perfect"][f"top-{top}"] == pytest.approx(min(len(inside), top) / top, abs=1e-4)
        heaviest = terms[:top]  # equal weights: the smaller term first
        assert table["more"][f"top-{top}"] == pytest.approx(len(inside & set(heaviest)) / top, abs=1e-4)
    chance = len(inside) / len(known.vocabulary)
    assert table["random"]["top-100"] == pytest.approx(chance, abs=0.1)
    with pytest.raises(InputError, match="cannot be looked up"):
        grounding.grounding(Odd(), half, {})


class Odd(Known):
    """An encoder whose vocabulary nobody knows, and which reads no texts."""

    encode_text = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.name = "odd"
        self.vocabulary = ("a", "b")  # type: ignore[assignment]


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(InputError, match="'odd' reads pictures and not texts"):
        lexicon.encode_text(Odd(), "words")
    with pytest.raises(InputError, match="cannot be looked up in the vocabulary of the encoder 'odd'"):
        lexicon.stop_terms(Odd())


def test_stop_words(known: Known) -> None:
    stop = lexicon.stop_terms(known)
    if known.name == "uncased":
        assert len(stop) == 33
    else:  # of this small vocabulary "a" is one term, in both cases, and " to", the beginning of " total"
        terms = lexicon.text_terms(known)
        assert stop == {terms("a")[0], terms("A")[0], terms(" to")[0]}


def test_behaviour(known: Known, dataset: Dataset) -> None:
    found = behaviour(dataset, known, known.perfect())
    assert found["ndcg@5"] == 1.0
    assert found["stop words a page"] == 1.0
    assert found["stop words' share of matched terms"] == 0.5
    assert found["active terms a page"] == 2.0
    assert found["margin of the first over the second"] == 1.0
    chance = behaviour(dataset, known, known.random())
    assert float(str(chance["ndcg@5"])) < 0.5


def test_union(known: Known, dataset: Dataset) -> None:
    perfect, chance = known.perfect(), known.random()
    found = grounding.union_analysis(dataset, known, perfect, perfect)
    assert (found["hit@1, image"], found["hit@1, union"], found["disjoint"]) == (1.0, 1.0, 0.0)
    mixed = grounding.union_analysis(dataset, known, chance, perfect)
    assert mixed["hit@1, caption"] == 1.0
    assert float(str(mixed["hit@1, image"])) < 0.5
    assert float(str(mixed["disjoint"])) > 0.5


def test_subsets_flops_growth_and_scale(known: Known, dataset: Dataset) -> None:
    perfect, chance = (evaluate_dataset(dataset, known, vectors=v) for v in (known.perfect(), known.random()))
    rows = query_subsets(dataset, {"perfect": perfect.run, "random": chance.run})
    assert rows[-1]["perfect"] == 1.0
    assert rows[-1]["gap"] == pytest.approx(1 - chance.measures["recall@5"], abs=1e-3)
    assert rows[-1]["gap/all"] == 1.0
    # each query shares its own word with one page of twelve, and the stop word with all
    assert perfect.flops == pytest.approx(1 + 1 / 12)
    assert flops.serving_table(perfect.flops, 2)[0].total == pytest.approx(1000 * (1 + 1 / 12), rel=1e-3)
    others = PageVectors.collect((f"x{page}", vector) for page, vector in known.random().items())
    grown = growth.recall_as_it_grows(dataset, known, known.perfect(), others, [12, 24])
    assert [row["recall@100"] for row in grown] == [1.0, 1.0]
    assert grown[0]["recall@5"] == 1.0
    for row in scale.two_stage(dataset, known, known.perfect()):
        assert row["recall@5"] == 1.0


def test_fusion_by_the_best_weight(known: Known, dataset: Dataset) -> None:
    perfect, chance = (evaluate_dataset(dataset, known, vectors=v) for v in (known.perfect(), known.random()))
    rows = fusing.fusion_at_scale(dataset, {"sparse": perfect.run, "dense": chance.run, "other": chance.run})
    assert [row["fusion"] for row in rows[::2]] == ["sparse + dense", "sparse + other", "dense + other"]
    first = rows[0]
    assert (first["measure"], first["first"], first["fused"], first["gain"]) == ("recall@5", 1.0, 1.0, 0.0)
    assert rows[4]["gain"] == 0.0  # two of a kind
    assert float(str(rows[4]["fused"])) < 1
    with pytest.raises(InputError, match="at least twice"):
        fusing.fusion_at_scale(dataset, {"sparse": perfect.run})


def test_reranking_reaches_the_ceiling_and_no_more(known: Known, dataset: Dataset) -> None:
    perfect, chance = (evaluate_dataset(dataset, known, vectors=v) for v in (known.perfect(), known.random()))

    def knows_all(run: Run) -> Run:
        return {query: {page: float(f"q{page}" == query) for page in pages} for query, pages in run.items()}

    right, poor = reranking.reranking(dataset, {"perfect": perfect.run, "random": chance.run}, knows_all)
    assert (right["recall@5"], right["recall@5, reranked"], right["recall@100"]) == (1.0, 1.0, 1.0)
    assert (
        float(str(poor["recall@5"]))
        <= float(str(poor["recall@5, reranked"]))
        <= float(str(poor["recall@100"]))
    )
    assert poor["recall@5, reranked"] == poor["recall@100"]


def test_token_cases_show_what_the_page_hides(known: Known, dataset: Dataset) -> None:
    """One page weighs its own word little, the caption much: it is the clearest case."""
    hidden = next(iter(known.pages))
    word = lexicon.text_terms(known)(known.pages[hidden])[-1]
    vectors = PageVectors.collect(
        (page, SparseVector(v.terms, np.where((v.terms == word) & (page == hidden), 0.1, v.weights)))
        for page, v in known.perfect().items()
    )
    (case,) = cases.token_cases(dataset, known, vectors, known.pages, count=1)
    assert case["page"] == hidden
    assert case["P*"] == [[known.vocabulary.token(word), pytest.approx(0.1)]]
    assert [known.vocabulary.token(word), 1.0] in case["C"]
    assert str(case["picture"]).startswith("data:image/jpeg;base64,")


def test_growth_by_samples_of_one_index(known: Known, dataset: Dataset, tmp_path: Path) -> None:
    others = [(f"x{n}/{page}", vector) for n in range(20) for page, vector in known.random().items()]
    scale.write_index(tmp_path / "index", known, [*known.perfect().items(), *others])
    index = Index.open(tmp_path / "index", known)
    rows = growth.recall_in_samples(dataset, index, [60, len(index)])
    assert [row["recall@5"] for row in rows] == [1.0, 1.0]
    assert [row["short"] for row in rows] == [0, 0]
    with pytest.raises(InputError, match="between 1 and the index's"):
        growth.recall_in_samples(dataset, index, [10**6])
    table = scale.search_table(dataset, known, tmp_path / "index", (1, 2))
    assert [row["recall@5"] for row in table] == [1.0, 1.0, 1.0]
    assert all({"ms, 1 threads", "ms, 2 threads", "query_encoding_ms"} <= row.keys() for row in table)


def test_dense_search_of_perfect_and_random_rows(known: Known, dataset: Dataset) -> None:
    pytest.importorskip("faiss")
    pages, queries = tuple(known.pages), tuple(f"q{page}" for page in known.pages)
    own, rng = np.eye(len(pages), 16, dtype=np.float32), np.random.default_rng(0)
    right = Embeddings(pages, own, queries, own, 0.5)
    chance = Embeddings(pages, rng.normal(size=own.shape).astype(np.float32), queries, own)
    assert [row["recall@5"] for row in scale.dense_table(dataset, right)] == [1.0, 1.0]
    assert all(float(str(row["recall@5"])) < 0.9 for row in scale.dense_table(dataset, chance))
    others = Embeddings.joined([Embeddings(pages, 0.1 * own, queries, own)])
    rows = growth.dense_as_it_grows(dataset, right, others, [12, 24])
    assert [row["recall@5"] for row in rows] == [1.0, 1.0]
    with pytest.raises(InputError, match="dense vectors of 24 pages"):
        growth.dense_as_it_grows(dataset, right, others, [12, 25])


def test_other_systems_by_their_output(known: Known, dataset: Dataset, tmp_path: Path) -> None:
    """As D2S, Anserini and a late-interaction model write them."""
    bags = {page: dict.fromkeys(text.split() or [text], 1.0) for page, text in known.pages.items()}
    if known.name == "cased":
        bags = {page: dict.fromkeys(text, 1.0) for page, text in known.pages.items()}
    rows = [json.dumps({"docno": page, "toks": bag}) for page, bag in bags.items()]
    (tmp_path / "pages.jsonl").write_text("\n".join(rows) + "\n")
    rows = [json.dumps({"id": f"q{page}", "vector": bag}) for page, bag in bags.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(rows) + "\n")
    terms: dict[str, int] = {}
    pages, queries = (outputs.read_sparse(tmp_path / f"{name}.jsonl", terms) for name in ("pages", "queries"))
    run, cost = outputs.sparse_run(dataset, pages, queries)
    assert measure(dataset.qrels, run, ["ndcg@5"])["ndcg@5"] == 1.0
    assert cost == pytest.approx(1 + 1 / 12)
    eye = np.eye(len(bags), dtype=np.float32)
    np.savez(tmp_path / "p.npz", **{page: eye[n : n + 1].repeat(2, 0) for n, page in enumerate(bags)})
    np.savez(tmp_path / "q.npz", **{f"q{page}": eye[n] for n, page in enumerate(bags)})
    late = outputs.dense_run(dataset, *(outputs.read_dense(tmp_path / f"{name}.npz") for name in "pq"))
    assert measure(dataset.qrels, late, ["ndcg@5"])["ndcg@5"] == 1.0
    (tmp_path / "odd.jsonl").write_text('{"id": "a", "text": "b"}\n')
    with pytest.raises(InputError, match="line 1: expected an id"):
        outputs.read_sparse(tmp_path / "odd.jsonl", {})
    with pytest.raises(InputError, match="no vector of the query"):
        outputs.sparse_run(dataset, pages, {})


def test_texts_become_pages_with_the_same_words(tmp_path: Path) -> None:
    from research.experiments.knownitem import page_texts
    from vsplade.evaluate import read_page_texts

    long = " ".join(f"{word} \u201cquoted\u201d \u4e2d 42% of it;" for word in WORDS * 40)
    assert write_pages(tmp_path / "set", [long, "too short", long.upper()], 5) == 2
    dataset = load_dataset(tmp_path / "set")
    layers = page_texts(dataset.files)
    given = read_page_texts(tmp_path / "set" / "texts.jsonl", None)
    assert {page: text.split() for page, text in given.items()} == {
        page: text.split() for page, text in layers.items()
    }
    assert 200 < len(given["text00000_1"].split()) < len(long.split())  # cut at the page's end
    with pytest.raises(InputError, match="No text has 50 words"):
        write_pages(tmp_path / "none", ["few words"], 5)
