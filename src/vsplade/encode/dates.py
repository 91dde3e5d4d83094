"""Days, however they are written: ``25/12/2018``, ``25 Dec 2018``, ``Dec. 25, 2018``, ``2018-12-25``.

Three runs that may be a day are hashed as day, month and year, on pages and in queries alike. So all ways to
write a day have one number, and no term is added. A day in numbers alone may be read in two ways: it is taken
for day, month, year, unless the second number can be no month. What only looks like a day (``10:06:20``) is
taken for one on both sides, so it is still found as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.tokenizer import Tokenizer

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_NAMES = {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
_NAMES |= {name: number for number, name in enumerate(MONTHS, 1)}
_PIVOT = 40
"""Years of two digits from here on are of the last century."""
FIRST_YEAR, LAST_YEAR = 1900, 2099

_NAME = "|".join(sorted(_NAMES, key=len, reverse=True))
_DAY = r"([0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR = r"'?((?:19|20)[0-9]{2}|[0-9]{2})(?![0-9])"
_NAMED = re.compile(
    rf"(?<![0-9a-z])(?:{_DAY}[ .,/-]{{0,2}}(?:of )?({_NAME})\.?|({_NAME})\.? ?{_DAY})[ ,/-]{{1,2}}{_YEAR}"
)


def named_days(text: str) -> list[tuple[str, str, str]]:
    """Day, month and year of what names its month in already normalised text: ``25 dec 2018``."""
    found = []
    for match in _NAMED.finditer(text):
        day, month, name, date, year = match.groups()
        found.append(day_of((day, month, year) if day else (name, date, year)))
    return [day for day in found if day is not None]


def day_of(runs: tuple[str, ...]) -> tuple[str, str, str] | None:
    """Day, month and year, in two, two and four digits, if three runs may be one."""
    if len(runs) != 3:
        return None
    columns = (np.array([value]) for run in runs for value in _values(run))
    day, month, year, is_day = (int(column[0]) for column in _days(*columns))
    return (f"{day:02}", f"{month:02}", str(year)) if is_day else None


def _values(run: str) -> tuple[int, int, int, int]:
    """What a run may be: a day, a month in digits, a month by name, a year; 0 where it cannot."""
    if not run.isdigit():
        return 0, 0, _NAMES.get(run, 0), 0
    number = int(run) if len(run) <= 4 else 0
    day = number if len(run) <= 2 and number <= 31 else 0
    if len(run) == 2:
        year = number + (1900 if number >= _PIVOT else 2000)
    else:
        year = number if len(run) == 4 and FIRST_YEAR <= number <= LAST_YEAR else 0
    return day, day if day <= 12 else 0, 0, year


def _days(*columns: Any) -> tuple[Any, Any, Any, Any]:
    """Day, month, year and whether it is one, of three runs each, by what they may be: ``_values``, four
    columns a run. Plain arithmetic, so that arrays and torch's tensors do.
    """
    day1, number1, name1, year1, day2, number2, name2, _, day3, _, _, year3 = columns
    month1, month2 = number1 + name1, number2 + name2
    day_first = (day1 > 0) & (month2 > 0) & (year3 > 0)
    month_first = ~day_first & (month1 > 0) & (day2 > 0) & (year3 > 0)
    year_first = ~day_first & ~month_first & (day1 == 0) & (year1 > 0) & (month2 > 0) & (day3 > 0)
    return (
        day1 * day_first + day2 * month_first + day3 * year_first,
        month2 * (day_first | year_first) + month1 * month_first,
        year3 * (day_first | month_first) + year1 * year_first,
        day_first | month_first | year_first,
    )


class DayTerms:
    """The same for terms of the vocabulary, many at a time."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
        self.values: Any = np.array([_values(token) for token in tokens], np.int64).T
        """(4, terms) as ``_values`` has them."""
        numbers = [tokenizer.term(f"{number:02}") for number in range(32)]
        years = [tokenizer.term(str(year)) for year in range(FIRST_YEAR, LAST_YEAR + 1)]
        self.known = None not in numbers + years
        """Whether the vocabulary has all that it takes to write a day."""
        self.number: Any = np.array(numbers if self.known else [0] * 32, np.int64)
        """The terms of ``00`` to ``31``."""
        self.year: Any = np.array(years if self.known else [0], np.int64)

    def moved(self, to: Callable[[NDArray[np.int64]], Any]) -> DayTerms:
        """The same with other arrays: torch's tensors."""
        other = copy(self)
        other.values, other.number, other.year = to(self.values), to(self.number), to(self.year)
        return other

    def as_days(self, *terms: Any) -> tuple[Any, ...]:
        """First, second and third terms; where three may be a day, those of its day, month and year."""
        if not self.known:
            return terms
        day, month, year, is_day = _days(*(row[term] for term in terms for row in self.values))
        written = self.number[day], self.number[month], self.year[(year - FIRST_YEAR) * is_day]
        return tuple(new * is_day + old * ~is_day for new, old in zip(written, terms, strict=True))
