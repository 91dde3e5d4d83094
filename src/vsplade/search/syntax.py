"""What searchers type: words, ``"a phrase"``, ``+must``, ``-must not``, ``beginning*``.

Anything else that looks like an operator of another search engine is searched for as words, and a note says
so. A hyphen inside a word, ``C++``, ``-5`` and the signs of a telephone number are no operators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from vsplade.encode.phones import joined_phones
from vsplade.encode.query_length import check_query_length

_SPECIAL = re.compile(r'["“”„+*~^():]|(?:^|\s)-|\b(?:AND|OR|NOT)\b')
_SIGNS = (*'"“”„+*~^():-', "AND", "OR", "NOT")
_TOKEN = re.compile(r'([+-]?)"([^"]*)"|(\S+)')
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"'})
_FIELD = re.compile(r"[A-Za-z_][A-Za-z_.]*:(?!//)\S+")
SHORTEST_BEGINNING = 2


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """Texts as they were typed, without their operators."""

    words: tuple[str, ...] = ()
    """Words that are searched for; any of them may be missing on a page."""
    phrases: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    must_not_phrases: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What was not understood as it may have been meant."""

    @property
    def text(self) -> str:
        """All that a page may hold, in the order of words, required words and phrases."""
        return " ".join((*self.words, *self.must, *self.phrases))

    @property
    def conditions(self) -> bool:
        """Whether pages are left out, whatever their score."""
        return bool(self.phrases or self.must or self.must_not or self.must_not_phrases)

    @property
    def plain(self) -> bool:
        return not (self.conditions or self.beginnings)


def has_operators(text: str) -> bool:
    """Whether there may be any: what every query is asked, so first by the letters alone."""
    return any(sign in text for sign in _SIGNS) and _SPECIAL.search(text) is not None


def parse(text: str) -> ParsedQuery:
    """A text as it was typed; one that is too long is refused, and not kept."""
    check_query_length(text)
    return _parse(text)


@lru_cache(maxsize=256)
def _parse(text: str) -> ParsedQuery:
    if not has_operators(text):
        return ParsedQuery((text,))
    text = joined_phones(text)  # the signs of "+1 (212) 555-0199" are no operators
    return _Parser().parse(text.translate(_QUOTES))


class _Parser:
    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {
            name: [] for name in ("words", "phrases", "must", "must_not", "must_not_phrases", "beginnings")
        }
        self.notes: list[str] = []

    def parse(self, text: str) -> ParsedQuery:
        if text.count('"') % 2:
            self.notes.append(
                'A quote (") has no partner; it is ignored. Write "two quotes" around a phrase.'
            )
            at = text.rindex('"')
            text = text[:at] + " " + text[at + 1 :]
        for sign, phrase, word in _TOKEN.findall(text):
            if word:
                self._word(word)
            elif any(char.isalnum() for char in phrase):
                self.found["must_not_phrases" if sign == "-" else "phrases"].append(phrase.strip())
        if any(self.found[name] for name in ("must_not", "must_not_phrases")) and not any(
            self.found[name] for name in ("words", "phrases", "must", "beginnings")
        ):
            self.notes.append("The query only says what pages must not hold. Add a word to search for.")
        return ParsedQuery(
            **{name: tuple(texts) for name, texts in self.found.items()}, notes=tuple(self.notes)
        )

    def _word(self, word: str) -> None:
        sign, rest = (word[0], word[1:]) if word[0] in "+-" else ("", word)
        if sign and not rest[:1].isalnum():
            sign, rest = "", word  # "--", "+-", a dash
        if sign == "-" and rest[0].isdigit():
            sign, number = "", rest
            rest = word
            self.notes.append(
                f'{word} is searched for as a number. To leave out pages that hold it, write -"{number}".'
            )
        if sign:
            self.found["must" if sign == "+" else "must_not"].append(rest)
        elif rest.endswith("*") and rest.count("*") == 1 and rest[:-1].isalnum():
            self._beginning(rest[:-1])
        else:
            self._explain(rest)
            self.found["words"].append(rest)

    def _beginning(self, letters: str) -> None:
        if len(letters) < SHORTEST_BEGINNING:
            self.notes.append(
                f"{letters}* is too short: write at least {SHORTEST_BEGINNING} letters before *."
            )
            self.found["words"].append(letters)
        elif letters not in self.found["beginnings"]:  # each is looked up among all words
            self.found["beginnings"].append(letters)

    def _explain(self, word: str) -> None:
        """A note where a word looks like an operator that there is not."""
        if word in ("AND", "OR", "NOT"):
            self.notes.append(
                f"{word} is searched for as a word. All words count anyway; +word must stand on a page, "
                "-word must not."
            )
        elif _FIELD.fullmatch(word):
            name, _, value = word.partition(":")
            self.notes.append(
                f"{word} is searched for as words. To search by metadata, give the filter {name}={value}."
            )
        elif "(" in word or ")" in word:
            if not any(note.startswith("Brackets") for note in self.notes):
                self.notes.append("Brackets do not group words; they are ignored.")
        elif "*" in word:
            self.notes.append(f"{word}: * stands for letters only at the end of a word; it is ignored.")
        elif sign := re.search(r"\w[~^]([\d.]*)$", word):
            plain = word[: sign.start() + 1]
            told = (
                f"it is searched for as it stands. Write {plain} alone." if sign[1] else "they are ignored."
            )
            self.notes.append(f"{word}: ~ and ^ have no meaning here; {told}")


__all__ = ["ParsedQuery", "has_operators", "parse"]
