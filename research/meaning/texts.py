"""Queries and passages as tokens: all that `learn` reads, in one file.

    python -m research.meaning.texts WORK --minilm FOLDER

Queries are a mix of three kinds, in this order: natural questions; headwords, headings and short glosses of
dictionaries, and every word that gets a row of its own in the query table; runs of passages with words
exchanged for synonyms and in the frame of a question (`prepare.made_queries`). Queries marked `research_only`
are left out (`prepare.asked`).

Writes WORK/words.txt (`query_words`) and WORK/texts.npz: ``queries`` and ``passages`` as MiniLM's tokens
between a start and an end, one behind the other, with ``query_sizes`` and ``passage_sizes``; ``kinds``, how
many queries there are of each kind; ``own``, the passage that each query was made of, or -1.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main
from research.meaning.options import TextsOptions
from research.meaning.prepare import (
    FRAMES,
    LIKE_A_PAGE,
    MOST_MADE,
    SPANS,
    asked,
    like_a_page,
    lines,
    load_synonyms,
    made_queries,
)
from research.meaning.query_words import chosen_words
from vsplade.encode.meaning.wordpiece import WordPiece

QUERY, PASSAGE = 48, 256
"""Tokens at most, with those of the start and the end."""
QUERY_CHARACTERS, GLOSS_WORDS = 300, 22
DENSE, DENSE_SHARE = ("dict-gcide", "dict-foldoc"), 1 / 12
"""Dictionaries in running text: little of it, and no queries are made of it."""
WORD_FORMS = 2
"""Queries for each word that has a row of its own: some words stand in few texts."""
BATCH = 50_000
Array = np.ndarray[Any, Any]


def chosen_passages(work: Path, most: int, rng: random.Random) -> tuple[list[str], int]:
    """Manuals, reports and the like first, then a few of dictionaries in running text; how many the first
    are."""
    rows = lines(work / "passages.jsonl.gz")
    dense = [row["t"] for row in rows if row["src"] in DENSE]
    other = [row["t"] for row in rows if row["src"] not in DENSE]
    few = min(int(min(most, len(rows)) * DENSE_SHARE), len(dense))
    other = rng.sample(other, min(most - few, len(other)))
    return other + rng.sample(dense, few), len(other)


def known_queries(work: Path, words: list[str], rng: random.Random) -> Iterator[str]:
    """Both sides of pairs that are short enough for a query, and single words."""
    for row in lines(work / "pairs.jsonl.gz"):
        yield row["q"]
        if len(row["p"].split()) < GLOSS_WORDS:
            yield row["p"]
    for word in words:
        yield word
        yield from (rng.choice(FRAMES).format(word) for _ in range(WORD_FORMS - 1))


def chosen_queries(
    work: Path, passages: list[str], words: list[str], rng: random.Random
) -> tuple[list[str], list[int], list[int]]:
    """Each once: the texts, the passage that each was made of, and how many there are of each kind."""
    synonyms, spans = load_synonyms(work), max(1, min(SPANS, MOST_MADE // max(1, len(passages))))
    natural = ((row["q"], -1) for row in asked(work))
    known = ((text, -1) for text in known_queries(work, words, rng))
    with Pool() as pool:
        made_of = partial(made_queries, synonyms=synonyms, spans=spans)
        runs = pool.map(made_of, enumerate(passages), chunksize=1000)
    made = ((text, number) for number, some in enumerate(runs) for text in some)
    found: dict[str, int] = {}
    ends = []
    for kind in (natural, known, made):
        for text, number in kind:
            found.setdefault(text[:QUERY_CHARACTERS], number)
        ends.append(len(found))
    return list(found), list(found.values()), np.diff([0, *ends]).tolist()


def tokens_of(folder: Path, texts: list[str], most: int) -> tuple[Array, Array]:
    """The tokens of all texts, one text behind the other, and how many each has."""
    from tokenizers import Tokenizer

    wordpiece = Tokenizer.from_file(str(folder / "tokenizer.json"))
    wordpiece.no_padding()
    wordpiece.enable_truncation(most)
    flat: list[Array] = []
    sizes: list[int] = []
    for at in range(0, len(texts), BATCH):
        found = [one.ids for one in wordpiece.encode_batch_fast(texts[at : at + BATCH])]
        sizes += map(len, found)
        flat.append(np.fromiter(chain.from_iterable(found), np.uint16))
    return np.concatenate(flat), np.array(sizes, np.uint16)


def texts(options: TextsOptions) -> dict[str, Any]:
    """Choose passages, queries and words with rows of their own; write them as tokens."""
    rng, work = random.Random(options.seed), options.work
    words = chosen_words(work, WordPiece.load(options.minilm / "vocab.txt"), options.words)
    (work / "words.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    passages, of_texts = chosen_passages(work, options.passages, rng)
    queries, own, kinds = chosen_queries(work, passages[:of_texts], words, rng)
    print(f"{len(passages):,} passages, queries {kinds}", file=sys.stderr)
    passages += [like_a_page(text, rng) for text in passages[:of_texts] if rng.random() < LIKE_A_PAGE]
    arrays: dict[str, Array] = {"own": np.array(own, np.int32), "kinds": np.array(kinds)}
    arrays["queries"], arrays["query_sizes"] = tokens_of(options.minilm, queries, QUERY)
    arrays["passages"], arrays["passage_sizes"] = tokens_of(options.minilm, passages, PASSAGE)
    partial_file = work / "texts.partial.npz"
    np.savez(partial_file, **arrays)  # type: ignore[arg-type]
    partial_file.replace(work / "texts.npz")
    return {"passages": len(passages), "queries": len(queries), "words": len(words)}


if __name__ == "__main__":
    main(texts, TextsOptions)
