"""The compiled sort, against Python's; and names, which travel as bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from vsplade.search.native.segment_table import sort_best_first
from vsplade.search.query_plan import PackedIds
from vsplade.store.durable import to_bytes


@njit
def _sort(values, numbers):  # type: ignore[no-untyped-def]
    sort_best_first(values, numbers)


@settings(max_examples=300, deadline=None)
@given(values=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 2**40)), max_size=60), data=st.data())
def test_largest_first_and_ties_by_number(values: list[int], data: st.DataObject) -> None:
    numbers = data.draw(st.permutations(range(len(values))))
    sorted_values, sorted_numbers = np.array(values, dtype=np.int64), np.array(numbers, dtype=np.int64)
    _sort(sorted_values, sorted_numbers)
    wanted = sorted(zip(values, numbers, strict=True), key=lambda pair: (-pair[0], pair[1]))
    assert list(zip(sorted_values.tolist(), sorted_numbers.tolist(), strict=True)) == wanted


@given(ids=st.lists(st.text(st.characters(), max_size=5), max_size=6), before=st.integers(0, 3))
def test_names_come_back_as_they_were(ids: list[str], before: int) -> None:
    bodies = [b"x" * before, *map(to_bytes, ids)]
    starts = np.cumsum([len(body) for body in bodies])  # the first body belongs to another query
    assert PackedIds(starts, np.frombuffer(b"".join(bodies), dtype=np.uint8)).decoded() == ids
