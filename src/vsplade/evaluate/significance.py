"""Is one system better than another, or was it luck with the queries?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from vsplade.errors import InputError


@dataclass(frozen=True, slots=True)
class Significance:
    """System B minus system A over the same queries."""

    difference: float
    low: float
    """The lower end of the 95% confidence interval of the difference (percentile bootstrap)."""
    high: float
    p_value: float
    """Two-sided: how often a difference this large comes up when there is none."""
    queries: int
    samples: int

    def to_json(self) -> dict[str, float | int]:
        return asdict(self)


def paired_bootstrap(
    a: Mapping[str, float], b: Mapping[str, float], samples: int = 10_000, seed: int = 0
) -> Significance:
    """Compare per-query values of two systems by resampling queries with replacement.

    The same seed gives the same answer. The p-value is of the null hypothesis that the mean difference is
    zero (resampling the differences after their mean was taken off), with the observed sample counted, so it
    is never exactly 0.
    """
    if set(a) != set(b):
        odd = sorted(set(a) ^ set(b))[0]
        raise InputError(
            f"Both systems must be measured on the same queries; {odd!r} is in one of them only."
        )
    if not a or samples < 1:
        raise InputError("A comparison needs at least one query and one sample.")
    differences = np.array([b[query] - a[query] for query in sorted(a)], dtype=np.float64)
    observed = float(differences.mean())
    means = _resampled_means(differences, samples, np.random.default_rng(seed))
    low, high = np.quantile(means, [0.025, 0.975])
    # A hair of slack: sums in another order may differ in the last bit, and must still count as equal.
    at_least_as_large = int(np.count_nonzero(np.abs(means - observed) >= abs(observed) - 1e-12))
    return Significance(
        observed, float(low), float(high), (at_least_as_large + 1) / (samples + 1), len(a), samples
    )


def _resampled_means(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], samples: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    means = np.empty(samples, dtype=np.float64)
    step = max(1, 4_000_000 // len(values))  # bounds the index matrix to about 32 MB
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        picks = rng.integers(0, len(values), size=(rows, len(values)))
        means[start : start + rows] = values[picks].mean(axis=1)
    return means
