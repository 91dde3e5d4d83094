"""Conditions on metadata, applied before ranking: equality, sets, ranges, prefixes.

In Python a mapping::

    {"lang": "en", "kind": ["slides", "table"], "year": {"gte": 2019, "lt": 2024}, "path": {"prefix": "a/"}}

On the command line one text a condition: ``lang=en``, ``kind=slides,table``, ``year>=2019``,
``year=2019..2023``, ``path^=reports/``, ``lang!=de``. All conditions must hold.
A page without the key fails all of them but ``!=``. On the command line, a ``path`` may also be written from
the current folder, as results show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError
from vsplade.store.columns import EXACT, Column
from vsplade.store.segment import Segment
from vsplade.types import Json

OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "prefix")
_TEXT = re.compile(r"^(?P<key>[^=<>!^]+?)(?P<sign>\^=|!=|>=|<=|=|>|<)(?P<value>.*)$", re.DOTALL)
_SIGNS = {"!=": "ne", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt", "^=": "prefix"}

_COMPARE: dict[str, Callable[[NDArray[np.float64], float], NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "gte": np.greater_equal,
    "lt": np.less,
    "lte": np.less_equal,
}
PATH = "path"
"""Of a page's file: the one key whose values people write in two ways."""
_FEW = 16
"""Values of a set that are looked for one by one."""

Value = Json | tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    key: str
    operator: str
    value: Value
    kinds: tuple[bool, ...] = field(init=False, repr=False)
    """Part of what makes two conditions equal: in Python True == 1, but they are different values here."""

    def __post_init__(self) -> None:
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        object.__setattr__(self, "kinds", tuple(isinstance(value, bool) for value in values))

    def allows(self, value: Any) -> bool:
        """Whether a page with this value (None: without the key) may be found.

        A list (tags) passes where one of its values does; ``!=`` holds where none is that value.
        """
        if isinstance(value, list):
            every = self.operator == "ne"
            return (all if every else any)(self.allows(one) for one in value)
        if self.operator == "eq":
            return _same(value, self.value)
        if self.operator == "ne":
            return not _same(value, self.value)
        if self.operator == "in":
            return isinstance(self.value, tuple) and any(_same(value, one) for one in self.value)
        if self.operator == "prefix":
            prefixes = self.value if isinstance(self.value, tuple) else (self.value,)
            return isinstance(value, str) and value.startswith(tuple(map(str, prefixes)))
        return _in_range(value, self.operator, self.value)

    def mask(self, segment: Segment) -> NDArray[np.bool_]:
        column = segment.column(self.key)
        if column is None:
            return np.full(segment.pages, self.allows(None))
        return column.mask(np.append(self.allows(None), self._allowed(column)))

    def _allowed(self, column: Column) -> NDArray[np.bool_]:
        """``allows`` for each distinct value; numbers all at once: they often differ on every page."""
        if self.operator == "in" and isinstance(self.value, tuple) and len(self.value) <= _FEW:
            each = [Condition(self.key, "eq", one)._allowed(column) for one in self.value]
            return np.logical_or.reduce(each) if each else np.zeros(len(column.values), dtype=bool)
        limit = self.value
        if self.operator in _COMPARE and isinstance(limit, int | float) and not isinstance(limit, bool):
            numbers = column.numbers
            if numbers is not None and abs(limit) <= EXACT and not column.has_lists:
                return _COMPARE[self.operator](numbers, float(limit))
        return np.array([self.allows(value) for value in column.values], dtype=bool)


def _same(value: Json, wanted: Value) -> bool:
    """Equal, where numbers equal numbers of any type but True is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _in_range(value: Json, operator: str, limit: Value) -> bool:
    if isinstance(value, str) and isinstance(limit, str):
        order = (value > limit) - (value < limit)
    elif _number(value) and _number(limit):
        order = (value > limit) - (value < limit)  # type: ignore[operator]
    else:
        return False
    return {"gt": order > 0, "gte": order >= 0, "lt": order < 0, "lte": order <= 0}[operator]


def _number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, given: Filter | Mapping[str, object] | str | Iterable[str] | None) -> Filter:
        """From whatever form a caller has: a mapping, one text, several texts, or nothing."""
        if given is None:
            return cls()
        if isinstance(given, Filter):
            return given
        if isinstance(given, Mapping):
            return cls(tuple(one for key, value in given.items() for one in _from_value(key, value)))
        texts = [given] if isinstance(given, str) else list(given)
        return cls(tuple(one for text in texts for one in parse_condition(text)))

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def allows(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a page with these metadata may be found."""
        return all(condition.allows(metadata.get(condition.key)) for condition in self.conditions)

    def mask(self, segment: Segment) -> NDArray[np.bool_]:
        """The pages of a segment that may be found."""
        mask = np.ones(segment.pages, dtype=bool)
        for condition in self.conditions:
            mask &= condition.mask(segment)
        return mask


def _from_value(key: str, value: object) -> Iterable[Condition]:
    if isinstance(value, Mapping):
        for operator, operand in value.items():
            yield _condition(key, operator, operand)
    elif isinstance(value, list | tuple | set | frozenset):
        yield _condition(key, "in", value)
    else:
        yield _condition(key, "eq", value)


def _condition(key: str, operator: object, operand: object) -> Condition:
    if operator not in OPERATORS:
        raise InputError(
            f"filter on {key!r}: unknown operator {operator!r}; use one of {', '.join(OPERATORS)}."
        )
    if operator == "in":
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InputError(f"filter on {key!r}: `in` needs a list of values, not {operand!r}.")
        return Condition(key, "in", tuple(_scalar(key, one) for one in operand))
    if operator == "prefix" and not isinstance(operand, str):
        raise InputError(f"filter on {key!r}: `prefix` needs a text, not {operand!r}.")
    return Condition(key, str(operator), _scalar(key, operand))


def _scalar(key: str, value: object) -> Json:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(f"filter on {key!r}: {value!r} is not a text, a number, true, false or null.")


def parse_condition(text: str) -> list[Condition]:
    """``key=value`` and its relatives. A value that reads as a number also matches that text."""
    match = _TEXT.match(text)
    if match is None:
        raise InputError(
            f"filter {text!r} is not understood; write key=value, key=a,b, key=low..high, key>=value, "
            "key!=value or key^=prefix."
        )
    key, sign, value = match["key"].strip(), match["sign"], match["value"]
    if key == PATH and sign in ("=", "!=", "^="):
        return _parse_path(sign, value)
    if sign == "^=":
        return [Condition(key, "prefix", value)]
    if sign == "=" and ".." in value:
        low, _, high = value.partition("..")
        ends = [("gte", low), ("lte", high)]
        return [Condition(key, operator, _readings(end)[-1]) for operator, end in ends if end]
    if sign == "=":
        return [Condition(key, "in", tuple(one for part in value.split(",") for one in _readings(part)))]
    if sign == "!=":
        return [Condition(key, "ne", one) for one in _readings(value)]
    return [Condition(key, _SIGNS[sign], _readings(value)[-1])]


def _parse_path(sign: str, value: str) -> list[Condition]:
    """An index holds absolute paths; results show those below the current folder without it. Take both."""
    if sign == "^=":
        return [Condition(PATH, "prefix", tuple(_path_forms(value)))]
    if sign == "!=":
        return [Condition(PATH, "ne", form) for form in _path_forms(value)]
    # A name may hold commas: the whole text is looked for as well as its parts.
    names = dict.fromkeys([value, *value.split(",")])
    return [Condition(PATH, "in", tuple(form for name in names for form in _path_forms(name)))]


def _path_forms(typed: str) -> list[str]:
    """As it was typed, and from the root; an end with a separator is kept, for prefixes."""
    if not typed:
        return [typed]
    absolute = os.path.abspath(typed)
    if typed.endswith(os.sep) and not absolute.endswith(os.sep):
        absolute += os.sep
    return list(dict.fromkeys([typed, absolute]))


def _readings(text: str) -> list[Json]:
    """The text itself, and the number or truth value that it spells, if any."""
    if text in ("true", "false"):
        return [text, text == "true"]
    for kind in (int, float):
        try:
            return [text, kind(text)]
        except ValueError:
            continue
    return [text]
