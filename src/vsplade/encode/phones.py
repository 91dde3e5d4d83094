"""Telephone numbers, however they are written: ``+1 (212) 555-0199``, ``212.555.0199``, ``212 555 0199``.

Brackets and spaces inside one become hyphens, so that it is one unit, as numbers of several runs are. The
code of the country stands before it as a word of its own: many pages leave it out. From pixels nothing need
be done, because there runs of digits that stand close to each other belong together, whatever lies between.
"""

from __future__ import annotations

import re

_DASH = r"\-–‐‑"
_AMERICAN = re.compile(
    rf"(?<![0-9a-z.,/{_DASH}])\+?(?:(1)[ .{_DASH}]?)?"
    rf"(?:\(([2-9][0-9]{{2}})\) ?|([2-9][0-9]{{2}})[ ./{_DASH}])"
    rf"([2-9][0-9]{{2}})[ .{_DASH}]([0-9]{{4}})(?![0-9]|[.,/{_DASH}][0-9])"
)
_ABROAD = re.compile(
    rf"(?<![0-9a-z])\+([0-9]{{1,3}})[ .{_DASH}]?(?:\(0\) ?)?"
    rf"(\(?[0-9]{{1,5}}\)?(?:[ .{_DASH}][0-9]{{2,8}}){{1,5}})(?![0-9]|[.,/{_DASH}][0-9])"
)
_RUN = re.compile(r"[2-9][0-9]{2}[2-9][0-9]{6}")
FEWEST, MOST = 6, 14
"""Digits without the code of the country."""


def joined_phones(text: str) -> str:
    """The text with hyphens inside its telephone numbers and nothing else: ``1 212-555-0199``."""
    if not any(digit in text for digit in "0123456789"):
        return text
    return _ABROAD.sub(_abroad, _AMERICAN.sub(_american, text))


def _american(match: re.Match[str]) -> str:
    country, *groups = match.groups()
    number = "-".join(group for group in groups if group)
    return f"{country} {number}" if country else number


def _abroad(match: re.Match[str]) -> str:
    country, rest = match.groups()
    groups = re.findall("[0-9]+", rest)
    return f"{country} {'-'.join(groups)}" if FEWEST <= sum(map(len, groups)) <= MOST else match.group()


def other_grouping(runs: tuple[str, ...]) -> tuple[str, ...] | None:
    """An American number in one run where it has three, and in three where it has one."""
    whole = "".join(runs)
    if not _RUN.fullmatch(whole) or len(runs) not in (1, 3):
        return None
    three = whole[:3], whole[3:6], whole[6:]
    return three if len(runs) == 1 else (whole,) if runs == three else None
