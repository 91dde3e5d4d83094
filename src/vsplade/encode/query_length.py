"""How long a query may be."""

from __future__ import annotations

from vsplade.errors import InputError

MAX_QUERY_CHARACTERS = 10_000
"""Some 1,500 words. A query of 10 MB would take half a minute to split, and match every page."""

_SHOWN = 40


def check_query_length(text: str) -> None:
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InputError(
            f"The query has {len(text):,} characters, above the limit of {MAX_QUERY_CHARACTERS:,}; shorten "
            f"it. It begins: {text[:_SHOWN]!r}"
        )
