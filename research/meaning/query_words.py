"""Words and phrases with a row of their own in the query table.

**Words** that MiniLM cuts into pieces. To MiniLM "bellyache" is `belly` and `##ache`, and "tweet" is `t`,
`##wee` and `##t`. In a sentence it knows better; a sum of rows does not. Frequent ones come first; a word
that the thesaurus has, or that queries use, moves to the front.

**Phrases** of two words. A "heart attack" is neither about love nor about war, but the sum of both rows is.
Those come first that stand together more often than chance would have it, and that dictionaries have
(`phrases.py`).
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
_JOIN = np.uint64(0x9E3779B97F4A7C15)
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
    those that continue it. Words and phrases with a row of their own are found by a hash of their tokens.
    """
    continues = np.array([pieces.token(number).startswith("##") for number in range(len(pieces))])
    place = np.flatnonzero(tokens > LAST_SPECIAL)
    query, tokens = np.repeat(np.arange(len(sizes)), sizes)[place], tokens[place].astype(np.int64)
    first = np.flatnonzero(~continues[tokens] | (np.diff(query, prepend=-1) != 0))
    lengths = np.diff(first, append=len(tokens))
    hashes = _hashes(tokens, first, lengths)
    known = _hashes_of_names(own, pieces)
    row_of_word = _found(hashes, known)
    row_of_phrase = _found(hashes[:-1] * _JOIN + hashes[1:], known)
    adjacent = (np.diff(query[first]) == 0) & (place[first[:-1]] + lengths[:-1] == place[first[1:]])
    phrase = _taken((row_of_phrase >= 0) & adjacent)
    row, inside = tokens.copy(), np.zeros(len(tokens), np.bool_)
    for at, found, covered in (
        (np.flatnonzero(row_of_word >= 0), row_of_word, lengths),
        (phrase, row_of_phrase, lengths + np.append(lengths[1:], 0)),
    ):
        row[first[at]] = len(pieces) + found[at]
        inside[_ranges(first[at], covered[at])] = True
        inside[first[at]] = False
    return _padded_rows(row[~inside], query[~inside], len(sizes), len(pieces) + len(own))


def _taken(begins: Array) -> Array:
    """Which phrases are looked up, from left to right: a word is in one only."""
    at = np.flatnonzero(begins)
    new_run = np.diff(at, prepend=-2) != 1
    run_start = at[np.maximum.accumulate(np.where(new_run, np.arange(len(at)), 0))]
    taken: Array = at[(at - run_start) % 2 == 0]
    return taken


def _ranges(first: Array, lengths: Array) -> Array:
    """Every number of every range, one range behind the other."""
    before = np.repeat(np.cumsum(lengths) - lengths, lengths)
    ranges: Array = np.repeat(first, lengths) + np.arange(len(before)) - before
    return ranges


def _padded_rows(row: Array, query: Array, queries: int, padding: int) -> Array:
    column = np.arange(len(row)) - np.searchsorted(query, np.arange(queries))[query]
    fits = column < QUERY_ROWS
    out = np.full((queries, int(column[fits].max(initial=0)) + 1), padding, np.int32)
    out[query[fits], column[fits]] = row[fits]
    return out


def _hashes_of_names(own: Sequence[str], pieces: WordPiece) -> Array:
    """Of words, and of phrases of two words."""
    known = [np.array(pieces.word(word), np.int64) for name in own for word in name.split()]
    sides = np.array([len(one) for one in known], np.int64)
    hashes = _hashes(np.concatenate([*known, np.zeros(0, np.int64)]), sides.cumsum() - sides, sides)
    counts = np.array([name.count(" ") for name in own], np.int64)
    at = np.cumsum(counts + 1) - counts - 1
    second = hashes[np.minimum(at + 1, len(hashes) - 1)] if len(own) else hashes
    return np.where(counts > 0, hashes[at] * _JOIN + second, hashes[at])


def _found(hashes: Array, known: Array) -> Array:
    """The place of each hash among those that are known, or -1."""
    if not len(known):
        return np.full(len(hashes), -1)
    order = np.argsort(known)
    place = order[np.searchsorted(known, hashes, sorter=order).clip(max=len(known) - 1)]
    return np.where(known[place] == hashes, place, -1)


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
