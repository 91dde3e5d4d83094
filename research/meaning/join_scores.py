"""Chooses how the scores of words and of meaning are joined: the constants of `vsplade.search.by_meaning`.

    vsplade eval DATASET --keep-vectors FILE
    python -m research.meaning.join_scores --dataset DATASET --vectors FILE [--dataset ... --vectors ...]

Every question is scored on every page, by words and by meaning, once. Then constants are drawn around the
best so far, again and again; those are kept that rank half A best. Half B is judged by them.
Ordinary questions count more than questions of meaning: there are more of them.

    value = ORDINARY * (sum of NDCG@5 of ordinary questions) + sum of NDCG@5 of questions of meaning

A data set's questions of meaning are those of queries-meaning.jsonl.gz, where it has some.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from research.command import main
from research.meaning.judge import CUT, is_half_a, questions_of
from research.meaning.options import JoinOptions
from vsplade.encode import load_encoder
from vsplade.errors import InputError
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.search import by_meaning
from vsplade.search.index import Index
from vsplade.search.numpy_meaning import NumpyMeaning
from vsplade.search.query_plan import MeaningPart
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import Direction, SparseVector

ORDINARY = 8.0
SHRINK, WIDEST = 0.985, 0.5
"""Constants are drawn from a range around the best that becomes narrower from draw to draw."""
MOST_SURE = 50.0
"""Beyond it trust is at its least, and its exponential would not fit a float."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Questions:
    """Of one set, every question on every page."""

    name: str
    words: Array
    cosines: Array
    total: Array
    """The sum of a question's weights."""
    matched: Array
    covered: Array
    gains: Array
    is_a: Array

    def only(self, rows: Array) -> Questions:
        arrays = (self.words, self.cosines, self.total, self.matched, self.covered, self.gains, self.is_a)
        return Questions(self.name, *(array[rows] for array in arrays))

    def ndcg(self, constants: Array) -> float:
        least, most, doubt, matched, covered = constants
        sure = np.minimum(matched * self.matched + covered * self.covered - doubt, MOST_SURE)
        trust = least + most / (1 + np.exp(sure))
        scores = self.words + (trust * self.total)[:, None] * self.cosines
        best = np.argpartition(-scores, min(CUT, scores.shape[1]) - 1, axis=1)[:, :CUT]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, 1), axis=1), 1)
        discount = 1 / np.log2(np.arange(2, CUT + 2))
        is_found = np.take_along_axis(scores, best, 1) > 0  # a page without a score is no result
        found = (np.take_along_axis(self.gains, best, 1) * is_found) @ discount
        ideal = -np.sort(-self.gains, axis=1)[:, :CUT] @ discount
        return float((found / ideal).mean())


def scored(name: str, index: Index, asked: list[dict[str, Any]]) -> Questions:
    segments = index.commit.segments
    engine = NumpyMeaning([MeaningPart(live.segment, live.segment.windows, live.base) for live in segments])
    numbers = np.arange(index.commit.pages)
    page_of = {page: number for number, page in enumerate(index.commit.ids(numbers))}
    rows: list[tuple[Any, ...]] = []
    for one in asked:
        query = index.encode_query(one["text"])
        direction = query.meaning
        words = engine.word_scores(query, numbers)
        cosines = np.zeros(len(numbers))
        if isinstance(direction, Direction):
            cosines = np.maximum(engine.cosines(direction.vector, numbers), 0)
            single = query.terms < direction.vocabulary
            asked_for = SparseVector(query.terms[single], query.weights[single])
            total = float(asked_for.weights.sum())
            best = np.argsort(-words, kind="stable")[: by_meaning.LOOKED_AT]
            covered = float(engine.word_scores(asked_for, best, how_often=False).max())
        else:
            total = covered = 0.0
        gains = np.zeros(len(numbers))
        for page, gain in one["answers"].items():
            gains[page_of[page]] = gain
        share = max(total, 1e-9)
        rows.append(
            (words, cosines, total, words.max() / share, covered / share, gains, is_half_a(one["text"]))
        )
    return Questions(name, *(np.array(column) for column in zip(*rows, strict=True)))


def load(dataset: Path, vectors: Path) -> list[Questions]:
    encoder = load_encoder("reader")
    with tempfile.TemporaryDirectory() as folder:
        with IndexWriter(Path(folder) / "index", EncoderIdentity.of(encoder)) as writer:
            for page, vector in PageVectors.load(vectors).items():
                writer.add(page, vector)
        index = Index.open(Path(folder) / "index", encoder)
        found = [scored(f"{dataset.name} words", index, questions_of(dataset))]
        if (dataset / "queries-meaning.jsonl.gz").exists():
            found.append(scored(f"{dataset.name} meaning", index, questions_of(dataset, "-meaning")))
    return found


def value(sets: list[Questions], constants: Array) -> float:
    return sum((ORDINARY if one.name.endswith(" words") else 1) * one.ndcg(constants) for one in sets)


def chosen(sets: list[Questions], start: Array, draws: int, rng: np.random.Generator) -> Array:
    best, most, wide = start, value(sets, start), WIDEST
    for _ in range(draws):
        tried = best * np.exp(rng.normal(size=len(best)) * wide * (rng.random(len(best)) < 0.5))
        if (now := value(sets, tried)) > most:
            best, most = tried, now
        wide = max(wide * SHRINK, 0.03)
    return best


def join_scores(options: JoinOptions) -> dict[str, Any]:
    """Choose the constants on half A, and by exchange on half B; say what each half has by them."""
    if len(options.dataset) != len(options.vectors):
        raise InputError("Give as many --vectors as --dataset, in the same order.")
    sets = [one for pair in zip(options.dataset, options.vectors, strict=True) for one in load(*pair)]
    halves = {half: [one.only(one.is_a == (half == "A")) for one in sets] for half in "AB"}
    shipped = np.array(
        [
            by_meaning.LEAST_TRUST,
            by_meaning.MOST_TRUST,
            by_meaning.DOUBT,
            by_meaning.MATCHED,
            by_meaning.COVERED,
        ]
    )
    rng = np.random.default_rng(options.seed)
    found = {"shipped": shipped}
    for half, of_half in halves.items():
        found[f"chosen on {half}"] = chosen(of_half, shipped, options.draws, rng)
        print(f"chosen on {half}: {found[f'chosen on {half}'].round(2).tolist()}", file=sys.stderr)
    out: dict[str, Any] = {}
    for name, constants in found.items():
        judged = {"all": sets} | halves
        out[name] = {
            "least, most, doubt, matched, covered": constants.round(3).tolist(),
            **{
                f"{one.name}, {part}": round(one.ndcg(constants), 4)
                for part in judged
                for one in judged[part]
            },
        }
    return out


if __name__ == "__main__":
    main(join_scores, JoinOptions)
