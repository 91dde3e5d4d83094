from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.conftest import TEXTS
from tests.evaluate.sighted import Sighted

from research.experiments import flops, growth
from research.experiments.behaviour import (
    SUBSETS,
    behaviour,
    margins,
    mask_queries,
    query_subsets,
)
from research.experiments.grounding import gate, grounding, union, union_analysis
from research.experiments.knownitem import known_items
from research.experiments.lexicon import encode_text, only_words, stop_terms
from research.experiments.scale import dense_latency, two_stage
from vsplade.encode import load_encoder
from vsplade.encode.text import TextEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.evaluate import PageVectors, encode_texts, load_dataset, write_run
from vsplade.types import Encoder, SparseVector

MakeDataset = Callable[..., Path]


@cache
def reader() -> Encoder:
    return load_encoder("reader")


def weigh_text(text: str) -> SparseVector:
    return only_words(encode_text(reader(), text), reader())


def weigh_texts(texts: dict[str, str]) -> PageVectors:
    return PageVectors.collect((page, weigh_text(text)) for page, text in texts.items())


def vector(**weights: float) -> SparseVector:
    tokenizer = Tokenizer.load()
    return SparseVector.from_dict({tokenizer.encode(word)[0]: weight for word, weight in weights.items()})


def test_kinds_of_queries() -> None:
    kinds = {
        text: [name for name, belongs in SUBSETS.items() if belongs(text)]
        for text in ("What is it", "what is NASA", "In 1999", "What did IBM sell in 1999")
    }
    assert kinds["What is it"] == ["all"]
    assert kinds["what is NASA"] == ["has uppercase", "all"]
    assert kinds["In 1999"] == ["has digit", "all"]
    assert kinds["What did IBM sell in 1999"] == ["has digit", "has uppercase", "both", "all"]


def test_subsets_by_hand(make_dataset: MakeDataset) -> None:
    queries = '{"_id": "q1", "text": "pages of 1999"}\n{"_id": "q2", "text": "steam"}\n'
    dataset = load_dataset(make_dataset(queries=queries))
    rows = query_subsets(dataset, {"mine": {"q1": {"a": 1.0}}, "none": {}})
    by_name = {row["subset"]: row for row in rows}
    assert by_name["has digit"] == {
        "subset": "has digit", "share": 0.5, "mine": 1.0, "none": 0.0, "gap": 1.0, "gap/all": 2.0,
    }  # fmt: skip
    assert by_name["all"]["mine"] == 0.5
    assert by_name["all"]["gap/all"] == 1.0
    assert by_name["both"]["share"] == 0.0


def test_masking_takes_the_heavier_half() -> None:
    class Fixed(Sighted):
        def encode_query(self, text: str, statistics: object = None) -> SparseVector:
            return vector(turbine=3.0, steam=2.0, engine=1.0)

    kept = mask_queries(Fixed())("any", None)
    wanted = vector(steam=2.0, engine=1.0)
    assert kept.terms.tolist() == wanted.terms.tolist()
    assert kept.weights.tolist() == wanted.weights.tolist()


def test_margins_by_hand() -> None:
    absolute, relative = margins(
        {"a": {"x": 4.0, "y": 3.0, "z": 1.0}, "b": {"x": 2.0, "y": 1.0}, "c": {"x": 9.0}}
    )
    assert (absolute, relative) == (pytest.approx(1.0), pytest.approx((0.25 + 0.5) / 2))
    assert margins({}) == (0.0, 0.0)


def test_behaviour_counts_stop_words(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    encoder = TextEncoder()
    report = behaviour(dataset, encoder, encode_texts(encoder, TEXTS))
    assert len(stop_terms(encoder)) == len(stop_terms(reader())) == 33
    # "and" on page a, "a" on b, "the" on c, none on d
    assert report["stop words a page"] == pytest.approx(0.75)
    assert report["stop words' share of matched terms"] == 0.0
    assert float(str(report["change"])) <= 0


def test_grounding_by_hand() -> None:
    views = {
        "right": PageVectors.collect([("p", vector(turbine=2.0, steam=1.0))]),
        "half": PageVectors.collect([("p", vector(turbine=1.0, apples=2.0))]),
    }
    table = grounding(reader(), {"p": "steam turbine"}, views)
    assert table["right"]["top-30"] == pytest.approx(2 / 30, abs=1e-4)
    assert table["half"]["top-50"] == pytest.approx(1 / 50, abs=1e-4)
    gated = gate(views["right"], views["half"])
    assert next(iter(gated)).weights.tolist() == [2.0]


def test_grounding_asks_for_words_and_not_for_pairs_of_them() -> None:
    text = "interest rate of the steam turbine"
    page = encode_text(reader(), text)
    heavy = SparseVector(page.terms, page.weights + (page.terms >= len(Tokenizer.load())))  # pairs first
    assert len(only_words(heavy, reader())) < len(heavy)
    table = grounding(reader(), {"p": text}, {"image": PageVectors.collect([("p", heavy)])})
    assert table["image"]["top-30"] == pytest.approx(6 / 30, abs=1e-4)


def test_texts_have_pairs_as_pages_of_the_reader_do() -> None:
    page = set(encode_text(reader(), "The interest rate of the bank").terms.tolist())
    apart = set(encode_text(reader(), "The rate, of interest to the bank").terms.tolist())
    asked = set(reader().encode_query("interest rate").terms.tolist())
    pairs = {term for term in asked if term >= len(Tokenizer.load())}
    assert len(pairs) == 1
    assert pairs <= page
    assert not pairs & apart
    words = encode_text(load_encoder("reader:point=efficient"), "The interest rate of the bank").terms
    assert len(words) > 0
    assert words.max() < len(Tokenizer.load())


def test_union_keeps_the_larger_weight() -> None:
    joined = union(vector(turbine=1.0, steam=5.0), vector(turbine=2.0, apples=3.0))
    assert sorted(joined.weights.tolist()) == [2.0, 3.0, 5.0]
    assert np.all(np.diff(joined.terms.astype(int)) > 0)


def test_union_of_views_finds_what_either_knows(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    image = weigh_texts({"a": "green apples", "b": "zebra", "c": "zebra", "d": "zebra"})
    caption = weigh_texts({"a": "zebra", "b": "steam engine", "c": "engine", "d": "zebra"})
    found = union_analysis(dataset, Sighted(), image, caption)
    assert (found["hit@1, image"], found["hit@1, caption"], found["hit@1, union"]) == (0.5, 0.5, 1.0)
    assert found["disjoint"] == pytest.approx(0.75)


def test_weights_of_texts_saturate() -> None:
    few, many = weigh_text("turbine " + "word " * 99), weigh_text("turbine " * 50 + "word " * 50)
    term = Tokenizer.load().encode("turbine")[0]
    assert 0 < few.weights[list(few.terms).index(term)] < many.weights[list(many.terms).index(term)] < 1


def test_recall_falls_as_the_corpus_grows(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    judged = weigh_texts(TEXTS)
    others = weigh_texts({str(n): f"green steam engine apples {n}" for n in range(6)})
    rows = growth.recall_as_it_grows(dataset, Sighted(), judged, others, [4, 10, 40])
    assert [row["pages"] for row in rows] == [4, 10, 40]
    assert [row["generated"] for row in rows] == [0, 0, 30]
    assert float(str(rows[0]["recall@5"])) >= float(str(rows[-1]["recall@5"]))
    with pytest.raises(InputError, match="must grow"):
        growth.recall_as_it_grows(dataset, Sighted(), judged, others, [10, 4])
    (small,) = growth.recall_as_it_grows(dataset, Sighted(), judged, others, [3])  # without page d
    assert small["pages"] == 3
    with pytest.raises(InputError, match="at least the 3 relevant pages"):
        growth.recall_as_it_grows(dataset, Sighted(), judged, others, [2])


def test_extrapolation_is_a_line_over_the_logarithm() -> None:
    rows: list[dict[str, object]] = [{"pages": 100, "recall@5": 0.9}, {"pages": 10_000, "recall@5": 0.7}]
    assert growth.extrapolate(rows, 1_000_000) == pytest.approx(0.5)
    assert growth.extrapolate(rows, 1e30) == 0.0


def test_flops_by_hand() -> None:
    tiny = flops.Transformer(layers=2, width=4, hidden=8, output=3)
    attention, feed = 4 * 5 * 16 + 2 * 25 * 4, 2 * 5 * 4 * 8
    assert tiny.operations(5) == 2 * (attention + feed) + 5 * 4 * 3
    assert flops.sparse("s", 1.9).total == pytest.approx(1900)
    assert flops.late_interaction("l", tiny, 5, 10, 3, pages=7).score == 5 * 10 * 3 * 7


def test_flops_formula_agrees_with_fvcore() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("fvcore")
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    shape = flops.Transformer(layers=3, width=64, hidden=128)
    for tokens in (8, 32):
        counted = flops.counted(model, (torch.ones(1, tokens, dtype=torch.long),))
        # fvcore also counts layer norms; the formula does not
        assert shape.operations(tokens) == pytest.approx(counted, rel=0.03)


def test_two_stage_with_all_terms_is_exact(make_dataset: MakeDataset) -> None:
    dataset = load_dataset(make_dataset())
    measures = ("recall@5", "recall@100", "ndcg@5")
    full, *stages = two_stage(dataset, Sighted(), weigh_texts(TEXTS), terms=50)
    assert len(stages) == 2
    assert all([row[name] for name in measures] == [full[name] for name in measures] for row in stages)
    _, poor, plain = two_stage(
        dataset, Sighted(), weigh_texts({**TEXTS, "a": "pears pears green apples"}), terms=1
    )
    assert float(str(poor["recall@5"])) < float(str(full["recall@5"]))
    assert float(str(plain["recall@5"])) < float(str(full["recall@5"]))


def test_dense_latency_is_measured() -> None:
    pytest.importorskip("faiss")
    row = dense_latency(200, width=16, kind="hnsw", queries=3)
    assert float(str(row["ms"])) > 0


def test_known_items_are_on_one_page_only() -> None:
    names = ("london", "paris", "berlin", "madrid", "vienna")
    texts = {
        name: " ".join(f"steam engine of {name} turns wheel {m} slowly in {name}" for m in range(40))
        for name in names
    }
    texts["scan"] = ""
    pairs = known_items(texts, 20)
    tokenizer = Tokenizer.load()
    bags = {page: set(tokenizer.encode(text)) for page, text in texts.items()}
    assert pairs == known_items(texts, 20)
    assert pairs
    for query, page in pairs:
        assert [other for other, bag in bags.items() if set(tokenizer.encode(query)) <= bag] == [page]
    with pytest.raises(InputError, match="text layer"):
        known_items({"a": "", "b": "few words"}, 5)


def test_the_program(make_dataset: MakeDataset, tmp_path: Path) -> None:
    folder = make_dataset()
    write_run(tmp_path / "a.run", {"q1": {"a": 1.0}})
    command = [sys.executable, "-m", "research.experiments", "subsets", str(folder)]
    done = subprocess.run(
        [*command, "--run", f"x={tmp_path / 'a.run'}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["rows"][-1] == {"subset": "all", "share": 1.0, "x": 0.5}
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "give --run NAME=FILE" in failed.stderr
