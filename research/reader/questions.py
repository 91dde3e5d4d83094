"""Questions about pages, made up from the pages' own words.

A question is a frame, as people ask about a page they have in front of them or remember, with a few words of
the page's text put into its gaps. The frames (``frames.txt``) bring what such questions are full of and pages
are not ("what percentage", "according to the chart", "mentioned", "titled"); the gaps bring what the page is
about. Both together teach which words of a question to look for.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from research.experiments.stopwords import LUCENE
from vsplade.encode.tokenizer import normalise, split_words

LONGEST_TOPIC = 5
DEEPEST = 4
"""A choice may name a kind of word, which is a choice again."""
_SENTENCE = re.compile(r"[.!?:;]\s+|[\r\n]+")
_CHOICE = re.compile(r"\{([^{}]*)\}")
_KIND = re.compile(r"\b[A-Z]{4,}\b")
_GAP = re.compile(r"\b[XY]\b")


@cache
def frames() -> tuple[tuple[str, ...], dict[str, str]]:
    """The frames, and the words of every kind that they name."""
    lines = Path(__file__).with_name("frames.txt").read_text("utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    kinds = dict(line.split(" = ") for line in lines if " = " in line)
    return tuple(line for line in lines if " = " not in line), kinds


def fill(frame: str, rng: random.Random) -> str:
    """Choices made and kinds of words drawn; the gaps are left."""
    kinds = frames()[1]
    for _ in range(DEEPEST):
        frame = _CHOICE.sub(lambda found: rng.choice(found.group(1).split("|")), frame)
        frame = _KIND.sub(lambda found: rng.choice(kinds[found.group()].split("|")), frame)
    return frame


def topics(text: str, rng: random.Random, count: int) -> list[str]:
    """Up to ``count`` runs of neighbouring words of one sentence each, without small words at their ends."""
    found: list[str] = []
    parts = _SENTENCE.split(text)
    for _ in range(8 * count):
        words = list(split_words(normalise(rng.choice(parts))))
        start = rng.randrange(max(1, len(words)))
        run = words[start : start + rng.randint(1, LONGEST_TOPIC)]
        while run and _small(run[-1]):
            run.pop()
        while run and _small(run[0]):
            run.pop(0)
        if run and not all(word.isdigit() for word in run):
            found.append(" ".join(run))
            if len(found) == count:
                break
    return found


def _small(word: str) -> bool:
    return len(word) < 2 or word in LUCENE


def ask(text: str, rng: random.Random) -> str:
    """One question about a page with this text; nothing where it has too few words."""
    found = topics(text, rng, 2)
    if len(found) < 2:
        return ""
    gaps = dict(zip("XY", found, strict=True))
    return _GAP.sub(lambda gap: gaps[gap.group()], fill(rng.choice(frames()[0]), rng))
