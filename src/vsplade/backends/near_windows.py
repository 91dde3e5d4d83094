"""From the nearest windows to the nearest pages, for engines that find windows one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vsplade.backends.collection import Narrowing
from vsplade.store.meaning_windows import MAX_WINDOWS
from vsplade.types import Windows


def nearest_pages(
    find: Callable[[int], Sequence[tuple[str, float]]], k: int, narrowing: Narrowing, most: int
) -> dict[str, float]:
    """The keys of ``k`` pages and the cosine of the best window of each, best first.

    ``find(limit)`` gives pages' keys and cosines of so many windows; more are asked for until there are
    enough pages.
    """
    limit = 4 * k if narrowing.among is None else MAX_WINDOWS * len(narrowing.among)
    while True:
        limit = min(limit, most)
        found, best = find(limit), dict[str, float]()
        for key, cosine in found:
            best.setdefault(key, cosine)  # the best of a page comes first
        if len(best) >= k or len(found) < limit or limit == most:
            return dict(list(best.items())[:k])
        limit *= 4


def joined_windows(rows: Sequence[tuple[str, int, Any, int]]) -> dict[str, Windows]:
    """By page: of rows of (page's key, number on the page, codes, cluster)."""
    parts: dict[str, list[tuple[int, Any, int]]] = {}
    for page_key, number, codes, cluster in rows:
        parts.setdefault(page_key, []).append((number, codes, cluster))
    return {
        key: Windows(
            np.rint(np.array([codes for _, codes, _ in group], np.float32)).astype(np.int8),
            np.array([cluster for _, _, cluster in group], np.uint16),
        )
        for key, group in ((key, sorted(group, key=lambda part: part[0])) for key, group in parts.items())
    }
