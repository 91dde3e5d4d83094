"""Learning query weights: filler words of questions lose weight, what tells pages apart keeps it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning weights needs torch: pip install 'vsplade[train]'")

from research.reader.options import RetrievalOptions
from research.reader.pairs import Bags, ask_about_pdfs, read_pairs
from research.reader.retrieval import TermTable, hard_negatives, train_retrieval
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError

SUBJECTS = [
    "harbour",
    "lighthouse",
    "barge",
    "grain",
    "quay",
    "tobacco",
    "sulphur",
    "anchor",
    "orchard",
    "violin",
    "glacier",
    "saddle",
]


def pairs(folder: Path) -> Path:
    """Every question asks for one subject, in words that no page holds or that stand on just any page."""
    path = folder / "pairs.jsonl.gz"
    with gzip.open(path, "wt") as file:
        for number, subject in enumerate(SUBJECTS):
            text = f"the {subject} speaks of money" + (" in a report" if number % 2 else "")
            for question in (f"which {subject} is mentioned", f"is the {subject} pictured in the report"):
                file.write(json.dumps({"query": question, "text": text}) + "\n")
    return path


def prior(folder: Path) -> Path:
    np.save(folder / "prior.npy", np.full(len(Tokenizer.load()), 5.0, np.float32))
    return folder / "prior.npy"


def learn(folder: Path, **settings: object) -> dict[str, float]:
    given = {"pairs": (pairs(folder),), "steps": 150, "batch": 12, "rate": 0.05, **settings}
    options = RetrievalOptions(prior=prior(folder), out=folder / "query.npy", **given)  # type: ignore[arg-type]
    result = train_retrieval(options, say=lambda line: None)
    assert result["questions"] == 2 * len(SUBJECTS)
    table, tokenizer = np.load(folder / "query.npy"), Tokenizer.load()
    assert table.shape == (len(tokenizer),)
    return {w: float(table[tokenizer.encode(w)[0]]) for w in [*SUBJECTS, "report", "mentioned", "volcano"]}


def test_words_that_do_not_tell_pages_apart_lose_weight(tmp_path: Path) -> None:
    weights = learn(tmp_path)
    assert weights["report"] < 0.7 * min(weights[subject] for subject in SUBJECTS)
    assert weights["volcano"] == pytest.approx(5.0, rel=0.35), "never asked for: about as before"


def test_the_gate_lowers_words_that_no_answering_page_holds(tmp_path: Path) -> None:
    without, gated = learn(tmp_path, gate=0.0), learn(tmp_path, gate=1.0)
    assert gated["mentioned"] < 0.7 * without["mentioned"]
    assert gated["harbour"] > gated["mentioned"]


def test_flops_lower_what_is_asked_for_often(tmp_path: Path) -> None:
    assert learn(tmp_path, flops=1.0)["report"] < learn(tmp_path, flops=0.0)["report"]


def test_the_same_seed_learns_the_same(tmp_path: Path) -> None:
    assert learn(tmp_path, steps=5) == learn(tmp_path, steps=5)


def test_all_the_say_to_pdfs_that_are_not_there(tmp_path: Path) -> None:
    assert learn(tmp_path, steps=5, pdf_share=1.0) == learn(tmp_path, steps=5, pdf_share=0.5)


def test_an_untrained_table_is_the_power_of_idf() -> None:
    idf = np.linspace(0.5, 9, len(Tokenizer.load())).astype(np.float32)
    table = TermTable(idf).table()
    assert (np.diff(table) > 0).all()
    assert table[-1] == pytest.approx(9**1.25, rel=0.01)


def test_hard_negatives_are_the_pages_most_like_the_answer(tmp_path: Path) -> None:
    lines = [("red barge anchor", "red barge anchor"), ("-", "red barge"), ("-", "green orchard violin")]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"query": f"{q} x", "text": t}) + "\n" for q, t in lines))
    source = read_pairs(path, ())
    found = hard_negatives(source, np.full(len(Tokenizer.load()), 5.0, np.float32))
    assert source.answer[0] not in found[0]
    assert found.shape == (3, 2)
    assert set(found[0].tolist()) == {1, 2}


def test_rows_become_dense_in_the_order_of_the_columns() -> None:
    bags = Bags.of([{3: 1.0, 7: 0.5}, {}, {7: 2.0}])
    dense = bags.dense(np.array([2, 0, 1]), np.array([7, 3]), 10)
    assert dense.tolist() == [[2.0, 0.0], [0.5, 1.0], [0.0, 0.0]]


def test_tables_are_found_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"query": "which ship", "table": "t1"}) + "\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"_id": "t1", "tsv": "ship\tyear\nAurora\t1901"}) + "\n")
    source = read_pairs(tmp_path / "q.jsonl", [tmp_path / "t.jsonl"])
    assert set(Tokenizer.load().encode("ship year aurora 1901")) == set(source.pages.terms.tolist())
    with pytest.raises(InputError, match=r"q\.jsonl.*known table"):
        read_pairs(tmp_path / "q.jsonl", ())


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{]\n")
    with pytest.raises(InputError, match="line 1: not JSON"):
        read_pairs(tmp_path / "bad.jsonl", ())
    with pytest.raises(InputError, match="does not exist"):
        read_pairs(tmp_path / "none.jsonl", ())
    with pytest.raises(InputError, match="nothing to learn from"):
        train_retrieval(RetrievalOptions(prior(tmp_path), tmp_path / "q.npy"), say=print)
    np.save(tmp_path / "short.npy", np.ones(3))
    with pytest.raises(InputError, match="query_table"):
        train_retrieval(RetrievalOptions(tmp_path / "short.npy", tmp_path / "q.npy"), say=print)
    with pytest.raises(InputError, match="no table"):
        train_retrieval(RetrievalOptions(tmp_path / "none.npy", tmp_path / "q.npy"), say=print)
    with pytest.raises(InputError, match="'steps' must be above 0"):
        RetrievalOptions(tmp_path / "short.npy", tmp_path / "q.npy", steps=0)


def test_pdfs_without_text_are_not_asked_about(tmp_path: Path) -> None:
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    document.new_page(200, 200)
    document.save(str(tmp_path / "blank.pdf"))
    (tmp_path / "note.txt").write_text("no PDF")
    source = ask_about_pdfs(tmp_path, each=2, seed=0)
    assert len(source.pages) == len(source.questions) == 0
