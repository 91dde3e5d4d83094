"""Passwords that protected PDFs are opened with.

They live in this process's environment and nowhere else: the processes that open files inherit them. They are
never written to an index, to a log or to a message.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vsplade.errors import InputError

VARIABLE = "VSPLADE_PDF_PASSWORDS"
"""The environment variable: one password a line."""
MOST = 100
LONGEST = 127
"""Bytes of one; PDF allows no more."""


def known_passwords() -> list[str]:
    """Those that were given, in their order."""
    return _lines(os.environ.get(VARIABLE, ""))


def use_passwords(passwords: Iterable[str]) -> None:
    """Try these too, from now on, in this process and in those that it starts."""
    every = list(dict.fromkeys([*known_passwords(), *passwords]))
    for password in every:
        if not password or "\n" in password or "\0" in password or len(password.encode()) > LONGEST:
            raise InputError(f"A password of a PDF is one line of 1 to {LONGEST} bytes.")
    if len(every) > MOST:
        raise InputError(f"{len(every)} passwords are too many: each file is tried with all. Give {MOST}.")
    if every:
        os.environ[VARIABLE] = "\n".join(every)


def read_passwords(path: Path) -> list[str]:
    """One a line, as they stand there; empty lines are none."""
    try:
        found = _lines(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as passwords, one a line in UTF-8.") from error
    if not found:
        raise InputError(f"{path}: there is no password in this file. Write one a line.")
    return found


def _lines(text: str) -> list[str]:
    return [line for line in (each.rstrip("\r") for each in text.split("\n")) if line]
