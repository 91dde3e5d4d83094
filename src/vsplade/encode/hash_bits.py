"""Twelve more bits for hashed terms, in the last bits of their weights.

A pair of terms has one of 32,768 numbers, so that the index stores terms in 16 bits. A page has some two
hundred of them, and a number that is asked for is on a page by chance about once in two hundred times. Pages
like that would come before those that hold a part of a rare word, and nobody may be told that a word stands
on a page because its number does. So a hash has 27 bits: the first 15 are the term's number, the other 12
replace the last 12 of the 23 bits of its weight's fraction. They change the weight by less than one part in
two thousand, cost no byte, and leave one wrong answer of 4,096.

The first of the 12 is turned over where the page's reader was in doubt. Such a hash counts for ranking, with
the small weight that it has; but a search does not say that the word stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.types import Evidence

CHECK = 12
MASK = (1 << CHECK) - 1
DOUBT = 1 << CHECK - 1
SAME = MASK ^ DOUBT
"""The bits that agree whether or not there was doubt."""


def split(hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of terms, and their checks."""
    return hashes >> CHECK, hashes & MASK


def stamped(weights: NDArray[np.float32], checks: NDArray[Any]) -> NDArray[np.float32]:
    """The weights with the checks in their last bits."""
    bits = weights.astype(np.float32).view(np.uint32)
    marked: NDArray[np.float32] = (bits & ~np.uint32(MASK) | checks.astype(np.uint32)).view(np.float32)
    return marked


def agree(weights: NDArray[np.float32], checks: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the weights of a page have these checks, surely or in doubt; -1 agrees with any."""
    found: NDArray[np.bool_] = (checks < 0) | ((weights.view(np.uint32) & np.uint32(SAME)) == checks & SAME)
    return found


def checks_of(checks: Mapping[int, int], terms: NDArray[np.uint32]) -> NDArray[np.int32] | None:
    """For the terms of a query: the checks of those that are hashes, -1 for the others; None without any."""
    return np.array([checks.get(term, -1) for term in terms.tolist()], np.int32) if checks else None


def evidence(hash: int, behind: int) -> Evidence:
    """What a page has where a hash stands: its term, ``behind`` the vocabulary, with this check."""
    return Evidence(behind + (hash >> CHECK), hash & MASK, MASK)
