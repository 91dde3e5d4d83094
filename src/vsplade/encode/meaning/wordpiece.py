"""WordPiece as BERT has it: the tokens of the text model that is behind meaning.

The reader's own tokenizer follows what can be seen on paper; this one is what MiniLM was trained with.
Greedy: of a word the longest piece that is known, then the longest of the rest, and so on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from vsplade.encode.tokenizer import normalise

LONGEST_WORD = 64
_WORDS = re.compile(r"[^\W_]+|[^\w\s]|_")


class WordPiece:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._ids = {token: number for number, token in enumerate(tokens)}
        self._unknown = self._ids["[UNK]"]
        self.start, self.end = self._ids["[CLS]"], self._ids["[SEP]"]
        self.word = lru_cache(maxsize=1 << 16)(self._word)

    @classmethod
    def load(cls, path: Path) -> WordPiece:
        return cls(path.read_text("utf-8").splitlines())

    def __len__(self) -> int:
        return len(self._ids)

    def token(self, number: int) -> str:
        return self._tokens[number]

    def encode(self, text: str) -> list[int]:
        """Token numbers in order, without those of the start and the end."""
        return [token for word in words(text) for token in self.word(word)]

    def _word(self, word: str) -> tuple[int, ...]:
        """The tokens of one word; one token for a word that cannot be put together."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        found: list[int] = []
        first = 0
        while first < len(word):
            mark = "##" if first else ""
            for last in range(len(word), first, -1):
                token = self._ids.get(mark + word[first:last])
                if token is not None:
                    found.append(token)
                    first = last
                    break
            else:
                return (self._unknown,)
        return tuple(found)


def words(text: str) -> list[str]:
    """Runs of letters and digits, and every other sign alone; lower case, accents stripped."""
    return _WORDS.findall(normalise(text))
