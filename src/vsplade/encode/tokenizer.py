"""Words to vocabulary terms: the one tokenizer, for queries, text layers and the reader's labels.

Why our own. The reader has to name, from pixels alone, the pieces that a query will be split into, so the
pieces follow what can be *seen*: lower case, accents stripped, punctuation never a term, digits in fixed
groups of three from the left (years stay whole). Greedy longest match needs no table of merges and one look
from left to right, which is also how the reader sees a word. It loads in milliseconds and needs no library at
query time.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources

from vsplade.errors import InputError

CONTINUATION = "##"
LONGEST_WORD = 48
"""Longer runs of letters are noise (base64, separators): only their first characters are read."""

_RUNS = re.compile(r"[a-z]+|[0-9]+")
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
    return (match.group()[:LONGEST_WORD] for match in _RUNS.finditer(text))


class Tokenizer:
    """Greedy longest-match word pieces over a fixed vocabulary; a piece that goes on a word begins with
    ``##``.
    """

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._terms = {token: term for term, token in enumerate(tokens)}
        if len(self._terms) != len(tokens):
            raise InputError("The vocabulary lists a token twice; every line must be different.")
        self._longest = max((len(token) for token in tokens), default=0)
        self.fingerprint = hashlib.blake2b("\n".join(tokens).encode(), digest_size=8).hexdigest()
        self.pieces = lru_cache(maxsize=1 << 16)(self._pieces)

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

    def encode(self, text: str) -> list[int]:
        """Term numbers in reading order, repeats kept."""
        return [term for word in split_words(normalise(text)) for term in self.pieces(word)]

    def _pieces(self, word: str) -> tuple[int, ...]:
        """The pieces of one word of ``split_words``; characters outside the vocabulary are passed over."""
        pieces: list[int] = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                term = self._terms.get(prefix + word[start:end])
                if term is not None:
                    pieces.append(term)
                    break
            else:
                end = start + 1
            start = end
        return tuple(pieces)
