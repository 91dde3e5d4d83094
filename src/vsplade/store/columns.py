"""Metadata by column, so that a filter looks at each distinct value once and not at each page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.store.array_file import Array, Container
from vsplade.store.durable import damaged, to_bytes
from vsplade.types import Json, Metadata

EXACT = 1 << 53
"""Whole numbers up to this size are the same in float64."""


class Column:
    """``values[codes[page] - 1]`` is the page's value; code 0 means that the page has none."""

    def __init__(self, values: Sequence[Json], codes: Array) -> None:
        self.values = values
        self.codes = codes

    @cached_property
    def numbers(self) -> NDArray[np.float64] | None:
        """The values as numbers, NaN for those that are none; None where float64 cannot hold them exactly."""
        found = np.full(len(self.values), np.nan)
        for place, value in enumerate(self.values):
            if isinstance(value, int | float) and not isinstance(value, bool):
                if abs(value) > EXACT:
                    return None
                found[place] = value
        return found

    @cached_property
    def has_lists(self) -> bool:
        return any(isinstance(value, list) for value in self.values)

    def mask(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Pages whose value is allowed; ``allowed[0]`` speaks for the pages without a value."""
        chosen: NDArray[np.bool_] = allowed[self.codes]
        return chosen


def check_metadata(page_id: str, metadata: Metadata) -> dict[str, Any]:
    """A plain copy, or an error that names the key whose value cannot be stored."""
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise InputError(f"page {page_id!r}: the metadata key {key!r} is not a string.")
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is not None and not isinstance(one, str | int | float | bool):
                raise InputError(
                    f"page {page_id!r}: the metadata value of {key!r} is a {type(one).__name__}; "
                    "use a string, a number, true, false or null, or a list of these."
                )
            if isinstance(one, float) and not math.isfinite(one):
                raise InputError(
                    f"page {page_id!r}: the metadata value of {key!r} is {one}; use a finite number."
                )
    return {key: list(value) if isinstance(value, tuple) else value for key, value in metadata.items()}


def _distinct(value: Any) -> tuple[Any, ...]:
    """The type is part of it: True, 1 and 1.0 are equal and of one hash in Python."""
    return (list, *map(_distinct, value)) if isinstance(value, list) else (type(value), value)


def _stored(entry: tuple[Any, ...]) -> Any:
    return [value for _, value in entry[1:]] if entry[0] is list else entry[1]


def build_columns(rows: Sequence[Mapping[str, Json]]) -> tuple[list[str], dict[str, Array]]:
    """Keys in order, and for the i-th key the arrays ``column.i.codes`` and ``column.i.values``."""
    codes: dict[str, NDArray[np.uint32]] = {}
    values: dict[str, dict[tuple[Any, ...], int]] = {}
    for number, row in enumerate(rows):
        for key, value in row.items():
            if value is None:
                continue
            if key not in codes:
                codes[key] = np.zeros(len(rows), dtype=np.uint32)
                values[key] = {}
            known = values[key]
            codes[key][number] = known.setdefault(_distinct(value), len(known) + 1)
    arrays: dict[str, Array] = {}
    keys = sorted(codes)
    for number, key in enumerate(keys):
        distinct = [_stored(entry) for entry in values[key]]
        arrays[f"column.{number}.codes"] = codes[key].astype(np.min_scalar_type(len(distinct)))
        text = to_bytes(json.dumps(distinct, ensure_ascii=False, separators=(",", ":")))
        arrays[f"column.{number}.values"] = np.frombuffer(text, dtype=np.uint8)
    return keys, arrays


_PLAIN_KINDS = frozenset({str, int, float, bool, type(None)})


def _is_plain(value: object) -> bool:
    """A single value that ``check_metadata`` lets in; a file may also hold objects, NaN or 1e999."""
    return type(value) in _PLAIN_KINDS and (type(value) is not float or math.isfinite(value))


def is_value(value: object) -> bool:
    """What ``check_metadata`` lets in: a plain value, or a list of them (tags)."""
    return all(map(_is_plain, value)) if isinstance(value, list) else _is_plain(value)


def read_row(body: bytes) -> dict[str, Json]:
    """A page's metadata; ValueError where it is anything else."""
    row: object = json.loads(body)
    if not isinstance(row, dict) or not all(map(is_value, row.values())):
        raise ValueError("it is not an object of plain values and lists of them")
    return row


def read_column(container: Container, key: str) -> Column | None:
    keys: list[str] = container.header["columns"]
    if key not in keys:
        return None
    number = keys.index(key)
    codes = container[f"column.{number}.codes"]
    try:
        values: Any = json.loads(container[f"column.{number}.values"].tobytes())
    except (ValueError, RecursionError) as error:
        raise damaged(container.path, f"the values of the metadata key {key!r} are not JSON") from error
    plain = isinstance(values, list) and all(map(is_value, values))
    if not plain or int(codes.max(initial=0)) > len(values):
        raise damaged(container.path, f"the values of the metadata key {key!r} do not fit the pages")
    return Column(values, codes)
