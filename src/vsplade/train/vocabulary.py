"""Choose the vocabulary.

Half of the weight goes to our own corpora, half to general English (`wordfreq`), so that neither manuals nor
chat decide alone. The most frequent words are terms of their own (a word that is one term is read in one look
and gets one weight); WordPiece training fills the rest with pieces for names, codes and rare words. Digits
are not left to frequency: every group of up to three digits is a piece, and so is every year from 1800 to
2099.
"""

from __future__ import annotations

import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vsplade.encode.tokenizer import CONTINUATION, normalise, split_words
from vsplade.train.options import VocabularyOptions


def digit_pieces() -> list[str]:
    groups = [f"{n:0{width}d}" for width in (1, 2, 3) for n in range(10**width)]
    return groups + [CONTINUATION + group for group in groups] + [str(year) for year in range(1800, 2100)]


def letter_pieces() -> list[str]:
    return [prefix + letter for prefix in ("", CONTINUATION) for letter in string.ascii_lowercase]


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


def trained_pieces(shares: dict[str, float], size: int) -> list[str]:
    """WordPiece training on words repeated in proportion to their share."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    def repeated() -> Iterator[list[str]]:
        for word, share in shares.items():
            yield [word] * max(1, round(share * 2e6))

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator((" ".join(words) for words in repeated()), trainer)
    by_rank = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return [token for token, _ in by_rank if token != "[UNK]"]


def choose(files: Iterable[Path], size: int, whole_words: int) -> list[str]:
    shares: dict[str, float] = defaultdict(float)
    for source in (corpus_frequencies(files), general_frequencies()):
        for word, share in source.items():
            shares[word] += share / 2
    frequent = sorted(shares, key=lambda word: -shares[word])[:whole_words]
    fixed = dict.fromkeys(digit_pieces() + letter_pieces() + frequent)
    rest = [token for token in trained_pieces(dict(shares), size) if token not in fixed]
    pieces = [token for token in rest if token.startswith(CONTINUATION)]
    words = [token for token in rest if not token.startswith(CONTINUATION)]
    chosen = dict.fromkeys([*fixed, *pieces, *words][:size])
    return sorted(chosen, key=lambda token: (token.startswith(CONTINUATION), token))


def build_vocabulary(options: VocabularyOptions) -> dict[str, Any]:
    tokens = choose(options.text, options.size, options.whole_words)
    options.out.write_text("\n".join(tokens) + "\n", "utf-8")
    going_on = sum(token.startswith(CONTINUATION) for token in tokens)
    return {
        "out": str(options.out),
        "tokens": len(tokens),
        "words": len(tokens) - going_on,
        "pieces": going_on,
    }
