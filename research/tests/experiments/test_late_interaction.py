from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.search.test_rerank import Brightness, picture, rows

from research.experiments.late_interaction import recall_ceiling, rerank_dataset, rerank_run
from vsplade.errors import InputError
from vsplade.evaluate import load_dataset


def test_a_run_is_reordered_within_its_depth_only() -> None:
    pages = {"a": rows([0.1]), "b": rows([0.9]), "c": rows([5.0])}
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    reranked = rerank_run(run, lambda _: rows([1.0]), pages.__getitem__, depth=2)
    assert list(reranked["q"].items()) == [("b", pytest.approx(0.9)), ("a", pytest.approx(0.1))]
    with pytest.raises(InputError, match="At least 1"):
        rerank_run(run, lambda _: rows([1.0]), pages.__getitem__, depth=0)


def test_the_ceiling_is_the_first_stages_recall() -> None:
    qrels = {"q": {"a": 1, "x": 1}, "r": {"b": 1}}
    run = {"q": {"a": 1.0, "b": 3.0, "c": 2.0}, "r": {"b": 1.0}}
    assert recall_ceiling(qrels, run) == pytest.approx((0.5 + 1) / 2)
    assert recall_ceiling(qrels, run, depth=2) == pytest.approx((0 + 1) / 2)


def test_a_data_set_is_reranked(make_dataset: Callable[..., Path]) -> None:
    folder = make_dataset()
    for n, page in enumerate("abcd"):
        picture(folder / "images" / f"{page}.png", 60 * n)
    dataset = load_dataset(folder)
    run = {"q1": {"b": 3.0, "a": 2.0, "d": 1.0}, "q2": {"a": 2.0, "c": 1.0}}
    reranked = rerank_dataset(dataset, run, Brightness(), depth=2)
    assert [list(pages) for pages in reranked.values()] == [["b", "a"], ["c", "a"]]
    with pytest.raises(InputError, match="names page 'z'"):
        rerank_dataset(dataset, {"q1": {"z": 1.0}}, Brightness())
