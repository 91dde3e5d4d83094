"""What was collected, and queries made of it. `texts.py` uses it.

WORK holds pairs.jsonl.gz {"q", "p"}, passages.jsonl.gz {"t"}, queries.jsonl.gz {"q"} (`collect`) and
synonyms.json.gz {word: [words]} (`synonyms`).

Besides the queries that came with the text, queries are made from passages: runs of their words, the same
with words exchanged for synonyms, and either in the frame of a question. None of them needs to fit its
passage well: the teacher says what each one means.
"""

from __future__ import annotations

import gzip
import json
import lzma
import random
import re
from pathlib import Path
from typing import Any

SPANS, MOST_MADE = 5, 3_000_000
"""Queries made of each passage, and in all: of many passages fewer each."""
FRAMES = (
    "what is {}", "what are {}", "how does {} work", "how to {}", "why {}", "which {}", "who {}",
    "where is {}", "when was {}", "how many {}", "how much {}", "page about {}", "slide on {}",
    "chart of {}", "table of {}", "information on {}", "tell me about {}", "explain {}", "definition of {}",
    "difference between {}",
    "find the page that talks about {}", "what does it say about {}", "is there anything about {}",
    "what happens to {}", "reasons for {}", "advice on {}", "ways to {}", "share of {}", "people who {}",
)  # fmt: skip
FRAMED, EXCHANGED = 0.3, 0.5
"""Share of made queries in a frame; and with words exchanged."""
LIKE_A_PAGE = 0.6
"""For so many passages there is another one that is like a slide or a form: scraps of it, and numbers."""
DROPPED, WHOLE, FROM_THE_START, NUMBERED, IN_ORDER = 0.2, 0.25, 0.6, 0.15, 0.5
"""Of such a passage's sentences: left out, kept whole, cut at the end only, with a number behind; and how
many such passages keep the order of their sentences."""
_SENTENCE = re.compile(r"(?<=[.!?;:,])\s+")


def lines(path: Path) -> list[dict[str, Any]]:
    """Of NAME.jsonl.gz, or NAME.jsonl.xz."""
    packed = path.with_suffix(".xz")
    found = packed if packed.exists() else path
    with (lzma.open if packed.exists() else gzip.open)(found, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def asked(work: Path) -> list[dict[str, Any]]:
    """Queries that may be learned from: those for research only are left out, here and nowhere else."""
    return [row for row in lines(work / "queries.jsonl.gz") if not row.get("research_only")]


def load_synonyms(work: Path) -> dict[str, list[str]]:
    with gzip.open(work / "synonyms.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, list[str]] = json.load(file)
    return found


def exchanged(words: list[str], synonyms: dict[str, list[str]], rng: random.Random) -> list[str]:
    """About two thirds of the words that have synonyms give way to one."""
    out = []
    for word in words:
        choices = synonyms.get(word.lower().strip(".,;:()"))
        out.append(rng.choice(choices) if choices and rng.random() < 0.65 else word)
    return out


def like_a_page(text: str, rng: random.Random) -> str:
    """The passage as scraps of its sentences."""
    scraps = []
    for sentence in _SENTENCE.split(text):
        words, kind = sentence.split(), rng.random()
        if kind < DROPPED:
            continue
        if kind > DROPPED + WHOLE:
            size = min(len(words), int(rng.triangular(1, 14, 4)))
            start = 0 if rng.random() < FROM_THE_START else rng.randint(0, len(words) - size)
            words = words[start : start + size]
        if rng.random() < NUMBERED:
            words.append(rng.choice(("{}%", "${}", "{}", "{} million", "20{:02}")).format(rng.randint(1, 99)))
        scraps.append(" ".join(words).rstrip(".,;:"))
    if rng.random() > IN_ORDER:
        rng.shuffle(scraps)
    return ". ".join(scraps) or text


def made_queries(numbered: tuple[int, str], synonyms: dict[str, list[str]], spans: int = SPANS) -> list[str]:
    number, text = numbered
    rng, words = random.Random(number), text.split()
    queries = []
    for _ in range(spans):
        size = min(len(words), int(rng.triangular(1, 16, 4)))
        start = rng.randint(0, max(0, len(words) - size))
        run = words[start : start + size]
        if rng.random() < EXCHANGED:
            run = exchanged(run, synonyms, rng)
        query = " ".join(run)
        queries.append(rng.choice(FRAMES).format(query) if rng.random() < FRAMED else query)
    return queries
