from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsplade.errors import InputError, MissingExtraError
from vsplade.evaluate import active_terms, flops, measure, paired_bootstrap, per_query
from vsplade.types import SparseVector

vectors = st.lists(
    st.dictionaries(st.integers(0, 12), st.floats(0.125, 2, width=32), max_size=8).map(
        SparseVector.from_dict
    ),
    max_size=6,
)


def test_measures_by_hand() -> None:
    qrels = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
    run = {"q1": {"b": 3.0, "x": 2.0, "a": 1.0}, "q2": {"x": 2.0, "c": 1.0}}
    values = per_query(qrels, run)
    ideal = 2 + 1 / math.log2(3)
    assert values["ndcg@5"]["q1"] == pytest.approx((1 + 2 / 2) / ideal)  # linear gain: 2, not 2^2 - 1
    assert values["ndcg@5"]["q2"] == pytest.approx(1 / math.log2(3))
    assert values["recall@1"] == {"q1": 0.5, "q2": 0.0}
    assert values["recall@5"] == {"q1": 1.0, "q2": 1.0}
    assert values["mrr@10"] == {"q1": 1.0, "q2": 0.5}
    assert values["map@100"] == {"q1": pytest.approx((1 + 2 / 3) / 2), "q2": 0.5}


def test_a_query_missing_from_the_run_scores_zero() -> None:
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    assert measure(qrels, {"q1": {"a": 1.0}})["ndcg@5"] == 0.5
    assert measure(qrels, {})["recall@100"] == 0.0
    assert measure(qrels, {"q1": {"a": 1.0}, "q2": {}})["mrr@10"] == 0.5


def test_a_query_that_nobody_judged_changes_nothing() -> None:
    assert measure({"q1": {"a": 1}}, {"q1": {"a": 1.0}, "other": {"a": 1.0}})["ndcg@5"] == 1.0


def test_unknown_measure_is_refused() -> None:
    with pytest.raises(InputError, match=r"'ndcg@7'; valid: ndcg@5"):
        measure({"q": {"a": 1}}, {}, ["ndcg@7"])


def test_light_install_is_told_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("ir_measures"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "ir_measures", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"vsplade\[eval\]"):
        measure({"q": {"a": 1}}, {})


@given(vectors, vectors)
def test_flops_is_the_mean_overlap_over_all_pairs(
    queries: list[SparseVector], pages: list[SparseVector]
) -> None:
    pairs = [len(set(q.terms.tolist()) & set(p.terms.tolist())) for q in queries for p in pages]
    assert flops(queries, pages) == pytest.approx(np.mean(pairs) if pairs else 0.0)


def test_terms_with_no_weight_are_not_active() -> None:
    padded = SparseVector(np.array([1, 2], dtype=np.uint32), np.array([0.5, 0.0], dtype=np.float32))
    assert active_terms([padded]) == 1.0
    assert flops([padded], [padded]) == 1.0


def test_bootstrap_sees_a_real_difference_and_no_false_one() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(400)
    a = {str(i): float(v) for i, v in enumerate(base)}
    better = {str(i): float(v) for i, v in enumerate(base + 0.05 + rng.normal(0, 0.1, 400))}
    same = {str(i): float(v) for i, v in enumerate(base + rng.permutation(np.repeat([-0.1, 0.1], 200)))}
    found = paired_bootstrap(a, better)
    assert found.p_value < 0.001
    assert found.low < found.difference < found.high
    assert found.low > 0
    assert paired_bootstrap(a, same).p_value > 0.5
    assert paired_bootstrap(a, a).p_value == 1.0


def test_bootstrap_agrees_with_the_normal_approximation() -> None:
    rng = np.random.default_rng(5)
    differences = rng.normal(0.012, 0.2, 900)
    a = {str(i): 0.0 for i in range(900)}
    b = {str(i): float(v) for i, v in enumerate(differences)}
    z = differences.mean() / (differences.std() / 30)
    assert paired_bootstrap(a, b).p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.02)


def test_bootstrap_is_repeatable_and_checks_the_queries() -> None:
    a, b = {"x": 0.1, "y": 0.5}, {"x": 0.2, "y": 0.4}
    assert paired_bootstrap(a, b, seed=7) == paired_bootstrap(a, b, seed=7)
    with pytest.raises(InputError, match="'y' is in one of them only"):
        paired_bootstrap(a, {"x": 0.2})
