"""Words with a row of their own in the query table: those that MiniLM cuts into pieces.

To MiniLM "bellyache" is `belly` and `##ache`, and "tweet" is `t`, `##wee` and `##t`. In a sentence it knows
better; a sum of rows does not. So such words get a row each. Frequent ones come first; a word that the
thesaurus has, or that queries use, moves to the front.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.meaning.prepare import asked, load_synonyms
from vsplade.encode.meaning.wordpiece import WordPiece, words

SHORTEST, LONGEST = 4, 20
FREQUENT = 400_000
"""Words of general English that are looked at."""
KNOWN, ASKED, OFTEN = 0.5, 0.6, 3
"""A word's place in the order of frequency is multiplied by these: where the thesaurus has it, and where at
least so many queries do."""
LAST_SPECIAL = 103
"""Tokens up to this number ([PAD], [UNK], [CLS] and such) are no words."""
QUERY_ROWS = 40
"""Rows of a query, at most."""
_SEED = 7
Array = np.ndarray[Any, Any]


def is_cut(word: str, pieces: WordPiece) -> bool:
    plain = word.isascii() and word.isalpha() and SHORTEST <= len(word) <= LONGEST
    return plain and len(pieces.word(word)) > 1


def chosen_words(work: Path, pieces: WordPiece, count: int) -> list[str]:
    from wordfreq import top_n_list

    used = Counter(word for row in asked(work) for word in words(row["q"]))
    known = load_synonyms(work)
    places = {word: place for place, word in enumerate(top_n_list("en", FREQUENT))}

    def order(word: str) -> tuple[float, str]:
        place = places.get(word, FREQUENT) * (KNOWN if word in known else 1)
        return place * (ASKED if used[word] >= OFTEN else 1), word

    return sorted(sorted({word for word in {*places, *known} if is_cut(word, pieces)}, key=order)[:count])


def query_rows(tokens: Array, sizes: Array, pieces: WordPiece, own: Sequence[str]) -> Array:
    """Every query as rows of the table, as `MeaningModel` looks them up; behind its last row is the padding.

    ``tokens`` are those of all queries, one query behind the other, ``sizes`` of each. A word is a token and
    those that continue it; its row is found by a hash of all of them.
    """
    continues = np.array([pieces.token(number).startswith("##") for number in range(len(pieces))])
    query = np.repeat(np.arange(len(sizes)), sizes)
    kept = tokens > LAST_SPECIAL
    tokens, query = tokens[kept].astype(np.int64), query[kept]
    first = np.flatnonzero(~continues[tokens] | (np.diff(query, prepend=-1) != 0))
    lengths = np.diff(first, append=len(tokens))
    hashes = _hashes(tokens, first, lengths)
    known = [np.array(pieces.word(word), np.int64) for word in own]
    sides = np.array([len(one) for one in known], np.int64)
    wanted = _hashes(np.concatenate([*known, np.zeros(0, np.int64)]), sides.cumsum() - sides, sides)
    order = np.argsort(wanted)
    place = np.searchsorted(wanted, hashes, sorter=order).clip(max=max(len(own) - 1, 0))
    whole = wanted[order[place]] == hashes if len(own) else np.zeros(len(hashes), np.bool_)
    row = tokens.copy()
    row[first[whole]] = len(pieces) + order[place[whole]]
    inside = np.repeat(whole, lengths)
    inside[first] = False
    row, query = row[~inside], query[~inside]
    begins = np.searchsorted(query, np.arange(len(sizes)))
    column = np.arange(len(row)) - begins[query]
    fits = column < QUERY_ROWS
    width = int(column[fits].max(initial=0)) + 1
    out = np.full((len(sizes), width), len(pieces) + len(own), np.int32)
    out[query[fits], column[fits]] = row[fits]
    return out


def _hashes(tokens: Array, first: Array, lengths: Array) -> Array:
    """Of each run of tokens, 64 bits."""
    if not len(first):
        return np.zeros(0, np.uint64)
    rng = np.random.default_rng(_SEED)
    value = rng.integers(1 << 63, size=1 << 17, dtype=np.uint64)[tokens]
    column = np.arange(len(tokens)) - np.repeat(first, lengths)
    factor = rng.integers(1 << 63, size=64, dtype=np.uint64)[column % 64] | np.uint64(1)
    hashes: Array = np.add.reduceat(value * factor, first)
    return hashes
