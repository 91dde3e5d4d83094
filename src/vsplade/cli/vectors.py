"""``vsplade encode``, ``export`` and ``import``: vectors in and out of vsplade."""

from __future__ import annotations

import click

COMMANDS: tuple[click.Command, ...] = ()
