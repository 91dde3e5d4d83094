"""Counts to weights: more is more, within bounds, and long pages are held back."""

from __future__ import annotations

import numpy as np
import pytest

from vsplade.encode.weighting import PageWeighting


def test_weights_grow_with_the_count_and_stay_below_one() -> None:
    weights = PageWeighting().weigh(np.array([0.05, 0.5, 1.0, 3.0, 500.0]), 25.0)
    assert (np.diff(weights) > 0).all()
    assert weights[0] > 0
    assert weights[-1] < 1


def test_a_long_page_weighs_less_but_short_ones_are_alike() -> None:
    rule, count = PageWeighting(saturation=0.5, damping=0.5, shortest=20.0), np.array([1.0])
    (short,), (shortest,), (long,) = (rule.weigh(count, length) for length in (5.0, 20.0, 80.0))
    assert short == shortest == pytest.approx(1 / 1.5)
    assert long == pytest.approx(0.5 / 1.5)


def test_without_damping_length_does_not_matter() -> None:
    rule, count = PageWeighting(damping=0.0), np.array([2.0])
    assert rule.weigh(count, 30.0) == rule.weigh(count, 3000.0)
