"""Queries that are made of passages, passages that are worn, and queries that nothing may learn from."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from research.meaning import prepare
from research.meaning.synonyms import read
from research.meaning.texts import chosen_passages, chosen_queries
from research.meaning.tokens import as_read
from research.meaning.wear import Wear
from research.tests.meaning.conftest import SPECIAL, SYNONYMS, TEXT
from vsplade.encode.meaning.wordpiece import WordPiece


def test_nothing_learns_from_queries_for_research_only(work: Path) -> None:
    assert [row["q"] for row in prepare.asked(work)] == [f"free question {n}" for n in range(5)]
    taught, _, kinds = chosen_queries(work, [TEXT], [], random.Random(0))
    assert taught[: kinds[0]] == [f"free question {n}" for n in range(5)]
    assert not [query for query in taught if "secret" in query]


def test_the_mix_has_all_kinds_and_no_query_twice(work: Path) -> None:
    passages, of_texts = chosen_passages(work, 12, random.Random(0))
    assert len(passages) == of_texts == 12
    queries, own, kinds = chosen_queries(work, passages, ["bellyache"], random.Random(0))
    assert len(queries) == len(set(queries)) == len(own) == sum(kinds)
    natural, known, made = np.split(np.array(queries), np.cumsum(kinds)[:-1])
    assert len(natural) == 5
    assert sum("bellyache" in query for query in known) == 2
    assert sum(query.startswith("word ") for query in known) == 8
    assert sum(query.startswith("a gloss") for query in known) == 8
    assert len(made) > 30
    assert set(own[: sum(kinds[:2])]) == {-1}
    assert set(own[sum(kinds[:2]) :]) == set(range(12))
    assert (queries, own, kinds) == chosen_queries(work, passages, ["bellyache"], random.Random(0))


def test_passages_are_as_the_reader_gives_them() -> None:
    pieces = WordPiece([*SPECIAL, "a", "big", "house", ",", "."])
    flat = [pieces.start, *pieces.encode("A big, big house."), pieces.end, pieces.start, pieces.end]
    found = as_read(np.array(flat), np.array([len(flat) - 2, 2]), pieces)
    assert found.tolist() == [[104, 105, 105, 106], [0, 0, 0, 0]]


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


def test_scraps_of_a_page_are_the_passage_s_own_words() -> None:
    text = "The mill was built in 1820. It stood by the river, far from town. Nobody ever went there again."
    found = [prepare.like_a_page(text, random.Random(seed)) for seed in range(200)]
    assert len(set(found)) > 150
    known = {word.strip(".,") for word in text.split()}
    strange = [word for one in found for word in one.split() if word.strip(".,") not in known]
    assert strange
    assert all(any(c.isdigit() for c in word) or word.strip(".") == "million" for word in strange)
    assert sum(map(len, found)) / len(found) < 0.8 * len(text)


START, END = 101, 102


def test_worn_passages_lose_and_mistake_words() -> None:
    torch.manual_seed(0)
    padding = 3000
    inside = torch.zeros(padding + 1, dtype=torch.bool)
    inside[2500:] = True
    wear, tokens = Wear(inside, START, END), torch.randint(1000, 2400, (400, 50))
    tokens[:, 40:] = 0
    whole = wear(tokens, much=0)
    assert torch.equal(whole[:, 1:41], tokens[:, :40])
    assert (whole[:, 0] == START).all()
    assert (whole[:, 41] == END).all()
    found = wear(tokens, much=2)
    there = found != padding
    assert (there.int().diff(dim=1) <= 0).all()  # no gap: padding only at the end
    assert 28 < there.sum(1).float().mean() - 2 < 36  # words lost, and a part of some passages

    def mistaken(given: torch.Tensor) -> float:
        kept = [set(row.tolist()) for row in given]
        rows = [set(row.tolist()) - {padding, START, END} for row in wear(given, much=2)]
        return sum(len(row - old) for row, old in zip(rows, kept, strict=True)) / given.numel()

    assert 0.02 < mistaken(tokens[:, :40]) < 0.12 < mistaken(torch.randint(2500, padding, (400, 40)))


def test_the_thesaurus(tmp_path: Path) -> None:
    path = tmp_path / "th.dat"
    path.write_text(
        "UTF-8\nbig|2\n(adj)|large|small (antonym)\n(adj)|great (similar term)|big\nin fact|1\n(adv)|really\n"
    )
    assert read(path) == {"big": ["large", "great"]}
