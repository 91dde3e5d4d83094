"""Twelve more bits for hashed terms, in the last bits of their weights.

A pair of terms has one of 32,768 numbers, so that the index stores terms in 16 bits. A page has some two
hundred of them, and a number that is asked for is on a page by chance about once in two hundred times. Pages
like that would come before those that hold a part of a rare word, and nobody may be told that a word stands
on a page because its number does. So a hash has 27 bits: the first 15 are the term's number, the other 12
replace the last 12 of the 23 bits of its weight's fraction. They change the weight by less than one part in
two thousand, cost no byte, and leave one wrong answer of 4,096.

The first of the 12 is turned over where the page's reader was in doubt. Such a hash counts for ranking, with
the small weight that it has; but a search does not say that the word stands there.

The 8 bits before them tell which terms follow a pair on the page, so that ``"a b c"`` is told from ``a b``
and ``b c`` in two places. Each term has two of the 8 bits, and those of all that follow are set: a term that
does not follow passes for one that does on one page of seven (docs/log.md). The weight is rounded to what is
left, by at most one part in sixteen.
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
FOLLOWERS = 8
"""Bits of the set of terms that follow a pair."""
_TWO_BITS = np.array([1 << one | 1 << other for other in range(FOLLOWERS) for one in range(other)], np.int64)


def split(hashes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of terms, and their checks."""
    return hashes >> CHECK, hashes & MASK


def stamped(weights: NDArray[np.float32], checks: NDArray[Any]) -> NDArray[np.float32]:
    """The weights with the checks in their last bits."""
    bits = weights.astype(np.float32).view(np.uint32)
    marked: NDArray[np.float32] = (bits & ~np.uint32(MASK) | checks.astype(np.uint32)).view(np.float32)
    return marked


def follower_bits(terms: NDArray[Any]) -> NDArray[np.int64]:
    """Of each term, in the set of those that follow a pair; part of the index's format, so never to be
    changed.
    """
    mixed = terms.astype(np.int64) * 0x9E3779B1 >> 8 & 0xFFFFFF
    bits: NDArray[np.int64] = _TWO_BITS[mixed % len(_TWO_BITS)]
    return bits


def followed(weights: NDArray[np.float32], sets: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weights, rounded, with the sets of what follows before the place of their checks."""
    low = sets << CHECK
    unit = 1 << CHECK + FOLLOWERS
    bits = weights.astype(np.float32).view(np.uint32).astype(np.int64)
    marked = np.maximum(bits - low + unit // 2 & -unit, 0) | low
    rounded: NDArray[np.float32] = marked.astype(np.uint32).view(np.float32)
    return rounded


def agree(weights: NDArray[np.float32], checks: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether the weights of a page have these checks, surely or in doubt; -1 agrees with any."""
    found: NDArray[np.bool_] = (checks < 0) | ((weights.view(np.uint32) & np.uint32(SAME)) == checks & SAME)
    return found


def checks_of(checks: Mapping[int, int], terms: NDArray[np.uint32]) -> NDArray[np.int32] | None:
    """For the terms of a query: the checks of those that are hashes, -1 for the others; None without any."""
    return np.array([checks.get(term, -1) for term in terms.tolist()], np.int32) if checks else None


def evidence(hash: int, behind: int, followers: int = 0) -> Evidence:
    """What a page has where a hash stands: its term, ``behind`` the vocabulary, with this check, and these
    bits of what follows it.
    """
    more = followers << CHECK
    return Evidence(behind + (hash >> CHECK), hash & MASK | more, MASK | more)
