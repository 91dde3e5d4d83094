"""Which pages may be found, as Qdrant's filters; what cannot be said in them is left out.

``models`` are the classes of the client or of the engine in this process: they have the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vsplade.backends.collection import MetadataCondition, Prefilter

_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
"""Keys that need no quotes in a path."""
_VALID = re.compile(r"^[^\x00\ud800-\udfff]*$")
_LIMITS = ("gt", "gte", "lt", "lte")


def make_filter(models: Any, prefilter: Prefilter, page_key: str, terms: bool = True) -> Any:
    """``page_key`` names the field with the page's key; empty: the point's own id. None: all pages."""
    must: list[Any] = [condition for one in prefilter.conditions for condition in _metadata(models, one)]
    if prefilter.among is not None:
        must.append(_among(models, prefilter.among, page_key))
    if terms:
        must += [_holding(models, sets) for sets in prefilter.holding]
    return models.Filter(must=must) if must else None


def _among(models: Any, keys: tuple[str, ...], page_key: str) -> Any:
    if page_key:
        return models.FieldCondition(key=page_key, match=models.MatchAny(any=list(keys)))
    return models.has_ids(keys)


def _holding(models: Any, sets: tuple[tuple[int, ...], ...]) -> Any:
    def one(term: int) -> Any:
        return models.FieldCondition(key="terms", match=models.MatchValue(value=term))

    return models.Filter(should=[models.Filter(must=[one(term) for term in terms]) for terms in sets])


def _metadata(models: Any, condition: MetadataCondition) -> Iterator[Any]:
    if not _PLAIN.match(condition.key):
        return
    key, operator, value = f"metadata.{condition.key}", condition.operator, condition.value
    if operator in ("eq", "in"):
        values = list(value) if isinstance(value, tuple) else [value]
        options = [_equal(models, key, one) for one in values]
        if options and all(option is not None for option in options):
            yield models.Filter(should=options)
    elif operator in _LIMITS and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) < 1 << 53:
            yield models.FieldCondition(key=key, range=models.range_of(operator, float(value)))
    elif operator == "prefix":
        prefixes = value if isinstance(value, tuple) else (value,)
        if all(isinstance(one, str) and one and _VALID.match(one) for one in prefixes):
            yield models.Filter(
                should=[
                    models.FieldCondition(key=key, match=models.MatchPrefix(prefix=one)) for one in prefixes
                ]
            )


def _equal(models: Any, key: str, value: Any) -> Any:
    """A number as a range: whole ones may be stored with a fraction."""
    if isinstance(value, bool):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    if isinstance(value, str):
        return (
            models.FieldCondition(key=key, match=models.MatchValue(value=value))
            if _VALID.match(value)
            else None
        )
    if isinstance(value, int | float) and abs(value) < 1 << 53:
        return models.FieldCondition(key=key, range=models.range_of("eq", float(value)))
    return None
