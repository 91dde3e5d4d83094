"""The text that synthetic pages are set in.

Every distinct printed word is kept once, with its characters and with where its vocabulary pieces lie in it;
a stream of word numbers then holds running text, every vocabulary word, rare words, made-up numbers, dates,
codes and addresses, and the lines of receipts. Drawing a page is then array look-ups only, which a GPU does
in one go.
"""

from __future__ import annotations

import random
import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.command import main
from research.reader.coined import figure, misspelt, till_line
from research.reader.options import WordsOptions
from vsplade.encode.tokenizer import GOES_ON, Tokenizer, normalise, split_words

LONGEST = 22
PIECES = 8
_ACCENTED = "àáâãäåçèéêëìíîïñòóôõöùúûüýÿÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝšžčŠŽČğşőű"
_SIGNS = "–—‘’“”•€£°©®™§±×"
CHARSET = " " + string.ascii_letters + string.digits + string.punctuation + _ACCENTED + _SIGNS
CODE = {char: code for code, char in enumerate(CHARSET)}
ENOUGH = 4
"""Letters that a broken word is guessed by."""
BROKEN = 0.03
"""The share of long words of running text that are broken, as at the end of a line."""
ADDRESSES = 0.15
"""The share of what is made up that is words without spaces between them."""
FIGURES = 0.45
"""The share of what is made up that bills, tickets and labels show: sums, dates, telephone numbers, codes."""
MISSPELT = 0.25
"""The share of rare words that are frequent ones with a letter changed."""
LANGUAGES = ("de", "fr", "es", "it", "nl", "pt", "sv", "id", "ms", "pl", "fi", "tr", "cs", "da", "ro")
"""Whose words stand for names of people, places and goods."""
KINDS = ("prose", "vocabulary", "rare", "numbers", "till")


def plain(char: str) -> str:
    """The character as the tokenizer sees it: one of a-z, 0-9, or a space for everything that separates."""
    folded = normalise(char)
    return (
        folded if len(folded) == 1 and (folded in string.ascii_lowercase or folded in string.digits) else " "
    )


def plain_text(word: str) -> str:
    return "".join(plain(char) for char in word)


def character_classes() -> NDArray[np.int64]:
    """Per code: 1-26 letters, 27-36 digits, 37 other ink, 0 the space."""
    order = string.ascii_lowercase + string.digits
    return np.array([0 if c == " " else (order.find(plain(c)) + 1 or 37) for c in CHARSET], np.int64)


def upper_codes() -> NDArray[np.int64]:
    return np.array(
        [CODE.get(c.upper(), CODE[c]) if len(c.upper()) == 1 else CODE[c] for c in CHARSET], np.int64
    )


@dataclass(frozen=True)
class WordBank:
    characters: NDArray[np.uint8]  # (words, LONGEST) codes, 0 beyond the length
    length: NDArray[np.uint8]
    pieces: NDArray[np.int16]  # (words, PIECES) terms, -1 beyond
    piece_start: NDArray[np.uint8]  # character span of each piece
    piece_end: NDArray[np.uint8]
    stream: NDArray[np.int32]  # word numbers
    kind_start: NDArray[np.int64]  # where each of KINDS begins in the stream, and the end

    def save(self, path: Path) -> None:
        np.savez_compressed(path, **{f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def load(cls, path: Path) -> WordBank:
        with np.load(path, allow_pickle=False) as arrays:
            return cls(**{f.name: arrays[f.name] for f in fields(cls)})


def spell(
    word: str, tokenizer: Tokenizer, goes_on: str = ""
) -> tuple[list[int], list[tuple[int, int, int]]] | None:
    """Codes of the printed word, and (term, first character, last + 1) of its pieces; None if it cannot be
    set. ``goes_on`` is what follows on the next line if it ends in a hyphen.
    """
    if not 0 < len(word) <= LONGEST or any(char not in CODE for char in word):
        return None
    seen = plain_text(word)
    spans: list[tuple[int, int, int]] = []
    runs = list(split_words(seen))
    position = 0
    for run in runs:
        position = seen.index(run, position)
        spans += [(term, position + start, position + end) for term, start, end in tokenizer.spans(run)]
        position += len(run)
    if goes_on and runs and seen.endswith(runs[-1] + " "):
        start = len(seen) - 1 - len(runs[-1])
        spans = [span for span in spans if span[1] < start] + joined(runs[-1], goes_on, start, tokenizer)
    return ([CODE[char] for char in word], spans) if len(spans) <= PIECES else None


def joined(first: str, goes_on: str, start: int, tokenizer: Tokenizer) -> list[tuple[int, int, int]]:
    """The pieces of a word's part before a line's end: ``informa-`` is ``information``, if ``tion`` follows.

    A word of the vocabulary is named where it begins, if enough of it is there to guess it by; of a rare one,
    the pieces that lie before the break. Two words with a hyphen between them stay two words.
    """
    rest = next(split_words(plain_text(goes_on)), "")
    whole = tokenizer.term(first + rest)
    if rest and whole is not None and len(first) >= ENOUGH:
        return [(whole, start, start + len(first))]
    two = tokenizer.term(first) is not None and tokenizer.term(rest) is not None
    before = [] if two else [span for span in tokenizer.spans(first + rest) if span[2] <= len(first)]
    return [(term, start + a, start + b) for term, a, b in before or tokenizer.spans(first)]


def break_words(words: Sequence[str], rng: random.Random) -> list[str | tuple[str, str]]:
    """Some long words as at the end of a line: their beginning with a hyphen, then the rest."""
    out: list[str | tuple[str, str]] = []
    for word in words:
        if rng.random() < BROKEN and len(word) >= 7 and word.isascii() and word.isalpha():
            at = rng.randint(4, len(word) - 2)
            out += [(word[:at] + "-", word[at:]), word[at:]]
        else:
            out.append(word)
    return out


def build(sources: dict[str, list[Sequence[str | tuple[str, str]]]], tokenizer: Tokenizer) -> WordBank:
    """``sources``: for each of KINDS, runs of printed words; a pair is one that goes on in the next line."""
    numbers: dict[str | tuple[str, str], int] = {}
    rows: list[tuple[list[int], list[tuple[int, int, int]]]] = []
    stream: list[int] = []
    starts = [0]
    for kind in KINDS:
        for words in sources[kind]:
            for word in words:
                number = numbers.get(word, -2)
                if number == -2:
                    row = (
                        spell(word, tokenizer)
                        if isinstance(word, str)
                        else spell(word[0], tokenizer, word[1])
                    )
                    number = numbers[word] = len(rows) if row else -1
                    if row:
                        rows.append(row)
                if number >= 0:
                    stream.append(number)
        starts.append(len(stream))
    characters = np.zeros((len(rows), LONGEST), np.uint8)
    pieces = np.full((len(rows), PIECES), -1, np.int16)
    spans = np.zeros((2, len(rows), PIECES), np.uint8)
    for n, (codes, found) in enumerate(rows):
        characters[n, : len(codes)] = codes
        for i, (term, start, end) in enumerate(found):
            pieces[n, i] = term
            spans[:, n, i] = start, end
    length = (characters != 0).sum(1).astype(np.uint8)
    stream_array, starts_array = np.array(stream, np.int32), np.array(starts, np.int64)
    return WordBank(characters, length, pieces, spans[0], spans[1], stream_array, starts_array)


def made_up(rng: random.Random) -> str:
    """A number, date, price, code or name of the kind that people search for."""

    def digits(n: int) -> str:
        return "".join(rng.choice(string.digits) for _ in range(n))

    def capitals(n: int) -> str:
        return "".join(rng.choice(string.ascii_uppercase) for _ in range(n))

    month = rng.choice(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Sept", "Oct", "Nov", "Dec"]
    )
    year = rng.randint(1900, 2030)
    n = int(10 ** rng.uniform(0, 7))
    forms = [
        lambda: str(n),
        lambda: f"{n:,}",
        lambda: f"{n / 100:.{rng.randint(1, 3)}f}",
        lambda: f"{rng.uniform(0, 120):.{rng.randint(0, 2)}f}%",
        lambda: rng.choice("$€£") + f"{n:,}",
        lambda: f"${n / 100:,.2f}",
        lambda: f"({n:,})",
        lambda: f"{rng.randint(1, 12)}/{rng.randint(1, 31)}/{rng.choice([year, year % 100])}",
        lambda: f"{rng.randint(1, 31)}-{month}-{year % 100:02d}",
        lambda: f"{month}.",
        lambda: f"{year}",
        lambda: f"{year}-{(year + 1) % 100:02d}",
        lambda: f"{rng.randint(1, 12)}:{rng.randint(0, 59):02d}",
        lambda: f"{digits(3)}-{digits(4)}",
        lambda: f"({digits(3)})",
        lambda: f"{capitals(rng.randint(1, 3))}-{digits(rng.randint(1, 5))}",
        lambda: f"{capitals(rng.randint(1, 4))}{digits(rng.randint(1, 4))}",
        lambda: capitals(rng.randint(2, 5)),
        lambda: capitals(1) + ".",
        lambda: f"{rng.randint(1, 30)}{rng.choice(['st', 'nd', 'rd', 'th'])}",
        lambda: f"{rng.randint(1, 99)}.",
        lambda: f"{rng.randint(1, 9)}.{rng.randint(1, 30)}",
        lambda: digits(rng.randint(1, 10)),
        lambda: f"{digits(1)}x{digits(2)}",
        lambda: rng.choice("._-*=.._") * rng.randint(3, LONGEST),  # leaders and blanks to fill in
        lambda: "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(3, 9))).capitalize(),
    ]
    return rng.choice(forms)()


ENDINGS = ("com", "org", "net", "edu", "gov", "co.uk", "de", "info")


def address(words: Sequence[str], rng: random.Random) -> str:
    """Words that print joins without a space: of the net, of mail, and by a slash or a hyphen."""
    one, other, ending = rng.choice(words), rng.choice(words), rng.choice(ENDINGS)
    forms = [
        f"www.{one}.{ending}",
        f"{one}.{ending}/{other}",
        f"https://{one}.{ending}",
        f"{one}@{other}.{ending}",
        f"{one}.{other}@",
        f"/{one}/{other}",
        f"{one}/{other}",
        f"{one.capitalize()}/{other.capitalize()}",
        f"{one}-{other}",
        f"{one.capitalize()}-{other}",
    ]
    return rng.choice(forms)


def dressed(word: str, rng: random.Random) -> str:
    """A vocabulary word as print shows it: capitals, now and then a mark of punctuation."""
    word = rng.choice([word, word, word.capitalize(), word.capitalize(), word.upper()])
    if rng.random() < 0.15:
        word += rng.choice(".,;:?!")
    elif rng.random() < 0.05:
        word = rng.choice(["({})", '"{}"', "'{}'", "{}'s", "{}*", "“{}”"]).format(word)
    return word


def prose(paths: Iterable[Path], words_each: int, rng: random.Random) -> list[Sequence[str]]:
    """Passages of 200 words from each text, so that a small share of a long one still shows all of it."""
    runs: list[Sequence[str]] = []
    for path in paths:
        words = unicodedata.normalize("NFC", path.read_text("utf-8", errors="ignore")).split()
        count = min(words_each, len(words)) // 200
        runs += [
            words[at : at + 200] for at in (rng.randrange(max(1, len(words) - 200)) for _ in range(count))
        ]
    return runs


def rare_words(count: int, tokenizer: Tokenizer, rng: random.Random) -> list[str]:
    """Words of which none is a token of the vocabulary: of English, of its neighbours, and changed ones."""
    from wordfreq import top_n_list

    general = top_n_list("en", count)
    lists = [top_n_list(language, count // 10) for language in LANGUAGES]
    words = {word for chosen in (general, *lists) for word in chosen}
    outside = sorted(w for w in words if tokenizer.term(normalise(w)) is None and spell(w, tokenizer))
    known = [word for word in general[:30_000] if len(word) > 3 and word.isascii() and word.isalpha()]
    changed = (misspelt(rng.choice(known), rng) for _ in range(int(len(outside) * MISSPELT)))
    return outside + [word for word in changed if tokenizer.term(word) is None]


def build_words(options: WordsOptions) -> dict[str, Any]:
    """Make the bank of printed words that pages are set in."""
    rng, tokenizer = random.Random(options.seed), Tokenizer.load()
    tokens = [tokenizer.token(term) for term in range(len(tokenizer))]
    whole = [token for token in tokens if GOES_ON not in token]
    every = [dressed(word, rng) for _ in range(options.repeats) for word in rng.sample(whole, len(whole))]
    outside = rare_words(options.rare, tokenizer, rng)
    rare = [dressed(word, rng) for _ in range(2) for word in rng.sample(outside, len(outside))]
    names = whole + outside
    numbers = [
        address(names, rng)
        if chance < ADDRESSES
        else figure(rng)
        if chance < ADDRESSES + FIGURES
        else made_up(rng)
        for chance in (rng.random() for _ in range(options.numbers))
    ]
    sources: dict[str, list[Sequence[str | tuple[str, str]]]] = {
        "prose": [break_words(run, rng) for run in prose(options.text, options.words_each, rng)],
        "vocabulary": [every],
        "rare": [rare],
        "numbers": [numbers],
        "till": [till_line(outside, rng) for _ in range(options.numbers // 10)],
    }
    bank = build(sources, tokenizer)
    bank.save(options.out)
    lengths = dict(zip(KINDS, np.diff(bank.kind_start).tolist(), strict=True))
    return {"out": str(options.out), "printed_words": len(bank.length), "stream": lengths}


if __name__ == "__main__":
    main(build_words, WordsOptions)
