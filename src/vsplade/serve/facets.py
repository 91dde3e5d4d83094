"""What pages can be filtered by, as the page offers it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vsplade.types import Json

FACET_VALUES = 50
"""Values of one metadata key that are offered for filtering."""


def facet(key: str, counts: Counter[Json]) -> dict[str, Any]:
    best = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:FACET_VALUES]
    return {
        "key": key,
        "values": [{"value": value, "pages": count} for value, count in best],
        "more": max(0, len(counts) - len(best)),
    }
