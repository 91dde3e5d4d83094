"""The constants of the joint score: judged as a search would be, and chosen where they rank better."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from research.meaning.join_scores import Questions, chosen, join_scores, load, value
from research.meaning.options import JoinOptions
from vsplade.encode import load_encoder
from vsplade.encode.meaning.meaning_model import MeaningModel
from vsplade.encode.text import TextEncoder
from vsplade.errors import InputError
from vsplade.evaluate.evaluator import evaluate_dataset
from vsplade.evaluate.kept_vectors import PageVectors
from vsplade.search import by_meaning
from vsplade.types import SparseVector

PAGES = {
    "stomach": "Treatment of acute abdominal pain in adults. The patient reports cramps after meals.",
    "engine": "The turbine was overhauled in March. New bearings were fitted to the main shaft.",
    "money": "Net income of the group rose by nine percent, mostly from interest on deposits.",
    "garden": "Tulips are planted in autumn, three times as deep as the bulb is high.",
    "court": "The judge dismissed the appeal and ordered the plaintiff to pay all costs.",
    "school": "Pupils of the seventh year visit the museum with their teachers in spring.",
    "weather": "Heavy rain and strong winds are expected along the coast until Friday.",
}
ASKED = {
    "remedy for a bellyache": "stomach", "repair of machinery": "engine", "income of the bank": "money",
    "when to put flowers in the soil": "garden", "the appeal": "court", "a trip of the class": "school",
    "storm warning": "weather", "turbine bearings": "engine", "xyzzyq": "money",
}  # fmt: skip
SHIPPED = np.array(
    [by_meaning.LEAST_TRUST, by_meaning.MOST_TRUST, by_meaning.DOUBT, by_meaning.MATCHED, by_meaning.COVERED]
)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"_id": str(number), "text": text} for number, text in enumerate(ASKED)]
    with gzip.open(folder / "queries.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    judged = "".join(f"{number}\t{page}\t1\n" for number, page in enumerate(ASKED.values()))
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    words, meaning = TextEncoder(), MeaningModel.load()

    def vector(text: str) -> SparseVector:
        found = words.encode_text(text)
        known = found.terms < len(
            load_encoder("reader").vocabulary
        )  # words beyond it are told by their pieces
        return SparseVector(found.terms[known], found.weights[known], meaning.encode_text(text))

    path = tmp_path / "vectors.npz"
    PageVectors.collect((page, vector(text)) for page, text in PAGES.items()).save(path)
    return path


def test_questions_are_scored_as_a_search_scores_them(dataset: Path, vectors: Path) -> None:
    (questions,) = load(dataset, vectors)
    wanted = evaluate_dataset(dataset, load_encoder("reader"), vectors=PageVectors.load(vectors), k=5)
    assert 0.3 < wanted.measures["ndcg@5"] < 1  # or the next line would say little
    assert questions.ndcg(SHIPPED) == pytest.approx(wanted.measures["ndcg@5"], abs=1e-6)


def made(rng: np.random.Generator, meant: bool) -> Questions:
    """Of ``meant`` ones words tell nothing and are matched badly; of others meaning tells nothing."""
    count, pages = 200, 20
    right, noise = np.eye(pages)[rng.integers(pages, size=count)], rng.random((2, count, pages))
    words = noise[0] + (0 if meant else 1) * right
    cosines = 0.3 * noise[1] + (0.3 if meant else 0) * right
    matched = np.full(count, 0.1 if meant else 0.4)
    kind = "meaning" if meant else "words"
    return Questions(
        f"made {kind}", words, cosines, np.ones(count), matched, matched, right, np.ones(count, bool)
    )


def test_constants_that_tell_questions_apart_are_found() -> None:
    rng = np.random.default_rng(0)
    sets = [made(rng, False), made(rng, True)]
    start = np.array([0.3, 0.3, 1.0, 1.0, 1.0])
    found = chosen(sets, start, 120, rng)
    assert value(sets, found) > value(sets, start) + 0.02
    assert sets[1].ndcg(found) > sets[1].ndcg(start) + 0.02
    assert sets[0].ndcg(found) > sets[0].ndcg(start) - 0.01


def test_vectors_without_their_data_set_are_refused(dataset: Path) -> None:
    with pytest.raises(InputError, match="as many"):
        join_scores(JoinOptions((dataset,), ()))
