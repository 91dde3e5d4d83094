"""The two promises that make search exact: sums never overflow, and the truth is as near as is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsplade.search.native import accumulate
from vsplade.store.postings import invert
from vsplade.types import SparseVector

WEIGHTS = st.one_of(st.sampled_from([2.0**-59, 1e-6, 0.5, 1.0, 2.0]), st.floats(2.0**-59, 2.0**53, width=32))


@st.composite
def cases(draw: st.DrawFn, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query weights, each segment's top weights (0: absent), and a page's weights (0: absent)."""
    terms = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    some = np.array(draw(st.lists(WEIGHTS, min_size=3, max_size=8)), dtype=np.float32)
    query = rng.choice(some, terms)
    tops = rng.choice(some, (draw(st.integers(1, 3)), terms)) * (rng.random((1, terms)) < 0.9)
    share = np.maximum(np.minimum(rng.random(terms) * 1.2, 1), 2.0**-59 / np.maximum(tops[0], 2.0**-59))
    page = (tops[0] * share * (rng.random(terms) < 0.8)).astype(np.float32)
    return query, tops.astype(np.float64), page


@pytest.mark.parametrize("short", [True, False])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_sums_fit_and_bound_the_score(short: bool, data: st.DataObject) -> None:
    query, tops, page = data.draw(cases(accumulate.SHORT_QUERY if short else 300))
    multipliers = np.zeros(tops.shape, dtype=np.uint32)
    unit, over, under = accumulate.scale_query.py_func(query, tops, multipliers, short)
    shift, room = (8, 2**16) if short else (0, 2**32)
    assert multipliers.max(initial=0) < (2**16 if short else 2**24)  # what the loops multiply with
    largest = [
        sum(255 * int(m) >> shift for m, top in zip(*row, strict=True) if top > 0)
        for row in zip(multipliers, tops, strict=True)
    ]
    assert max(largest) < room
    levels = [
        int(np.clip(np.ceil(w * (255 / top)), 1, 255)) if w > 0 else 0
        for w, top in zip(page.astype(float), tops[0], strict=True)
    ]
    total = sum(level * int(m) >> shift for level, m in zip(levels, multipliers[0], strict=True))
    score = float(np.float32(np.dot(query.astype(np.float64), page.astype(np.float64))))
    assert (total - over) * unit <= score <= (total + under) * unit
    assert (total > 0) == bool((page > 0).any())


@settings(max_examples=200, deadline=None)
@given(pages=st.lists(st.dictionaries(st.integers(0, 30), WEIGHTS, max_size=12), min_size=1, max_size=12))
def test_a_level_is_at_most_one_step_too_high(pages: list[dict[int, float]]) -> None:
    vectors = [SparseVector.from_dict(page) for page in pages]
    starts = np.cumsum([0, *map(len, vectors)]).astype(np.uint64)
    terms = np.concatenate([vector.terms for vector in vectors]).astype(np.uint16)
    weights = np.concatenate([vector.weights for vector in vectors])
    inverted = invert(starts, terms, weights, 31)
    for place, term in enumerate(inverted.terms.tolist()):
        step = float(inverted.tops[place]) / 255
        first, count = int(inverted.places[place]), int(inverted.counts[place])
        for page, level in zip(
            *(part[first : first + count].tolist() for part in (inverted.offsets, inverted.levels)),
            strict=True,
        ):
            weight = float(vectors[page].weights[vectors[page].terms.tolist().index(term)])
            assert 1 <= level <= 255
            assert (level - 1) * step * (1 - 1e-12) <= weight <= level * step * (1 + 1e-12)
