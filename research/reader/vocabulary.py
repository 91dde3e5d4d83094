"""Choose the vocabulary.

Half of the weight goes to our own corpora, half to general English (`wordfreq`), so that neither manuals nor
chat decide alone. The most frequent words are terms of their own (a word that is one term is read in one look
and gets one weight); pieces for the beginnings, middles and endings of names and rare words fill the rest.
Digits are not left to frequency: every group of up to three digits is a piece, and so is every year from 1800
to 2099.
"""

from __future__ import annotations

import math
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from research.command import main
from research.reader.options import VocabularyOptions
from vsplade.encode.tokenizer import GOES_ON, beginnings, endings, middles, normalise, split_words

BEGINNINGS, ENDINGS = 0.42, 0.28
"""Shares of the room for pieces; the rest are middles."""
SHOWN = 0.4
"""Each further letter of a piece tells less than the one before."""


def digit_pieces() -> list[str]:
    groups = [f"{n:0{width}d}" for width in (1, 2, 3) for n in range(10**width)]
    parts = [form.format(group) for form in ("{}" + GOES_ON, GOES_ON + "{}") for group in groups[10:]]
    return groups + parts + [str(year) for year in range(1800, 2100)]


def corpus_frequencies(files: Iterable[Path]) -> dict[str, float]:
    """Share of each word of letters, averaged over files so that a long one does not drown the others."""
    shares: dict[str, float] = defaultdict(float)
    paths = list(files)
    for path in paths:
        counts = Counter(
            word
            for word in split_words(normalise(path.read_text("utf-8", errors="ignore")))
            if word.isalpha()
        )
        total = sum(counts.values())
        for word, count in counts.items():
            if count > 1:
                shares[word] += count / total / len(paths)
    return dict(shares)


def general_frequencies(n: int = 150_000) -> dict[str, float]:
    from wordfreq import top_n_list, word_frequency

    shares: dict[str, float] = defaultdict(float)
    for phrase in top_n_list("en", n):
        for word in split_words(normalise(phrase)):
            if word.isalpha():
                shares[word] += word_frequency(phrase, "en")
    return dict(shares)


def picked(words: Sequence[tuple[list[str], float]], room: int) -> list[str]:
    """Pieces that let rare words show the most letters; a word shows the longest of its choices.

    Single letters are always there. The others come in by the letters they show; the tenth that is shown
    least, because longer ones took its words, gives way to others, three times over.
    """
    single = {text for choices, _ in words for text in choices if len(text) == 1}
    room -= len(single)
    chosen: set[str] = set()
    for _ in range(4):
        shown: Counter[str] = Counter()
        missed: Counter[str] = Counter()
        for choices, weight in words:
            for text in choices:
                if text in chosen:
                    shown[text] += weight * len(text) ** SHOWN
                    break
                if len(text) > 1:
                    missed[text] += weight * (len(text) - 1) ** SHOWN
        chosen -= set(sorted(chosen, key=lambda text: (shown[text], text))[: len(chosen) // 10])
        best = sorted(missed, key=lambda text: (-missed[text], text))
        chosen |= set(best[: room - len(chosen)])
    return sorted(single | chosen)


def letter_pieces(shares: Mapping[str, float], room: int) -> list[str]:
    """Beginnings, middles and endings for words that are no terms of their own.

    A word counts by the root of its share: what is seldom written is what people look for by name.
    """
    kinds = (
        (beginnings, BEGINNINGS, "{}" + GOES_ON),
        (middles, 1 - BEGINNINGS - ENDINGS, GOES_ON + "{}" + GOES_ON),
        (endings, ENDINGS, GOES_ON + "{}"),
    )
    pieces: list[str] = []
    for choices, part, form in kinds:
        words = [(choices(word), math.sqrt(share)) for word, share in sorted(shares.items())]
        pieces += [form.format(text) for text in picked(words, round(part * room))]
    return pieces


def choose(files: Iterable[Path], size: int, whole_words: int) -> list[str]:
    shares: dict[str, float] = defaultdict(float)
    for source in (corpus_frequencies(files), general_frequencies()):
        for word, share in source.items():
            shares[word] += share / 2
    frequent = sorted(shares, key=lambda word: -shares[word])[:whole_words]
    whole = dict.fromkeys(digit_pieces() + list(string.ascii_lowercase) + frequent)
    rare = {word: share for word, share in shares.items() if word not in whole}
    tokens = [*whole, *letter_pieces(rare, size - len(whole))]
    return sorted(tokens, key=lambda token: (GOES_ON in token, token))


def build_vocabulary(options: VocabularyOptions) -> dict[str, Any]:
    """Choose the vocabulary from text. A new one needs a new model: terms are numbered by it."""
    tokens = choose(options.text, options.size, options.whole_words)
    options.out.write_text("\n".join(tokens) + "\n", "utf-8")
    pieces = sum(GOES_ON in token for token in tokens)
    return {"out": str(options.out), "tokens": len(tokens), "words": len(tokens) - pieces, "pieces": pieces}


if __name__ == "__main__":
    main(build_vocabulary, VocabularyOptions)
