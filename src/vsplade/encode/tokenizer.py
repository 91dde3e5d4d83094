"""Words to vocabulary terms: the one tokenizer, for queries, text layers and the reader's labels.

Why our own. The reader has to name, from pixels alone, the pieces that a query will be split into, so the
pieces follow what can be *seen*: lower case, accents stripped, punctuation never a term. Frequent words,
years and numbers of up to three digits are terms of their own; a longer number is its first and last two or
three digits. Any other word is known by how it begins, how it ends and, when it is long, by the letters in
its middle: ``toxicology`` is ``tox##``, ``##icol##`` and ``##logy``. Each of the three can be read where it
stands. Pieces that follow one another without a gap, as other tokenizers cut them, cannot: where one ends
depends on all the letters before it (docs/log.md has what that cost). It loads in milliseconds and needs no
library at query time.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from importlib import resources

from vsplade.errors import InputError

GOES_ON = "##"
"""Stands on the side of a piece where its word goes on."""
LONGEST_PIECE = 4
LONG_WORD = 8
"""Words of so many letters show their middle too: in shorter ones it would touch the ends."""
LONGEST_WORD = 48
"""Longer runs of letters are noise (base64, separators): only their first characters are read."""

RUNS = re.compile(r"[a-z]+|[0-9]+")
"""Of letters, and of digits."""
_ALWAYS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ł": "l", "ı": "i", "þ": "th", "ð": "d"}
)


def normalise(text: str) -> str:
    """Lower case, compatibility forms folded (``ﬁ`` becomes ``fi``), accents stripped."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.lower().translate(_ALWAYS))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def split_words(text: str) -> Iterator[str]:
    """Runs of letters and runs of digits of already normalised text, in order."""
    return (match.group()[:LONGEST_WORD] for match in RUNS.finditer(text))


def is_foreign(word: str) -> bool:
    """Whether a word has letters or digits, and none that are known: no page can be said to hold it."""
    return RUNS.search(normalise(word)) is None and any(map(str.isalnum, word))


def letters_of(token: str) -> str:
    """What a token looks like on paper."""
    return token.strip("#")


def beginnings(word: str) -> list[str]:
    """The letters that may stand for the beginning of a rare word, longest first."""
    longest = min(LONGEST_PIECE, (len(word) + 1) // 2)
    return [word[:end] for end in range(longest, 0, -1)]


def middles(word: str) -> list[str]:
    """The same around the middle of a long word: 3 letters or 1 of an odd word, 4 or 2 of an even one."""
    if len(word) < LONG_WORD:
        return []
    half, odd = divmod(len(word), 2)
    return (
        [word[half - 1 : half + 2], word[half]]
        if odd
        else [word[half - 2 : half + 2], word[half - 1 : half + 1]]
    )


def endings(word: str) -> list[str]:
    """The same for its end, without the letters that may stand for the beginning."""
    longest = min(LONGEST_PIECE, len(word) // 2)
    return [word[-letters:] for letters in range(longest, 0, -1)]


Span = tuple[int, int, int]
"""A term, its first letter in the word, and the one after its last."""


class Tokenizer:
    """Whole words, and pieces of all others, over a fixed vocabulary."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._terms = {token: term for term, token in enumerate(tokens)}
        if len(self._terms) != len(tokens):
            raise InputError("The vocabulary lists a token twice; every line must be different.")
        self.fingerprint = hashlib.blake2b("\n".join(tokens).encode(), digest_size=8).hexdigest()
        self.spans = lru_cache(maxsize=1 << 16)(self._spans)

    @classmethod
    @cache
    def load(cls) -> Tokenizer:
        """The vocabulary that ships in the package."""
        text = (resources.files("vsplade.encode") / "data" / "vocabulary.txt").read_text("utf-8")
        return cls(text.split("\n")[:-1] if text.endswith("\n") else text.split("\n"))

    def __len__(self) -> int:
        return len(self._tokens)

    def token(self, term: int) -> str:
        return self._tokens[term]

    def term(self, token: str) -> int | None:
        return self._terms.get(token)

    def beginning_with(self, letters: str) -> list[int]:
        """The terms of whole words with this beginning, and of the beginnings of rare ones, ascending."""
        tokens = self._by_letters if letters else []
        first = bisect_left(tokens, letters)
        after = bisect_right(tokens, letters, lo=first, key=lambda token: token[: len(letters)])
        return sorted(self._terms[token] for token in tokens[first:after] if not token.startswith(GOES_ON))

    @cached_property
    def _by_letters(self) -> list[str]:
        return sorted(self._tokens)

    def encode(self, text: str) -> list[int]:
        """Term numbers in reading order, repeats kept."""
        return [term for word in split_words(normalise(text)) for term, _, _ in self.spans(word)]

    def _spans(self, word: str) -> tuple[Span, ...]:
        """The terms of one word of ``split_words``; what is not in the vocabulary is passed over."""
        whole = self._terms.get(word)
        if whole is not None:
            return ((whole, 0, len(word)),)
        return tuple(self._groups(word) if word.isdigit() else self._parts(word))

    def _groups(self, digits: str) -> Iterator[Span]:
        """The first and the last digits of a long number: two or three each."""
        size = len(digits)
        first, last = min(3, (size + 1) // 2), min(3, size // 2)
        for token, start in ((digits[:first] + GOES_ON, 0), (GOES_ON + digits[size - last :], size - last)):
            term = self._terms.get(token)
            if term is not None:
                yield term, start, start + len(letters_of(token))

    def _parts(self, word: str) -> Iterator[Span]:
        size = len(word)
        for choices, before, after in (
            (beginnings(word), "", GOES_ON), (middles(word), GOES_ON, GOES_ON), (endings(word), GOES_ON, "")
        ):  # fmt: skip
            for letters in choices:
                term = self._terms.get(before + letters + after)
                if term is not None:
                    start = (
                        0 if not before else size - len(letters) if not after else (size - len(letters)) // 2
                    )
                    yield term, start, start + len(letters)
                    break
