from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsplade.errors import InputError
from vsplade.search.fuse import (
    fuse_runs,
    min_max,
    reciprocal_rank_fusion,
    relative_score_fusion,
)

score_lists = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50, width=32), max_size=8)


def test_rsf_by_hand() -> None:
    fused = relative_score_fusion([{"a": 10.0, "b": 6.0, "c": 2.0}, {"b": 0.9, "d": 0.1}], [0.6, 0.4])
    # list 1 scaled: a 1, b 0.5, c 0; list 2 scaled: b 1, d 0; a and c are missing from list 2, d from list 1
    assert fused == pytest.approx({"b": 0.6 * 0.5 + 0.4, "a": 0.6, "c": 0.0, "d": 0.0})
    assert list(fused) == ["b", "a", "c", "d"]


def test_three_way_with_the_papers_weights() -> None:
    fused = relative_score_fusion(
        [{"a": 3.0, "b": 1.0}, {"a": 0.2, "b": 0.8}, {"b": 7.0, "c": 9.0, "a": 5.0}], [0.5, 0.3, 0.2]
    )
    assert fused == pytest.approx({"a": 0.5, "b": 0.3 + 0.1, "c": 0.2})


def test_flat_and_empty_lists() -> None:
    assert min_max({"a": 4.0}) == {"a": 1.0}
    assert min_max({"a": -1.0, "b": -1.0}) == {"a": 1.0, "b": 1.0}
    assert relative_score_fusion([{}, {"a": 2.0, "b": 1.0}], [0.7, 0.3]) == pytest.approx(
        {"a": 0.3, "b": 0.0}
    )
    assert relative_score_fusion([{}, {}]) == {}


def test_rrf_by_hand() -> None:
    fused = reciprocal_rank_fusion([{"a": 9.0, "b": 8.0}, {"b": 0.5, "c": 0.4}], k=60)
    assert fused == pytest.approx({"b": 0.5 / 62 + 0.5 / 61, "a": 0.5 / 61, "c": 0.5 / 62})
    tied = reciprocal_rank_fusion([{"a": 1.0, "b": 1.0, "c": 0.5}], k=0)
    assert tied == {"a": 1.0, "b": 1.0, "c": 1 / 3}


@given(st.lists(score_lists, min_size=1, max_size=3), st.floats(0.01, 100), st.floats(-100, 100))
def test_rsf_ignores_scale_and_shift(lists: list[dict[str, float]], scale: float, shift: float) -> None:
    # Values a hair apart may become equal after scaling: judge only lists whose scores are clearly apart.
    lists = [{page: round(score) for page, score in scores.items()} for scores in lists]
    moved = [{page: score * scale + shift for page, score in scores.items()} for scores in lists]
    assert relative_score_fusion(moved) == pytest.approx(relative_score_fusion(lists), abs=1e-6)


@given(score_lists, score_lists)
def test_fused_scores_stay_between_0_and_1_and_lose_no_page(a: dict[str, float], b: dict[str, float]) -> None:
    fused = relative_score_fusion([a, b], [0.3, 0.7])
    assert set(fused) == set(a) | set(b)
    assert all(0 <= score <= 1 + 1e-12 for score in fused.values())
    assert list(fused.values()) == sorted(fused.values(), reverse=True)


@given(score_lists)
def test_weight_one_keeps_the_order_of_that_list(scores: dict[str, float]) -> None:
    fused = relative_score_fusion([scores, {"a": 1.0, "b": 2.0}], [1.0, 0.0])
    scaled = min_max(scores)
    assert {page: fused[page] for page in scores} == scaled


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [1.5, -0.5], [math.nan, 0.5]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights"):
        relative_score_fusion([{"a": 1.0}, {"b": 1.0}], weights)


def test_bad_scores_and_methods_are_refused() -> None:
    with pytest.raises(InputError, match="'a' has the score nan"):
        relative_score_fusion([{"a": math.nan}])
    with pytest.raises(InputError, match="'a' has the score inf"):
        reciprocal_rank_fusion([{"a": math.inf}])
    with pytest.raises(InputError, match=r"no fusion 'max'; choose one of: rsf, rrf"):
        fuse_runs([{}], method="max")
    with pytest.raises(InputError, match="nothing to fuse"):
        relative_score_fusion([])
    with pytest.raises(InputError, match="k must be"):
        reciprocal_rank_fusion([{"a": 1.0}], k=-1)


def test_runs_are_fused_query_by_query_and_cut() -> None:
    fused = fuse_runs([{"q1": {"a": 2.0, "b": 1.0}}, {"q2": {"c": 1.0}, "q1": {"b": 3.0}}], depth=1)
    assert fused == {"q1": {"a": 0.5}, "q2": {"c": 0.5}}


def test_pages_that_a_retriever_cannot_see_are_ranked_by_the_others() -> None:
    reader, text = {"scan": 2.0, "born": 1.5, "last": 1.0}, {"born": 9.0, "last": 3.0}
    plain = relative_score_fusion([reader, text], [0.6, 0.4])
    assert next(iter(plain)) == "born"
    fair = relative_score_fusion([reader, text], [0.6, 0.4], [(), {"scan"}])
    assert fair == pytest.approx({"scan": 1.0, "born": 0.7, "last": 0.0})
    ranks = reciprocal_rank_fusion([reader, text], [0.6, 0.4], [(), {"scan"}])
    assert ranks["scan"] == pytest.approx(1 / 61)
    with pytest.raises(InputError, match="sets of unseen pages"):
        relative_score_fusion([reader, text], None, [()])


def test_a_retriever_that_sees_nothing_leaves_the_other_as_it_is() -> None:
    reader = {"a": 5.0, "b": 4.0, "c": 1.0}
    fused = relative_score_fusion([reader, {}], [0.3, 0.7], [(), set(reader)])
    assert fused == pytest.approx({"a": 1.0, "b": 0.75, "c": 0.0})
