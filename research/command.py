"""A command line for every step of research: its options are the fields of a dataclass.

A module that is a step ends in ``main(step, Options)``; ``python -m research.reader.words --help`` lists
what it takes.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from vsplade.cli import run
from vsplade.cli.common import json_option, print_json
from vsplade.cli.options import option, with_options

__all__ = ["command", "main", "option", "run_step"]

Step = Callable[..., Any]
"""Returns what is printed: facts by name, rows of them, or a text."""


def command(step: Step, *classes: type, **fixed: Any) -> click.Command:
    """``step`` is called with an object of each class, and with ``fixed``."""

    @json_option
    def call(as_json: bool, **given: Any) -> None:
        built = [one(**{f.name: given[f.name] for f in dataclasses.fields(one)}) for one in classes]
        _print(step(*built, **fixed), as_json)

    for one in reversed(classes):
        call = with_options(call, one)
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
