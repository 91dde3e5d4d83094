"""The command line: parse, call, print.

Command modules import only click at the top; what does the work is imported inside each command, so that
``vsplade --help`` is instant and a search never pays for the renderer or a model runtime.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from vsplade.cli import (
    indexing,
    inspecting,
    measuring,
    reading_text,
    scaling,
    searching,
    serving,
    training,
    upkeep,
    vectors,
)
from vsplade.cli.common import note, print_json, printable
from vsplade.errors import VspladeError, VspladeWarning

INTERRUPTED = 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    finished, but some files failed (each is named in the report)
  2    nothing was done: a wrong option, a missing file, a damaged index
  130  interrupted; run the same command again to go on where it stopped"""


SHOWN = (
    "index", "search", "serve", "inspect", "read", "stats", "delete", "encode", "export", "import", "eval",
    "train",
)  # fmt: skip
"""The twelve commands that matter, in the order that people need them; of the others the names are told."""


class Menu(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [name for name in SHOWN if name in self.commands]
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(64)) for name in shown])
        with formatter.section("More (each has its --help)"):
            formatter.write_text(", ".join(sorted(self.commands.keys() - set(SHOWN))))


@click.group(cls=Menu, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vsplade")
def cli() -> None:
    """Search pages that exist only as pictures."""


for module in (
    indexing, upkeep, searching, serving, inspecting, reading_text, vectors, scaling, measuring, training,
):  # fmt: skip
    for command in module.COMMANDS:
        cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """The ``vsplade`` program: run a command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    _show_warnings()
    # What a service manager sends is obeyed as ctrl-C is: what was done so far is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(given)
    try:
        sys.stdout.flush()
    except OSError:
        # Said already. Python would try again at its end, complain, and leave with a code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _open_closed_streams() -> None:
    """Who starts us with ``>&-`` or ``2>&-`` wants silence: Python would have no stream at all there."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            setattr(sys, name, os.fdopen(descriptor, "w"))


def _show_warnings() -> None:
    """Our own warnings as one line for people, not as Python shows them."""
    warnings.simplefilter("default", VspladeWarning)  # whatever the environment says: people must know
    show = warnings.showwarning

    def show_ours(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
        if issubclass(category, VspladeWarning):
            note(f"Warning: {printable(str(message))}")
        else:
            show(message, category, *rest, **options)

    warnings.showwarning = show_ours


def run(arguments: list[str], command: click.Command = cli, name: str = "vsplade") -> int:
    """Run one command line; errors become a plain message, and with ``--json`` a JSON document as well."""
    try:
        code = command.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except VspladeError as error:
        return _fail(str(error), error.exit_code, arguments)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        message = error.format_message().replace("\n\t", " ")  # click writes choices one below the other
        return _fail(
            message + ("" if message.endswith((".", "?", ")")) else ".") + _hint(error), 2, arguments
        )
    except click.Abort:
        return _fail(
            "Interrupted. Run the same command again to go on where it stopped.", INTERRUPTED, arguments
        )
    except BrokenPipeError:
        # The reader of our output (head, less) has left: nothing to complain about, and nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(f"{reason}: {error.filename}" if error.filename else f"{reason}.", 2, arguments)
    except Exception as error:
        # Python would leave with 1, which is our code for a run that went through.
        for line in traceback.format_exc().splitlines():
            note(printable(line))
        what = f"{type(error).__name__}: {error}"
        return _fail(f"{what}. This is a bug in vsplade; please report it with these lines.", 2, arguments)


def _may_be_a_query(error: click.NoSuchOption, context: click.Context) -> bool:
    return context.command.name == "search" and not error.option_name.startswith("--")


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.ctx and _may_be_a_query(error, error.ctx):
        return " Write -- before a query that begins with -, and options before that."
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" Try: {error.ctx.command_path} --help"
    return ""


def _fail(message: str, code: int, arguments: list[str]) -> int:
    note(f"Error: {printable(message)}")
    if "--json" in arguments:
        with suppress(OSError):  # standard output may be what failed, on a full disk
            print_json({"error": message, "exit_code": code})
    return code
