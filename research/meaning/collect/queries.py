"""Questions and other queries, alone: of public benchmarks, of the training data, and made of headings.

Some sets may be used for research only: their rows are marked ``research_only``, and nothing that is trained
may see them (`prepare.asked` leaves them out).
"""

from __future__ import annotations

import json
import random
import re
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from research.meaning.collect import wide
from research.meaning.collect.packages import Places
from research.meaning.collect.text import clean, read_lines

RESEARCH_ONLY = frozenset({"curatedtrec", "msmarco", "trec-million-query", "trec-terabyte-efficiency"})
BENCHMARKS = {
    "triviaqa": ("trivia.dev", "trivia.test"),
    "natural-questions": ("nq.dev", "nq.test"),
    "squad": ("squad.test",),
    "webquestions": ("wq.test",),
    "curatedtrec": ("curated.test",),
}
FORMS = ("what is {}", "what does {} mean", "{} definition", "{} explained")
MOST_OF_A_DICTIONARY = {"wordnet": 25_000, "wordset": 25_000}
MOST_OF_OTHERS = 8_000
_DICTIONARIES = frozenset(
    ("wordnet", "gcide", "mythes", "foldoc", "jargon", "vera", "devil", "wordset", "gene-ontology", "hpo")
)
_QUESTIONS_ALREADY = frozenset(("wordnet-example", "wordset-example", "medquad", "wikitables", "charts"))
_SHORT = re.compile(r"[A-Za-z][A-Za-z' -]{3,60}$")


def collect(places: Places) -> list[dict[str, Any]]:
    """Rows of ``q``, ``src`` and, where it holds, ``research_only``; each query once, in random order.

    A query that stands in a set for research only is marked, whatever other set has it too.
    """
    pairs = list(read_lines(places.work / "pairs.jsonl.gz"))
    found: dict[str, str] = {}
    marked = set()
    for part in (benchmarks(places.topics), training_data(places), made(pairs), wide.queries(places)):
        for query, source in part:
            query = clean(query)
            if 2 <= len(query.split()) <= 40:
                found.setdefault(query, source)
                if source in RESEARCH_ONLY:
                    marked.add(query)
    rows = [
        {"q": query, "src": source, **({"research_only": True} if query in marked else {})}
        for query, source in found.items()
    ]
    random.Random(0).shuffle(rows)
    return rows


def benchmarks(topics: Path) -> Iterator[tuple[str, str]]:
    """(query, source)."""
    for source, names in BENCHMARKS.items():
        for name in names:
            for line in _lines(topics / f"topics.dpr.{name}.txt"):
                query = json.loads(line)["question"] if line.startswith("{") else line.split("\t")[0]
                yield query.strip('"').replace('""', '"'), source
    for line in _lines(topics / "topics.car17v2.0.benchmarkY1test.txt"):
        heading = urllib.parse.unquote(line.strip().removeprefix("enwiki:"))
        yield heading.replace("/", ", "), "trec-car-headings"
    kinds = (
        ("topics.mq.*.txt", "trec-million-query", ":"),
        ("topics.terabyte0*.efficiency.txt", "trec-terabyte-efficiency", ":"),
        ("topics.msmarco-*.txt", "msmarco", "\t"),
    )
    for pattern, source, mark in kinds:
        for path in sorted(topics.glob(pattern)):
            for line in _lines(path):
                yield line.split(mark)[-1], source


def training_data(places: Places) -> Iterator[tuple[str, str]]:
    sets = {
        "medquad": "medquad.jsonl.gz",
        "wikitables": "wikitables.queries.jsonl.gz",
        "charts": "charts/pairs.jsonl.gz",
    }
    for source, name in sets.items():
        for row in read_lines(places.data / name):
            yield row["query"], source
    for line in _lines(places.npm("idioms") / "package" / "idioms.txt"):
        yield line, "idioms"


def made(pairs: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """Headwords and headings in the form of a question; of the large dictionaries only some."""
    rng, taken = random.Random(0), Counter[str]()
    rng.shuffle(pairs)
    for row in pairs:
        query, source = row["q"], row["src"]
        if source in _QUESTIONS_ALREADY:
            continue
        if source in _DICTIONARIES:
            if taken[source] < MOST_OF_A_DICTIONARY.get(source, MOST_OF_OTHERS) and _SHORT.match(query):
                taken[source] += 1
                yield rng.choice(FORMS).format(query), f"made-from-{source}"
        elif 2 <= len(query.split()) <= 12:
            if re.match(r"[A-Z][a-z]+ing ", query):
                yield f"how to go about {query[0].lower()}{query[1:]}", f"made-from-{source}"
            plain = query.endswith("?") or rng.random() < 0.5
            yield query if plain else f"what is {query}", f"made-from-{source}"


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", errors="replace").split("\n")
