"""Options as frozen dataclasses: an unknown key or a value of the wrong kind is refused, never ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, get_type_hints

from vsplade.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)
else:
    Options = TypeVar("Options")

_TRUE, _FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}


def make_options(kind: type[Options], given: Mapping[str, object], owner: str) -> Options:
    """``kind(**given)`` with people's mistakes explained; strings (from a command line) are converted.

    ``owner`` names whose options they are in the message, for example ``encoder 'text'``.
    """
    hints = get_type_hints(kind)
    valid = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(set(given) - set(valid))
    if unknown:
        accepts = f"it accepts: {', '.join(valid)}" if valid else "it takes no options"
        raise InputError(f"{owner} has no option {', '.join(map(repr, unknown))}; {accepts}.")
    return kind(
        **{key: _convert(value, hints[key], f"{owner}, option {key!r}") for key, value in given.items()}
    )


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``name:key=value,key=value``, the one-line way to name a thing together with its options."""
    name, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise InputError(f"Cannot read {item!r} in {spec!r}: write options as name:key=value,key=value.")
        if key.strip() in options:
            raise InputError(f"Option {key.strip()!r} is given twice in {spec!r}; keep one of them.")
        options[key.strip()] = value.strip()
    return name.strip(), options


def format_spec(name: str, options: DataclassInstance) -> str:
    """The shortest spec that ``parse_spec`` and ``make_options`` turn back into these options."""
    changed = [
        f"{field.name}={getattr(options, field.name)}"
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != field.default
    ]
    return f"{name}:{','.join(changed)}" if changed else name


def _convert(value: object, wanted: object, where: str) -> object:
    try:
        if wanted is bool and isinstance(value, str):
            if value.lower() in _TRUE | _FALSE:
                return value.lower() in _TRUE
        elif wanted is bool and isinstance(value, bool):
            return value
        elif wanted is int and isinstance(value, (str, int)) and not isinstance(value, bool):
            return int(value)
        elif wanted is float and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
        elif wanted is str and isinstance(value, str):
            return value
    except ValueError:
        pass  # falls through to the message below
    raise InputError(f"{where}: {value!r} is not {_describe(wanted)}.")


def _describe(wanted: object) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return names.get(wanted, str(wanted)) if isinstance(wanted, type) else str(wanted)
