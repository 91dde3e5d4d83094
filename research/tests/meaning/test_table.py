"""The query table against numpy's dense solution, and from a folder of a teacher's vectors to a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")
from scipy.sparse import random as random_sparse

from research.meaning.options import RankOptions, TableOptions
from research.meaning.query_words import chosen_words, first_rows, query_rows
from research.meaning.rank import rank
from research.meaning.table import LAST_SPECIAL, counted, inverse_frequency, ridge, table, weighted
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.errors import InputError

WORDS = 40
NAMES = [f"w{n}" for n in range(WORDS - 2)]
TOKENS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *(f"[unused{n}]" for n in range(100)),
    *NAMES,
    "belly",
    "##ache",
]
"""A vocabulary like MiniLM's: special tokens up to 103, then words, and a word in two pieces."""


@pytest.mark.parametrize("penalty", [0.05, 1.0])
def test_ridge_is_the_dense_solution(penalty: float) -> None:
    rng = np.random.default_rng(1)
    x = random_sparse(60, 25, density=0.2, format="csr", rng=rng, dtype=np.float64)
    y, start = rng.normal(size=(60, 4)), rng.normal(size=(25, 4))
    dense = x.toarray()
    normal = dense.T @ dense + penalty * np.eye(25)
    wanted = start + np.linalg.solve(normal, dense.T @ (y - dense @ start))
    np.testing.assert_allclose(ridge(x, y, start, penalty, 60), wanted, atol=1e-6)


def test_a_token_of_no_query_keeps_its_start() -> None:
    tokens = np.array([[101, 200, 201, 102], [101, 201, 202, 102]])
    x = weighted(counted(tokens, 210), np.ones(210, np.float32))
    start = np.random.default_rng(0).normal(size=(210, 3))
    found = ridge(x, np.zeros((2, 3)), start, 0.1, 20)
    np.testing.assert_array_equal(found[205], start[205])
    assert np.abs(found[201]).sum() < np.abs(start[201]).sum()


def test_rows_are_means_and_special_tokens_do_not_count() -> None:
    tokens = np.array([[101, 200, 200, 201, 102, 0], [101, 201, 102, 0, 0, 0]])
    counts = counted(tokens, 210)
    assert counts[0, 200] == 2
    assert counts[:, : LAST_SPECIAL + 1].nnz == 0
    idf = inverse_frequency(counts)
    assert idf[200] >= idf[201]
    np.testing.assert_allclose(weighted(counts, idf).sum(axis=1), 1, rtol=1e-6)


def teacher_folder(work: Path) -> None:
    """A made-up teacher: a query is the sum of its tokens' hidden vectors, told badly one by one."""
    rng = np.random.default_rng(0)
    folder = work / "teacher"
    folder.mkdir()
    vocabulary = LAST_SPECIAL + 1 + WORDS
    hidden = rng.normal(size=(vocabulary, 16)).astype(np.float32)
    tokens = rng.integers(LAST_SPECIAL + 1, vocabulary, (900, 6)).astype(np.uint16)
    tokens[:, 0], tokens[:, -1] = 101, 102
    queries = hidden[tokens[:, 1:-1]].sum(axis=1)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    np.savez(folder / "queries-000.npz", tokens=tokens[:500], vectors=unit[:500])
    np.savez(folder / "queries-001.npz", tokens=tokens[500:], vectors=unit[500:])
    np.savez(folder / "tokens.npz", vectors=hidden + rng.normal(size=hidden.shape))
    np.savez(folder / "passages.npz", vectors=rng.normal(size=(200, 16)))
    (work / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    texts = [" ".join(TOKENS[token] for token in row[1:-1]) for row in tokens.tolist()]
    with gzip.open(folder / "queries.json.gz", "wt", encoding="utf-8") as file:
        json.dump([text.replace("##", "") for text in texts], file)
    np.savez(work / "words.npz", words=["ache"], rows=rng.normal(size=(1, 16)).astype(np.float32))


def test_from_a_teacher_to_a_file(tmp_path: Path) -> None:
    teacher_folder(tmp_path)
    told = table(TableOptions(tmp_path, dimensions=16, penalties=(0.01, 100.0), held_out=100))
    assert told["held-out cosine"][0.01] > max(told["untrained"] + 0.1, 0.95)
    assert told["held-out cosine"][0.01] > told["held-out cosine"][100.0]
    found = np.load(tmp_path / "table.npz")
    assert found["axes"].shape == (16, 16)
    assert not found["table"][: LAST_SPECIAL + 1].any()
    assert np.abs(found["table"][LAST_SPECIAL + 1 :]).sum(axis=1).all()


def test_rankings_come_near_the_teachers(tmp_path: Path) -> None:
    """From a poor table: what each query puts first among passages is what the teacher puts there."""
    teacher_folder(tmp_path)
    table(TableOptions(tmp_path, dimensions=16, penalties=(1000.0,), held_out=100))
    told = rank(RankOptions(tmp_path, tmp_path, steps=300, batch=128, passages=150, rate=3e-2))
    assert told["queries"] == 900
    queries = np.load(tmp_path / "teacher" / "queries-000.npz")
    passages = np.load(tmp_path / "teacher" / "passages.npz")["vectors"]
    passages /= np.linalg.norm(passages, axis=1, keepdims=True)
    wanted = (queries["vectors"] @ passages.T).argmax(axis=1)
    agree = {}
    own = LAST_SPECIAL + 1 + WORDS  # the row of "ache", which no token of the vocabulary is
    for name in ("table", "ranked"):
        found = np.load(tmp_path / f"{name}.npz")
        rows = queries["tokens"][:, 1:-1].astype(np.int64)
        if name == "ranked":
            rows[rows == TOKENS.index("##ache")] = own
        vectors = found["table"][rows].sum(axis=1)
        agree[name] = float((wanted == (vectors @ (passages @ found["axes"]).T).argmax(axis=1)).mean())
    assert agree["ranked"] > agree["table"] + 0.2
    assert not found["table"][: LAST_SPECIAL + 1].any()


def test_a_word_has_a_row_of_its_own_or_those_of_its_pieces() -> None:
    pieces = WordPiece(TOKENS)
    rows = query_rows(["w3 Bellyache!", "bellyache belly"], pieces, ["bellyache"], padding=999)
    own, belly = len(TOKENS), TOKENS.index("belly")
    assert [row for row in rows[0].tolist() if row != 999] == [TOKENS.index("w3"), own, TOKENS.index("[UNK]")]
    assert [row for row in rows[1].tolist() if row != 999] == [own, belly]
    cut = query_rows(["bellyache"], pieces, [], padding=999)[0]
    assert cut[:2].tolist() == [belly, TOKENS.index("##ache")]


def test_frequent_words_that_are_cut_are_chosen(work: Path) -> None:
    (work / "teacher").mkdir()
    with gzip.open(work / "teacher" / "queries.json.gz", "wt", encoding="utf-8") as file:
        json.dump(["a big house"], file)
    letters = [f"##{chr(n)}" for n in range(97, 123)] + [chr(n) for n in range(97, 123)]
    pieces = WordPiece(["[UNK]", "[CLS]", "[SEP]", "about", *letters])
    found = chosen_words(work, pieces, 50)
    assert found == sorted(found)
    assert len(found) == 50
    assert "that" in found
    assert not {"about", "the"} & set(found)  # one is a token, the other too short


def test_words_start_where_learned_rows_lie() -> None:
    """The map from what is said of a word alone to its row is found where it is linear."""
    rng = np.random.default_rng(0)
    turn, alone = rng.normal(size=(8, 8)), rng.normal(size=(500, 8)).astype(np.float32)
    table = (alone @ turn + 3).astype(np.float32)
    found = first_rows(alone[400:], alone[:400], table[:400], list(range(400)))
    near = (found * table[400:]).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(table[400:], axis=1)
    assert near.min() > 0.99


def test_without_a_teacher(tmp_path: Path) -> None:
    teacher_folder(tmp_path)
    for path in (tmp_path / "teacher").glob("queries-*.npz"):
        path.unlink()
    with pytest.raises(InputError, match=r"research\.meaning\.teach"):
        table(TableOptions(tmp_path))
