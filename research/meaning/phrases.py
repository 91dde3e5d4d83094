"""Phrases of two words that get a row of their own in the query table.

A sum of rows cannot tell a "heart attack" from the heart of an attack. So phrases are looked up whole. How
much two words belong together is told by how often they stand side by side, against chance (normalised
pointwise mutual information):

    npmi(a, b)  = log(p(ab) / (p(a) p(b))) / -log p(ab)
    order(a, b) = (npmi(a, b) - LEAST) * log(times that a b was seen)^2, more for headwords of dictionaries

Counted are passages, and queries several times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import log
from pathlib import Path

from research.meaning.prepare import asked, lines

LEAST, FEWEST = 0.12, 12
HEADWORD, FEWEST_OF_HEADWORDS = 1.3, 5
"""What a headword's order is multiplied by, and how often it must be seen."""
QUERY = 5
"""Times that a query counts."""
PASSAGES = 400_000
"""Passages that are counted, at most."""
LINKS = frozenset(
    re.findall(
        r"\w+",
        """a am an and are as at be been but by can did do does for from had has have he her his how i if
        in into is it its may me my no not of on or our she so than that the their them then there these
        they this those to was we were what when where which who whose why will with would you your""",
    )
)
"""Words that no phrase begins or ends with."""
_WORD = re.compile(r"[a-z]{2,20}")
_RUN = re.compile(r"[a-z]+(?: [a-z]+)*")


def runs(text: str) -> Iterator[list[str]]:
    """Words with nothing but a space between them."""
    return (run.split() for run in _RUN.findall(text.lower()))


def pairs_of(words: list[str]) -> Iterator[str]:
    for first, second in pairwise(words):
        if first not in LINKS and second not in LINKS and _WORD.fullmatch(first) and _WORD.fullmatch(second):
            yield f"{first} {second}"


def counted(texts: Iterable[tuple[str, int]]) -> tuple[Counter[str], Counter[str]]:
    """How often each word, and each two words side by side, stand in texts that count so many times."""
    singles, pairs = Counter[str](), Counter[str]()
    for text, times in texts:
        for run in runs(text):
            for _ in range(times):
                singles.update(run)
                pairs.update(pairs_of(run))
        if len(pairs) > 12_000_000:  # what was seen once by now is noise, and fills the memory
            pairs = Counter({pair: count for pair, count in pairs.items() if count > 1})
    return singles, pairs


def chosen_phrases(work: Path, count: int) -> list[str]:
    """The ``count`` phrases that come first."""
    headwords = {row["q"].lower() for row in lines(work / "pairs.jsonl.gz") if row["q"].count(" ") == 1}
    passages = lines(work / "passages.jsonl.gz")
    passages = passages[:: max(1, len(passages) // PASSAGES)]
    singles, pairs = counted([(row["q"], QUERY) for row in asked(work)] + [(row["t"], 1) for row in passages])
    total = max(2, sum(singles.values()))

    def order(pair: str) -> float:
        first, second = pair.split()
        seen, known = pairs[pair], pair in headwords
        if seen < (FEWEST_OF_HEADWORDS if known else FEWEST):
            return 0.0
        npmi = log(seen * total / (singles[first] * singles[second])) / -log(seen / total)
        return max(0.0, npmi - (0 if known else LEAST)) * log(seen) ** 2 * (HEADWORD if known else 1)

    orders = {pair: order(pair) for pair in pairs}
    best = sorted(
        (pair for pair, value in orders.items() if value > 0), key=lambda pair: (-orders[pair], pair)
    )
    return sorted(best[:count])
