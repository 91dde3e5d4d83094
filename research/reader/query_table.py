"""The table of query weights that training starts from.

A term's weight says how much it tells apart pages in general, not in one index: passages of 200 words of many
kinds of text are counted, and the inverse document frequency is raised to a power that leans on rare terms.
(Counting the pages of the index itself was worse on both dev sets, see docs/log.md: in a small index a
question's filler words look rare.) Our texts have habits, as many manuals do; half of the say on whole words
goes to their frequency in general English. Beside it goes a list of words of one stem: a query asks for them
too, at a fraction of the weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.command import main
from research.reader.options import QueryTableOptions
from vsplade.encode.tokenizer import Tokenizer

PASSAGE = 200
STRIDE = 600
MOST_WORDS = 1_500_000
POWER = 1.25
GENERAL_PASSAGES = 18_000
"""Passages of general English that its frequencies are taken to stand for: about as many as are counted."""


def inverse_frequency(paths: Iterable[Path], tokenizer: Tokenizer) -> NDArray[np.float64]:
    """Per term, log(1 + (n - df + 1/2) / (df + 1/2)) over every third passage of each text's first words."""
    seen = np.zeros(len(tokenizer))
    passages = 0
    for path in paths:
        words = path.read_text("utf-8", errors="ignore").split()[:MOST_WORDS]
        for start in range(0, len(words), STRIDE):
            terms = set(tokenizer.encode(" ".join(words[start : start + PASSAGE])))
            seen[list(terms)] += 1
            passages += 1
    return np.asarray(np.log(1 + (passages - seen + 0.5) / (seen + 0.5)))


def with_general_english(frequency: NDArray[np.float64], tokenizer: Tokenizer) -> NDArray[np.float64]:
    """The mean, for whole words, with what their frequency in general English would give."""
    from wordfreq import word_frequency

    tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
    common = np.array([word_frequency(token, "en") if token.isalpha() else 0.0 for token in tokens])
    seen = GENERAL_PASSAGES * (1 - (1 - common) ** PASSAGE)
    general = np.log(1 + (GENERAL_PASSAGES - seen + 0.5) / (seen + 0.5))
    return np.where(common > 0, (frequency + general) / 2, frequency)


def related_terms(tokenizer: Tokenizer) -> NDArray[np.uint16]:
    """(pairs, 2), sorted: whole words of one stem ("report", "reports"), each with the others."""
    import snowballstemmer

    stemmer = snowballstemmer.stemmer("english")
    families: dict[str, list[int]] = {}
    for term in range(len(tokenizer)):
        word = tokenizer.token(term)
        if word.isalpha() and len(word) > 2:
            families.setdefault(stemmer.stemWord(word), []).append(term)
    pairs = [(a, b) for family in families.values() for a in family for b in family if a != b]
    return np.array(sorted(pairs), np.uint16)


def build_query_table(options: QueryTableOptions) -> dict[str, Any]:
    """Make the table of query weights and the list of related words from text."""
    tokenizer = Tokenizer.load()
    counted = inverse_frequency(sorted(options.text), tokenizer)
    table = with_general_english(counted, tokenizer) ** POWER
    np.save(options.out, table.astype(np.float16))
    np.save(options.out.with_name("related.npy"), related_terms(tokenizer))
    return {"out": str(options.out), "terms": len(table), "highest": float(table.max())}


if __name__ == "__main__":
    main(build_query_table, QueryTableOptions)
