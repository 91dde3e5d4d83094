"""Queries that are made of passages, passages that are worn, and queries that nothing may learn from."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from research.meaning import prepare
from research.meaning.options import TeachOptions
from research.meaning.synonyms import read
from research.meaning.teach import chosen_passages, chosen_queries
from research.meaning.train import DEVICE, Options, worn
from research.tests.meaning.conftest import SYNONYMS, TEXT


def test_nothing_learns_from_queries_for_research_only(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row["q"] for row in prepare.asked(work)] == [f"free question {n}" for n in range(5)]
    taught = chosen_queries(TeachOptions(work, work, headwords=4, glosses=4), random.Random(0))
    assert {f"free question {n}" for n in range(5)} <= set(taught)
    assert not [query for query in taught if "secret" in query]
    texts: list[str] = []

    def kept(folder: Path, given: list[str], size: int) -> object:
        texts.extend(given)
        return torch.zeros(0).numpy()

    monkeypatch.setattr(prepare, "teacher_tokens", kept)
    prepare.main(work)
    assert "free question 3" in texts
    assert not [text for text in texts if "secret question" in text]


def test_the_mix_has_all_kinds_and_no_query_twice(work: Path) -> None:
    options = TeachOptions(work, work, spans=40, headwords=4, glosses=4)
    taught = chosen_queries(options, random.Random(0))
    assert len(taught) == len(set(taught))
    assert sum(query.startswith("word ") for query in taught) == 4
    assert sum(query.startswith("a gloss") for query in taught) == 4
    assert len(taught) > 13 + 20
    assert taught == chosen_queries(options, random.Random(0))
    assert len(chosen_passages(work, 12, random.Random(0))) == 12


def test_exchanged_words_are_synonyms() -> None:
    words = ["a", "Big,", "house", "on", "the", "hill"] * 30
    found = prepare.exchanged(words, SYNONYMS, random.Random(0))
    assert len(found) == len(words)
    changed = [(old, new) for old, new in zip(words, found, strict=True) if old != new]
    assert {old for old, _ in changed} == {"Big,", "house"}
    assert {new for _, new in changed} == {"large", "great", "building"}
    assert 0.4 < len(changed) / 60 < 0.9


def test_made_queries_are_runs_of_the_passage() -> None:
    framed = [frame.split("{}")[0] for frame in prepare.FRAMES]
    plain = 0
    for number in range(50):
        queries = prepare.made_queries((number, TEXT), {})
        assert len(queries) == prepare.SPANS
        assert queries == prepare.made_queries((number, TEXT), {})
        for query in queries:
            assert query in TEXT or query.startswith(tuple(start for start in framed if start))
            plain += query in TEXT
    assert 0.5 < plain / 250 < 0.9


def test_worn_passages_lose_and_mistake_words() -> None:
    torch.manual_seed(0)
    terms, options = 1000, Options(lost=0.2, mistaken=0.2)
    tokens = torch.randint(terms, (200, 50), device=DEVICE)
    tokens[:, 40:] = terms  # padding
    found, certainty = worn(tokens, terms, options)
    there = found != terms
    assert found.shape == certainty.shape == tokens.shape
    assert (there.int().diff(dim=1) <= 0).all()  # no gap: padding only at the end
    assert 25 < there.sum(1).float().mean() < 38
    assert ((certainty > 0) & (certainty <= 1)).all()
    same, sure = worn(tokens, terms, Options(lost=0.0, mistaken=0.0))
    assert torch.equal(same, tokens)
    assert certainty[there].mean() < sure[tokens != terms].mean()


def test_the_thesaurus(tmp_path: Path) -> None:
    path = tmp_path / "th.dat"
    path.write_text(
        "UTF-8\nbig|2\n(adj)|large|small (antonym)\n(adj)|great (similar term)|big\nin fact|1\n(adv)|really\n"
    )
    assert read(path) == {"big": ["large", "great"]}
