"""Which segments to join. Only neighbours: the page order, which breaks ties, must not change."""

from __future__ import annotations

from collections.abc import Sequence

FAN_OUT = 8


def _tier(pages: int) -> int:
    """0 for 1..7 pages, 1 for 8..63, ...: a page is rewritten at most once a tier."""
    return (max(pages, 1).bit_length() - 1) // 3


def find_run(
    live: Sequence[int],
    pages: Sequence[int],
    sizes: Sequence[int],
    fan_out: int,
    max_pages: int,
    max_bytes: int,
) -> tuple[int, int] | None:
    """(first, last) of ``fan_out`` or more neighbours of a tier or below that fit into one segment; else a
    segment of which most pages are deleted, alone; else None."""
    for tier in range(_tier(max_pages) + 1):
        first = 0
        while first < len(live):
            last, size, weight = first, 0, 0
            while last < len(live) and _tier(live[last]) <= tier:
                if size + live[last] > max_pages or weight + sizes[last] > max_bytes:
                    break
                size += live[last]
                weight += sizes[last]
                last += 1
            if last - first >= fan_out:
                return first, last
            first += 1
    for position, (alive, total) in enumerate(zip(live, pages, strict=True)):
        if 0 < alive * 2 < total:
            return position, position + 1
    return None
