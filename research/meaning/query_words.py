"""Words with a row of their own in the query table: those that MiniLM cuts into pieces.

    python -m research.meaning.query_words WORK --minilm FOLDER

To MiniLM "bellyache" is `belly` and `##ache`, and "tweet" is `t`, `##wee` and `##t`. In a sentence it knows
better; a sum of rows does not. So such words get a row each. It starts as what MiniLM says of the word
alone, brought to where the learned rows lie by a linear map, which the tokens that are whole words teach:

    row(word) = SCALE * (alone(word), 1) @ map
    map       = argmin  sum over tokens | (alone, 1) @ map - row |^2  +  RIDGE * | map |^2

Which words: frequent ones first; a word that the thesaurus has, or that queries use, moves to the front.
Reads WORK/teacher (`teach`) and WORK/table.npz (`table`), writes WORK/words.npz. `rank` trains the rows.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main
from research.meaning.options import QueryWordsOptions
from research.meaning.prepare import load_synonyms, teacher_tokens
from research.meaning.teach import Teacher, taught_queries
from vsplade.encode.meaning.wordpiece import WordPiece, words

SHORTEST, LONGEST = 4, 20
FREQUENT = 400_000
"""Words of general English that are looked at."""
KNOWN, ASKED, OFTEN = 0.5, 0.6, 3
"""A word's place in the order of frequency is multiplied by these: where the thesaurus has it, and where at
least so many queries do."""
FIRST_WHOLE = 2000
"""Tokens from this number on are words, mostly; those before are signs and letters."""
SCALE, RIDGE = 1.45, 3.0
"""The map makes rows a little too short."""
QUERY_ROWS = 40
Array = np.ndarray[Any, Any]


def is_cut(word: str, pieces: WordPiece) -> bool:
    plain = word.isascii() and word.isalpha() and SHORTEST <= len(word) <= LONGEST
    return plain and len(pieces.word(word)) > 1


def chosen_words(work: Path, pieces: WordPiece, count: int) -> list[str]:
    from wordfreq import top_n_list

    asked = Counter(word for query in taught_queries(work) for word in words(query))
    known = load_synonyms(work)
    places = {word: place for place, word in enumerate(top_n_list("en", FREQUENT))}

    def order(word: str) -> tuple[float, str]:
        place = places.get(word, FREQUENT) * (KNOWN if word in known else 1)
        return place * (ASKED if asked[word] >= OFTEN else 1), word

    return sorted(sorted({word for word in {*places, *known} if is_cut(word, pieces)}, key=order)[:count])


def first_rows(alone: Array, of_tokens: Array, table: Array, whole: list[int]) -> Array:
    """What MiniLM says of each word ``alone``, brought to where the table's rows of whole words lie."""
    known = np.concatenate([of_tokens[whole], np.ones((len(whole), 1), np.float32)], axis=1)
    moment = known.T @ known + RIDGE * np.eye(known.shape[1], dtype=np.float32)
    turn = np.linalg.solve(moment, known.T @ table[whole])
    rows: Array = SCALE * np.concatenate([alone, np.ones((len(alone), 1), np.float32)], axis=1) @ turn
    return rows.astype(np.float32)


def query_rows(queries: list[str], pieces: WordPiece, whole: list[str], padding: int) -> Array:
    """Every query as rows of the table, as `MeaningModel` looks them up; ``padding`` where there is none."""
    own = {word: row for row, word in enumerate(whole, len(pieces))}
    out = np.full((len(queries), QUERY_ROWS), padding, np.int32)
    for place, query in enumerate(queries):
        rows = [row for word in words(query) for row in ((own[word],) if word in own else pieces.word(word))]
        out[place, : len(rows[:QUERY_ROWS])] = rows[:QUERY_ROWS]
    return out


def query_words(options: QueryWordsOptions) -> dict[str, Any]:
    """Choose the words and write WORK/words.npz: `words` and the `rows` that they start with."""
    folder = options.work / "teacher"
    pieces = WordPiece.load(options.minilm / "vocab.txt")
    chosen = chosen_words(options.work, pieces, options.count)
    trained = np.load(options.work / "table.npz")
    axes, table = trained["axes"], trained["table"]
    teacher = Teacher(options.minilm, folder / "minilm.onnx", options.threads)
    alone = teacher.vectors(teacher_tokens(options.minilm, chosen, LONGEST + 2), 256).astype(np.float32)
    of_tokens = np.load(folder / "tokens.npz")["vectors"].astype(np.float32)
    whole = [n for n in range(FIRST_WHOLE, len(pieces)) if _is_whole(pieces.token(n))]
    rows = first_rows(alone @ axes, of_tokens @ axes, table, whole)
    partial = options.work / "words.partial.npz"
    np.savez(partial, words=np.array(chosen), rows=rows)
    os.replace(partial, options.work / "words.npz")
    return {"words": len(chosen), "for instance": " ".join(chosen[:: max(1, len(chosen) // 10)])}


def _is_whole(token: str) -> bool:
    return token.isalpha() and token.isascii() and len(token) >= SHORTEST


if __name__ == "__main__":
    main(query_words, QueryWordsOptions)
