"""Text to numbers, for training on a GPU: the reader's terms for the student, MiniLM's for the teacher.

    python -m research.meaning.prepare WORK

WORK holds pairs.jsonl.gz {"q", "p"}, passages.jsonl.gz {"t"}, queries.jsonl.gz {"q"} (`collect`),
synonyms.json.gz {word: [words]} (`synonyms`) and minilm/ (tokenizer.json). Writes WORK/tokens.npz. `teach.py`
uses the same functions.

Besides the queries that came with the text, queries are made from passages: runs of their words, the same
with words exchanged for synonyms, and either in the frame of a question. None of them needs to fit its
passage well: the teacher says what each one means.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import random
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np

from vsplade.encode.tokenizer import Tokenizer, letters_of

PASSAGE, QUERY = 200, 24
"""Terms that are kept of a passage and of a query."""
TEACHER_PASSAGE, TEACHER_QUERY = 256, 40
SPANS = 5
"""Queries made of each passage."""
DICTIONARIES = frozenset(
    (
        "wordnet", "wordset", "mythes", "gcide", "gene-ontology", "wordnet-example", "hpo", "wordset-example",
        "foldoc", "vera", "jargon", "devil",
    )
)  # fmt: skip
REPEATED = 5
"""Questions and headings count more than entries of dictionaries, of which there are many."""
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
_WORD = re.compile(r"[A-Za-z']+")


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


def made_queries(numbered: tuple[int, str], synonyms: dict[str, list[str]]) -> list[str]:
    number, text = numbered
    rng, words = random.Random(number), text.split()
    queries = []
    for _ in range(SPANS):
        size = min(len(words), int(rng.triangular(1, 16, 4)))
        start = rng.randint(0, max(0, len(words) - size))
        run = words[start : start + size]
        if rng.random() < EXCHANGED:
            run = exchanged(run, synonyms, rng)
        query = " ".join(run)
        queries.append(rng.choice(FRAMES).format(query) if rng.random() < FRAMED else query)
    return queries


def reader_terms(text: str, size: int) -> list[int]:
    return Tokenizer.load().encode(text)[:size]


def table(rows: Iterable[list[int]], count: int, size: int, padding: int) -> np.ndarray[Any, Any]:
    out = np.full((count, size), padding, np.uint16)
    for n, row in enumerate(rows):
        out[n, : len(row)] = row[:size]
    return out


def teacher_tokens(folder: Path, texts: list[str], size: int) -> np.ndarray[Any, Any]:
    from tokenizers import Tokenizer as WordPiece

    wordpiece = WordPiece.from_file(str(folder / "tokenizer.json"))
    wordpiece.no_padding()
    wordpiece.enable_truncation(size)
    out = np.zeros((len(texts), size), np.uint16)
    for at in range(0, len(texts), 100_000):
        for n, encoded in enumerate(wordpiece.encode_batch_fast(texts[at : at + 100_000])):
            out[at + n, : len(encoded.ids)] = encoded.ids
    return out


def unpaired(pool: Any, passages: list[str], synonyms: dict[str, list[str]]) -> list[str]:
    make: Callable[[tuple[int, str]], list[str]] = partial(made_queries, synonyms=synonyms)
    made = pool.imap(make, enumerate(passages), chunksize=2000)
    return [query for queries in made for query in queries]


def main(work: Path) -> None:
    found = lines(work / "pairs.jsonl.gz")
    pairs = [row for row in found for _ in range(1 if row["src"] in DICTIONARIES else REPEATED)]
    passages = [row["t"] for row in lines(work / "passages.jsonl.gz")]
    questions = [row["q"] for row in asked(work)]
    texts = [row["p"] for row in pairs] + passages
    with Pool() as pool:
        made = unpaired(pool, passages, load_synonyms(work))
        queries = [row["q"] for row in pairs] + questions + made
        empty = len(Tokenizer.load())
        rows = pool.imap(partial(reader_terms, size=PASSAGE), texts, chunksize=2000)
        passage = table(rows, len(texts), PASSAGE, empty)
        rows = pool.imap(partial(reader_terms, size=QUERY), queries, chunksize=5000)
        query = table(rows, len(queries), QUERY, empty)
    letters = [letters_of(Tokenizer.load().token(term)) for term in range(empty)]
    np.savez(
        work / "tokens.npz",
        pairs=len(pairs), asked=len(questions), passage=passage, query=query,
        teacher_passage=teacher_tokens(work / "minilm", texts, TEACHER_PASSAGE),
        teacher_query=teacher_tokens(work / "minilm", queries, TEACHER_QUERY),
        teacher_terms=teacher_tokens(work / "minilm", letters, 16),
    )  # fmt: skip
    print(
        f"{len(pairs):,} pairs, {len(passages):,} passages, {len(questions):,} questions, {len(made):,} made"
    )
    print("for instance:", *islice(made, 0, 50_000, 5_000), sep="\n  ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    main(parser.parse_args().work)
