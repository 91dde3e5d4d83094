"""Which pages may be found, in Milvus' language of conditions.

Only what every Milvus understands, milvus-lite 2.5 included: no ``not``, no ``exists``, no lists of mixed
types. What cannot be said in it is left out; the caller looks at each page anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from vsplade.backends.collection import MetadataCondition, Prefilter
from vsplade.store.postings import MAX_VOCABULARY

ALL_TERMS = MAX_VOCABULARY
"""In the terms of a page that has more of them than an array may hold: it may have any."""
MOST_VALUES = 256
"""Of a set that are looked for one by one."""
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_PLAIN = re.compile(r'^[^"\\\x00-\x1f\ud800-\udfff]*$')
"""Texts that need no escapes, which not all versions read alike."""
HAS_LISTS = "lists == 1"


def expression(prefilter: Prefilter, page_key: str, terms: bool = True) -> str:
    """``page_key`` is the field with the page's key; ``terms``: whether its terms are beside it."""
    parts = [part for part in map(_condition, prefilter.conditions) if part]
    if prefilter.among is not None:
        parts.append(f"{page_key} in {json.dumps(list(prefilter.among))}")
    if terms:
        parts += map(_holding, prefilter.holding)
    return " and ".join(f"({part})" for part in parts)


def _holding(sets: Sequence[Sequence[int]]) -> str:
    wholes = [f"array_contains_all(terms, {json.dumps(list(terms))})" for terms in sets]
    return " or ".join([*wholes, f"array_contains(terms, {ALL_TERMS})"])


def _condition(condition: MetadataCondition) -> str:
    if not _PLAIN.match(condition.key) or "]" in condition.key:
        return ""
    field, operator, value = f'metadata["{condition.key}"]', condition.operator, condition.value
    if operator in ("eq", "in"):
        values = list(value) if isinstance(value, tuple) else [value]
        forms = [form for one in values for form in _forms(one)]
        if not forms or len(forms) > MOST_VALUES or any(not _forms(one) for one in values):
            return ""
        return " or ".join(f"{field} == {form} or json_contains({field}, {form})" for form in forms)
    if operator == "prefix":
        prefixes = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(one, str) and one and _PLAIN.match(one) for one in prefixes):
            return ""
        return " or ".join([*(f'{field} like "{one}%"' for one in prefixes), HAS_LISTS])
    if operator in _SIGNS and len(forms := _forms(value)):
        return f"{field} {_SIGNS[operator]} {forms[0]} or {HAS_LISTS}"
    return ""


def _forms(value: Any) -> list[str]:
    """As it may be written; a number both as a whole one and with a fraction; none where it cannot be."""
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return [f'"{value}"'] if _PLAIN.match(value) else []
    if isinstance(value, int | float) and abs(value) < 1 << 53:
        whole = value == int(value)
        return (
            [repr(value), repr(float(value) if isinstance(value, int) else int(value))]
            if whole
            else [repr(value)]
        )
    return []


def for_filters(metadata: dict[str, Any]) -> dict[str, Any]:
    """A page's metadata as Milvus can keep and compare them; the exact ones are kept as text."""
    return {_valid(key): _value(value) for key, value in metadata.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value if one is not None]
    if isinstance(value, str):
        return _valid(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return float(value)
    return value


def _valid(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def has_lists(metadata: dict[str, Any]) -> bool:
    return any(isinstance(value, list) for value in metadata.values())
