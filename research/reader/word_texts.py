"""What single words say that a speller learns from: half of them words, half numbers and codes."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from pathlib import Path

from research.reader.coined import MONTHS, UNITS, code, figure, misspelt
from research.reader.words import LANGUAGES, address, dressed, made_up

_SCALES = ("k", "K", "M", "MM", "mn", "m", "bn", "B", "Bn", "T", "%", "x", "X", "pp", "bps", "GB", "MHz")
_PERIODS = ("Q1", "Q2", "Q3", "Q4", "FY", "H1", "H2", "1H", "2H", "9M", "CY", "YTD", "1Q", "3Q", "4Q")


def word_lists(path: Path | None = None) -> tuple[list[str], list[str]]:
    """Frequent English words, the most frequent first, and rare and foreign ones; from a file, where
    ``wordfreq`` is not installed.
    """
    if path is not None:
        common, rare = json.loads(path.read_text())
        return common, rare
    from wordfreq import top_n_list

    def plain(language: str, count: int) -> list[str]:
        return [w for w in top_n_list(language, count) if len(w) > 1 and w.isascii() and w.isalpha()]

    english = plain("en", 120_000)
    foreign = {word for language in LANGUAGES for word in plain(language, 15_000)}
    return english[:30_000], english[15_000:] + sorted(foreign)


def printed(rng: random.Random, words: Sequence[str], rare: Sequence[str]) -> str:
    """A word, a number or a code, half of each."""
    chance = rng.random()
    if chance < 0.2:
        return dressed(words[int(len(words) * rng.random() ** 2)], rng)
    if chance < 0.4:
        return dressed(rng.choice(rare), rng)
    if chance < 0.45:
        return dressed(misspelt(rng.choice(words), rng) or "a", rng)
    if chance < 0.5:
        return joined(rng, words, rare)
    if chance < 0.94:
        return rng.choice([figure, figure, code, made_up, number, segments, segments, short])(rng)
    some = rng.choice(
        [string.ascii_lowercase, string.ascii_uppercase, string.ascii_uppercase + string.digits]
    )
    return "".join(rng.choice(some) for _ in range(rng.randint(2, 10)))


def joined(rng: random.Random, words: Sequence[str], rare: Sequence[str]) -> str:
    """Words without a space between them, and addresses of the net."""
    if rng.random() < 0.3:
        return address(words[:5000], rng)[:30]
    one, other = (rng.choice(rng.choice([words[:8000], rare])) for _ in range(2))
    text = f"{one}{rng.choice('--/&.+')}{other}"
    return rng.choice([text, text.upper(), text.title(), f"({one})", f"({one.upper()})"])[:30]


def _digits(rng: random.Random, least: int, most: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(rng.randint(least, most)))


def number(rng: random.Random) -> str:
    """As tables and slides have them: of any size, with signs, scales and brackets, in one of many styles."""
    value = 10 ** rng.uniform(-1, 7)
    plain = rng.choice(
        [f"{value:,.0f}", f"{value:,.1f}", f"{value:.2f}", f"{value:,.2f}", f"{value:.0f}", f"{value:.3f}"]
    )
    if plain.startswith("0.") and rng.random() < 0.4:
        plain = plain[1:]
    before = rng.choice(["", "", "", "", "", "$", "$", "-", "+", "~", "<", ">", "£", "€", "±", "#", "x", "="])
    after = rng.choice(["", "", "", "", "", "", rng.choice(_SCALES), rng.choice(UNITS), "*", ",", "."])
    text = before + plain + after
    wrapped = rng.random()
    if wrapped < 0.08:
        return f"({text})"
    if wrapped < 0.14:
        return f"{text}-{value * rng.uniform(1, 2):.0f}"
    return text


def segments(rng: random.Random) -> str:
    """Letters and digits in two to four parts, with and without marks between them."""
    capital = rng.random() < 0.75
    letters = string.ascii_uppercase if capital else string.ascii_lowercase
    mixed = string.digits + letters

    def part() -> str:
        chance = rng.random()
        if chance < 0.4:
            return "".join(rng.choice(letters) for _ in range(rng.randint(1, 4)))
        if chance < 0.85:
            return _digits(rng, 1, 5)
        return "".join(rng.choice(mixed) for _ in range(rng.randint(2, 6)))

    mark = rng.choice(["", "", "-", "-", "/", ".", ":", "_"])
    text = mark.join(part() for _ in range(rng.randint(2, 4)))
    return text if rng.random() < 0.9 else f"({text})"


def short(rng: random.Random) -> str:
    """What slides and forms abbreviate: 3Q15, FY2013, v2.0, B2B, 10mg, Fig.3, 1980s, 5-HT, Sec.12(b)."""
    letters = "".join(rng.choice(string.ascii_uppercase) for _ in range(rng.randint(1, 3)))
    year = rng.randint(1950, 2025)
    forms = [
        f"{rng.choice(_PERIODS)}{rng.choice(['', '-', '/'])}{rng.choice([year, year % 100])}",
        f"{rng.choice(_PERIODS)}{rng.choice(['', ' '])}{rng.choice(['FY', ''])}{year % 100:02d}",
        f"{rng.choice('vVrR')}{rng.randint(0, 12)}.{rng.randint(0, 20)}",
        f"{letters}{rng.randint(1, 9)}{rng.choice(string.ascii_uppercase)}",
        f"{rng.randint(1, 999)}{rng.choice(UNITS)}",
        f"{rng.choice(['Fig.', 'Table', 'No.', 'Sec.', 'p.', 'pp.', 'Vol.'])}{_digits(rng, 1, 3)}",
        f"{year // 10 * 10}s",
        f"{year}-{rng.choice([year + 1, (year + 1) % 100])}",
        f"{year}E" if rng.random() < 0.5 else f"'{year % 100:02d}",
        f"{rng.randint(1, 20)}{rng.choice(['-', ''])}{letters}",
        f"{rng.randint(1, 30)}({rng.choice('abcdivx')})",
        f"{letters[0]}.{rng.choice(string.ascii_uppercase)}.",
        f"{rng.choice(MONTHS)}{rng.choice(['-', ' ', '.', ''])}{year % 100:02d}",
        f"{rng.randint(1, 12)}/{rng.randint(1, 31)}/{year % 100:02d}",
        f"{rng.randint(1, 12)}-{rng.randint(1, 31)}-{year % 100:02d}",
        f"{letters}{_digits(rng, 5, 9)}",
        _digits(rng, 8, 11),
        f"@{letters.lower()}{rng.randint(1, 99)}",
    ]
    return rng.choice(forms)
