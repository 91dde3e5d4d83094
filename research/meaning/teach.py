"""What MiniLM says of queries, passages and single tokens: the vectors that the query table learns from.

    python -m research.meaning.teach WORK --minilm FOLDER

The queries are a mix: natural questions, headings and headwords, short glosses of dictionaries, and runs of
passages with words exchanged for synonyms and in the frame of a question (`prepare.made_queries`). Queries
marked `research_only` are left out (`prepare.asked`).

MiniLM runs in 8 bits on a CPU (`export.Graph`), as it does for pages: what is learned is what pages get.
Everything goes into WORK/teacher, queries in parts; a part that is there is not made again. `own.npy` has the
passage that each query was made of, or -1. To teach with other options, remove that folder.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from research.command import main
from research.meaning.export import page_graph
from research.meaning.model import HIDDEN, load_minilm, page_encoder
from research.meaning.options import TeachOptions
from research.meaning.prepare import (
    SPANS,
    TEACHER_PASSAGE,
    asked,
    lines,
    load_synonyms,
    made_queries,
    teacher_tokens,
)
from vsplade.encode.meaning.meaning_model import WINDOW
from vsplade.encode.meaning.wordpiece import WordPiece, words
from vsplade.errors import InputError

PART = 65_536
"""Queries of one file."""
QUERY = 48
"""Tokens of a query, at most, with those of the start and the end."""
QUERY_CHARACTERS, GLOSS_WORDS = 300, 22
DENSE = ("dict-gcide", "dict-foldoc")
"""Dictionaries in running text: little of it, and no queries are made of it."""
DENSE_SHARE = 1 / 12
Array = np.ndarray[Any, Any]


class Teacher:
    """MiniLM as onnxruntime has it, over its own tokens, 0 where there is none."""

    def __init__(self, minilm: Path, graph: Path, threads: int = 1) -> None:
        if not graph.exists():
            page = page_encoder(load_minilm(minilm), torch.eye(HIDDEN))
            partial = graph.with_suffix(".partial")
            onnx.save(page_graph(page), partial)
            os.replace(partial, graph)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1  # batches run side by side instead
        self._session = onnxruntime.InferenceSession(str(graph), settings, providers=["CPUExecutionProvider"])
        self._vocabulary = WordPiece.load(minilm / "vocab.txt")
        self._threads = threads

    def vectors(self, tokens: Array, batch: int = 64) -> Array:
        """Rows of like length go together."""
        sizes = (tokens != 0).sum(axis=1)
        order = np.argsort(sizes, kind="stable")
        out = np.zeros((len(tokens), HIDDEN), np.float16)

        def run(first: int) -> None:
            rows = order[first : first + batch]
            part = tokens[rows, : max(1, int(sizes[rows].max()))].astype(np.int32)
            part[part == 0] = len(self._vocabulary)
            certainty = np.ones(part.shape, np.float32)
            out[rows] = self._session.run(None, {"tokens": part, "certainty": certainty})[0]

        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(run, range(0, len(order), batch)))
        return out

    def single_tokens(self) -> Array:
        """Every token of the vocabulary, alone between the start and the end."""
        count = len(self._vocabulary)
        tokens = np.tile(np.array([self._vocabulary.start, 0, self._vocabulary.end]), (count, 1))
        tokens[:, 1] = np.arange(count)
        tokens[0, 1] = self._vocabulary.start  # 0 is the padding, which has no meaning
        return tokens


def taught_queries(work: Path) -> list[str]:
    """The texts, in the order of their vectors."""
    return _stored(work, "queries")


def taught_passages(work: Path) -> list[str]:
    return _stored(work, "passages")


def _stored(work: Path, kind: str) -> list[str]:
    path = work / "teacher" / f"{kind}.json.gz"
    if not path.exists():
        raise InputError(f"{path} is not there; run research.meaning.teach first")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: list[str] = json.load(file)
    return found


def chosen_passages(work: Path, count: int, rng: random.Random) -> list[str]:
    """Mostly of manuals, reports and the like, a few of dictionaries in running text."""
    rows = lines(work / "passages.jsonl.gz")
    dense = [row["t"] for row in rows if row["src"] in DENSE]
    other = [row["t"] for row in rows if row["src"] not in DENSE]
    few = min(int(count * DENSE_SHARE), len(dense))
    return rng.sample(other, min(count - few, len(other))) + rng.sample(dense, few)


def chosen_queries(options: TeachOptions, taught: list[str], rng: random.Random) -> list[tuple[str, int]]:
    """The mix, each query once, in random order; with the number of the passage among ``taught`` that it was
    made of, or -1.
    """
    rows = lines(options.work / "passages.jsonl.gz")
    numbers = {text: number for number, text in enumerate(taught)}
    more = [row["t"] for row in rows if row["src"] not in DENSE and row["t"] not in numbers]
    rng.shuffle(more)
    synonyms = load_synonyms(options.work)
    pool = [*taught, *more][: -(-options.spans // SPANS)]
    spans = [
        (query, numbers.get(text, -1))
        for number, text in enumerate(pool)
        for query in made_queries((number, text), synonyms)
    ]
    pairs = lines(options.work / "pairs.jsonl.gz")
    rng.shuffle(pairs)
    last = options.headwords + options.glosses
    mix = [row["q"] for row in asked(options.work)]
    mix += [row["q"] for row in pairs[: options.headwords]]
    mix += [row["p"] for row in pairs[options.headwords : last] if len(row["p"].split()) < GLOSS_WORDS]
    mixed = spans[: options.spans] + [(query, -1) for query in mix]
    queries: dict[str, int] = {}
    for query, number in mixed:
        queries.setdefault(query[:QUERY_CHARACTERS], number)
    found = list(queries.items())
    rng.shuffle(found)
    return found


def as_read(texts: list[str], pieces: WordPiece) -> Array:
    """Passages as the reader gives them to the page encoder: words without signs."""
    out = np.zeros((len(texts), WINDOW), np.uint16)
    for row, text in enumerate(texts):
        found = [token for word in words(text) if word.isalnum() for token in pieces.word(word)]
        out[row, : len(found[:WINDOW])] = found[:WINDOW]
    return out


def teach(options: TeachOptions) -> dict[str, Any]:
    """Write MiniLM's vectors of queries, passages and single tokens into WORK/teacher."""
    folder = options.work / "teacher"
    folder.mkdir(exist_ok=True)
    teacher = Teacher(options.minilm, folder / "minilm.onnx", options.threads)
    if not (folder / "tokens.npz").exists():
        save_arrays(folder / "tokens.npz", vectors=teacher.vectors(teacher.single_tokens(), 256))
    passages = chosen_passages(options.work, options.passages, random.Random(options.seed))
    if not (folder / "passages.npz").exists():
        tokens = teacher_tokens(options.minilm, passages, TEACHER_PASSAGE)
        read = as_read(passages, WordPiece.load(options.minilm / "vocab.txt"))
        _store(folder / "passages.json.gz", passages)
        save_arrays(folder / "passages.npz", vectors=teacher.vectors(tokens, 32), tokens=read)
    queries = _queries(folder, options, passages)
    began = time.time()
    for number, first in enumerate(range(0, len(queries), PART)):
        path = folder / f"queries-{number:03d}.npz"
        if not path.exists():
            tokens = teacher_tokens(options.minilm, queries[first : first + PART], QUERY)
            save_arrays(path, tokens=tokens, vectors=teacher.vectors(tokens, 128))
            print(f"{time.time() - began:5.0f} s  {path.name}", file=sys.stderr)
    return {"queries": len(queries), "folder": str(folder)}


def _queries(folder: Path, options: TeachOptions, passages: list[str]) -> list[str]:
    """The mix that was chosen before, or a new one: parts must go on where they stopped."""
    path = folder / "queries.json.gz"
    if not path.exists():
        chosen = chosen_queries(options, passages, random.Random(options.seed + 1))
        np.save(folder / "own.npy", np.array([number for _, number in chosen], np.int32))
        _store(path, [query for query, _ in chosen])
    return taught_queries(options.work)


def _store(path: Path, texts: list[str]) -> None:
    partial = path.with_suffix(".partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        json.dump(texts, file)
    os.replace(partial, path)


def save_arrays(path: Path, **arrays: Array) -> None:
    """Whole or not at all."""
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **arrays)  # type: ignore[arg-type]
    os.replace(partial, path)


if __name__ == "__main__":
    main(teach, TeachOptions)
