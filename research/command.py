"""A command line for every step of research: its options are the fields of a dataclass.

A module that is a step ends in ``main(step, Options)``; ``python -m research.reader.words --help`` lists
what it takes.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import click

from vsplade.cli import run
from vsplade.cli.common import json_option, print_json

Step = Callable[..., Any]
"""Returns what is printed: facts by name, rows of them, or a text."""


def option(help: str, default: Any = MISSING, **extra: Any) -> Any:
    """A dataclass field that explains itself; ``extra`` may hold ``argument=True`` or ``choices``."""
    metadata = {"help": help, **extra}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def command(step: Step, *classes: type, **fixed: Any) -> click.Command:
    """``step`` is called with an object of each class, and with ``fixed``."""

    @json_option
    def call(as_json: bool, **given: Any) -> None:
        built = [one(**{f.name: given[f.name] for f in dataclasses.fields(one)}) for one in classes]
        _print(step(*built, **fixed), as_json)

    for one in reversed(classes):
        hints = get_type_hints(one)
        for each in reversed(dataclasses.fields(one)):
            call = _parameter(each, hints[each.name])(call)
    return click.command(help=inspect.getdoc(step), context_settings={"help_option_names": ["-h", "--help"]})(
        call
    )


def _print(result: Any, as_json: bool) -> None:
    """Facts as lines, a table as text, all else as JSON."""
    if result is None:
        return
    if isinstance(result, str):
        click.echo(result.rstrip("\n"))
    elif as_json or not (isinstance(result, dict) and all(map(_is_plain, result.values()))):
        print_json(result)
    else:
        for name, value in result.items():
            click.echo(f"{name}: {value}")


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list | tuple)


def run_step(arguments: Sequence[str], step: Step, *classes: type, **fixed: Any) -> int:
    """The exit code; errors are told as the ``vsplade`` program tells them."""
    return run(list(arguments), command(step, *classes, **fixed), step.__name__)


def main(step: Step, *classes: type, **fixed: Any) -> None:
    sys.exit(run_step(sys.argv[1:], step, *classes, **fixed))


def _parameter(one: dataclasses.Field[Any], hint: Any) -> Callable[[Any], Any]:
    kind, several = _click_type(hint)
    if "choices" in one.metadata:
        kind = click.Choice(one.metadata["choices"])
    if one.metadata.get("argument"):
        shown = one.name.upper() + ("..." if several else "")
        return click.argument(
            one.name, type=kind, nargs=-1 if several else 1, required=one.default is MISSING, metavar=shown
        )
    flag = "--" + one.name.replace("_", "-")
    required = one.default is MISSING
    given: dict[str, Any] = {} if required else {"default": one.default}
    if hint is bool:
        return click.option(flag, one.name, is_flag=True, help=one.metadata["help"])
    return click.option(
        flag, one.name, type=kind, required=required, multiple=several, help=one.metadata["help"],
        show_default=one.default not in (None, "", MISSING), **given,
    )  # fmt: skip


def _click_type(hint: Any) -> tuple[Any, bool]:
    """The click type of a field, and whether it may be given several times."""
    if get_origin(hint) in (Union, types.UnionType):
        return _click_type(next(kind for kind in get_args(hint) if kind is not type(None)))
    if get_origin(hint) is tuple:
        return _click_type(get_args(hint)[0])[0], True
    return (click.Path(path_type=Path) if hint is Path else hint), False
