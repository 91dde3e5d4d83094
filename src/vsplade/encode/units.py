"""What stands together in a text: words, and numbers and codes of several runs (``H-6927``, ``25/12/2018``).

The tokenizer knows runs of letters and runs of digits only. A *unit* is one run, or several that stand
together without a space: next to each other, or with one mark between them where at least one side is a
digit. ``well-known`` is two units, ``A12-B`` is one. Marks are no part of a unit: ``25/12/2018`` and
``25-12-2018`` are the same. Telephone numbers are one unit, with brackets and spaces too (``phones``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from vsplade.encode.dates import named_days
from vsplade.encode.phones import joined_phones, other_grouping
from vsplade.encode.tokenizer import LONGEST_WORD, RUNS, normalise

Unit = tuple[str, ...]
"""Runs of letters and runs of digits, in order."""

_DIGITS = re.compile("[0-9]")
_BESIDE_A_DIGIT = frozenset("-./–‐‑")
_BETWEEN_DIGITS = _BESIDE_A_DIGIT | frozenset(",:'’")
_GROUPED = re.compile(
    r"(?<![0-9.,])[0-9]{1,3}(?:(?:,[0-9]{2,3})*,[0-9]{3}|(?:[.'’][0-9]{3}){2,})"
    r"(?![0-9]|[.,'’][0-9]{3}(?![0-9]))"
)
"""A whole number in groups: ``4,077,010``, ``99,91,081`` (India), ``4.077.010``, ``4'077'010``. ``4.077`` may
as well be a fraction and is none.
"""
LONGEST_NUMBER = 12
"""Digits; longer ones are numbers of things (accounts, articles), which have no groups."""
LONGEST_UNIT = 12
"""Runs; what is longer (a hash, a table without spaces) is cut there."""


def ungrouped(text: str) -> str:
    """The text with its grouped numbers in one run each: ``4,077,010.89`` becomes ``4077010.89``."""
    return _GROUPED.sub(lambda match: re.sub(r"[^0-9]", "", match.group()), text)


def grouped(digits: str) -> Unit:
    """``4077010`` as it stands where thousands are set apart: ``4``, ``077``, ``010``."""
    first = len(digits) % 3
    groups = [digits[at : at + 3] for at in range(first, len(digits), 3)]
    return tuple([digits[:first], *groups] if first else groups)


def units(text: str) -> Iterator[Unit]:
    """The units of already normalised text, in order."""
    text = joined_phones(text)
    runs: list[str] = []
    end = -1
    for match in RUNS.finditer(text):
        run = match.group()[:LONGEST_WORD]
        if runs and (len(runs) == LONGEST_UNIT or not _joined(runs[-1], text[end : match.start()], run)):
            yield tuple(runs)
            runs = []
        runs.append(run)
        end = match.end()
    if runs:
        yield tuple(runs)


def _joined(left: str, between: str, right: str) -> bool:
    if not between:
        return True  # letters beside digits: one run would have taken them otherwise
    digits = left.isdigit() + right.isdigit()
    return between in (_BETWEEN_DIGITS if digits == 2 else _BESIDE_A_DIGIT if digits else ())


def readings(typed: str, known: Callable[[str], bool]) -> list[list[Unit]]:
    """The units of a typed text, and those of the same text with its numbers written otherwise: without
    groups of thousands where it has them, with groups where not (years and other ``known`` runs stay); days
    in digits that the text has with the name of their month; and telephone numbers the other way.
    """
    text = normalise(typed)
    if not _DIGITS.search(text):
        return [list(units(text))]
    written = _numbers(text, known)
    days: list[Unit] = [*named_days(text)]
    phones = [phone for unit in written[0] if (phone := other_grouping(unit))]
    return [*written, *(more for more in (days, phones) if more)]


def _numbers(text: str, known: Callable[[str], bool]) -> list[list[Unit]]:
    plain = ungrouped(text)
    if plain != text:
        return [list(units(text)), list(units(plain))]
    first = list(units(text))
    second = [
        tuple(part for run in unit for part in (grouped(run) if _groupable(run, known) else (run,)))
        if all(run.isdigit() for run in unit)
        else unit
        for unit in first
    ]
    return [first] if first == second else [first, second]


def _groupable(run: str, known: Callable[[str], bool]) -> bool:
    return run.isdigit() and 4 <= len(run) <= LONGEST_NUMBER and run[0] != "0" and not known(run)
