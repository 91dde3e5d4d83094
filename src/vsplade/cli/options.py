"""A command's options as the fields of a frozen dataclass: declared once, and handed on as one object."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import MISSING, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
NEW_FILE = click.Path(path_type=Path, dir_okay=False, writable=True)
FOLDER = click.Path(path_type=Path, file_okay=False)


def option(help: str, default: Any = MISSING, **extra: Any) -> Any:
    """A field that explains itself. ``extra`` may hold ``flag`` (where it is not the field's name), ``kind``
    (click's, where the field's type says too little), ``choices``, ``metavar``, and ``argument=True``.
    """
    metadata = {"help": help, **extra}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def takes(kind: type) -> Callable[[Command], Command]:
    """The command gets what was typed as ``asked``, an object of this class."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**given: Any) -> Any:
            asked = kind(**{each.name: given.pop(each.name) for each in dataclasses.fields(kind)})
            return command(asked=asked, **given)

        return with_options(call, kind)  # type: ignore[return-value]

    return decorate


def with_options(command: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """One parameter of click for each field, in their order."""
    hints = get_type_hints(kind)
    for each in reversed(dataclasses.fields(kind)):
        command = _parameter(each, hints[each.name])(command)
    return command


def _parameter(one: dataclasses.Field[Any], hint: Any) -> Callable[[Any], Any]:
    told = one.metadata
    kind, several = _click_type(hint)
    kind = click.Choice(told["choices"]) if "choices" in told else told.get("kind", kind)
    required = one.default is MISSING
    if told.get("argument"):
        shown = one.name.upper() + ("..." if several else "")
        return click.argument(
            one.name, type=kind, nargs=-1 if several else 1, required=required, metavar=shown
        )
    flag = told.get("flag", "--" + one.name.replace("_", "-"))
    given: dict[str, Any] = {} if required else {"default": one.default, "show_default": bool(one.default)}
    if hint is bool:
        return click.option(flag, one.name, is_flag=True, help=told["help"])
    return click.option(
        flag, one.name, type=kind, required=required, multiple=several, help=told["help"],
        metavar=told.get("metavar"), **given,
    )  # fmt: skip


def _click_type(hint: Any) -> tuple[Any, bool]:
    """The click type of a field, and whether it may be given several times."""
    if get_origin(hint) in (Union, types.UnionType):
        return _click_type(next(kind for kind in get_args(hint) if kind is not type(None)))
    if get_origin(hint) is tuple:
        return _click_type(get_args(hint)[0])[0], True
    return (click.Path(path_type=Path) if hint is Path else hint), False
