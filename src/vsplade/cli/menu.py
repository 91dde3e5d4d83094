"""What ``vsplade --help`` shows: the twelve commands that matter, then the names of the others."""

from __future__ import annotations

import click

SHOWN = (
    "index",
    "search",
    "serve",
    "inspect",
    "read",
    "stats",
    "delete",
    "encode",
    "export",
    "import",
    "eval",
    "train",
)
"""In the order that people need them."""


class Menu(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [name for name in SHOWN if name in self.commands]
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(64)) for name in shown])
        with formatter.section("More (each has its --help)"):
            formatter.write_text(", ".join(sorted(self.commands.keys() - set(SHOWN))))
