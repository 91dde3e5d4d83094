"""Training pages and hand-written questions about them, to choose how words and meaning are joined.

    python -m research.meaning.questions WORK --model OUT

The constants of `vsplade.search.by_meaning` (what `trust` is made of) can be tried on these questions,
so that the development sets stay what they are for: measuring.

`questions.tsv` was written for this project: the id of a page, a question in the page's own words, and one in
other words. The pages are every second page of the training reports, and samples of MedQuAD, chart captions
and tables; their order and ids are fixed by the seed. Writes WORK/questions.npz, for each set of questions:

    NAME.words     what each page has of the question's weight, by words     (questions x pages)
    NAME.meaning   the cosine of each page's best window with the question   (questions x pages)
    NAME.answer    the number of the page that answers                       (questions)

where NAME is `words` (the page's words), `meaning` (other words) or `given` (questions of the sets).
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2

from research.command import main
from research.meaning.collect.text import read_lines
from research.meaning.options import QuestionsOptions
from vsplade.encode import load_encoder
from vsplade.encode.meaning.meaning_model import MeaningModel
from vsplade.errors import InputError
from vsplade.types import SparseVector, Windows

WRITTEN = Path(__file__).with_name("questions.tsv")
SEED = 3
MEDICAL, TABLES = 1500, 800
"""Pages drawn of each."""
FEWEST_WORDS, MEDICAL_WORDS, TABLE_WORDS = 30, 350, 300
Array = np.ndarray[Any, Any]
Asked = list[tuple[str, int]]
"""Questions, each with the number of the page that answers it."""


@dataclass(frozen=True)
class TrainingPage:
    id: str
    text: str
    questions: tuple[str, ...] = ()


def training_pages(data: Path) -> list[TrainingPage]:
    """The same pages in the same order, whenever the data is the same."""
    rng = random.Random(SEED)
    pages = [page for path in sorted((data / "reports").glob("*.pdf")) for page in _report(path)]
    medical = rng.sample(list(read_lines(data / "medquad.jsonl.gz")), MEDICAL)
    for number, row in enumerate(medical):
        pages.append(TrainingPage(f"med{number}", _first(row["text"], MEDICAL_WORDS), (row["query"],)))
    for number, row in enumerate(read_lines(data / "charts" / "pairs.jsonl.gz")):
        if number % 4 == 0:
            pages.append(TrainingPage(f"chart{number}", row["caption"], (row["query"],)))
    tables = list(read_lines(data / "wikitables.tables.jsonl.gz"))
    about: dict[str, list[str]] = {}
    for row in read_lines(data / "wikitables.queries.jsonl.gz"):
        about.setdefault(row["table"], []).append(row["query"])
    for row in rng.sample(tables, TABLES):
        found = tuple(about.get(row["_id"], ())[:1])
        pages.append(TrainingPage(f"tab{row['_id']}", _first(row["tsv"], TABLE_WORDS), found))
    return pages


def _report(path: Path) -> list[TrainingPage]:
    """Every second page with enough text on it."""
    document = pypdfium2.PdfDocument(path)
    pages = []
    for number in range(0, len(document), 2):
        text = re.sub(r"\s+", " ", document[number].get_textpage().get_text_bounded()).strip()
        if len(text.split()) > FEWEST_WORDS:
            pages.append(TrainingPage(f"{path.stem}_{number + 1}", text))
    return pages


def _first(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def questions(pages: Sequence[TrainingPage]) -> dict[str, Asked]:
    """Of each set; a written question whose page is not among these is an error."""
    number = {page.id: n for n, page in enumerate(pages)}
    sets: dict[str, Asked] = {"words": [], "meaning": []}
    for line in WRITTEN.read_text("utf-8").splitlines():
        page, in_words, in_meaning = line.split("\t")
        if page not in number:
            raise InputError(f"{WRITTEN.name}: no page {page} in the training data; is it another version?")
        sets["words"].append((in_words, number[page]))
        sets["meaning"].append((in_meaning, number[page]))
    tables = [(page.questions[0], n) for n, page in enumerate(pages) if _of_table(page)]
    others = [
        (page.questions[0], n) for n, page in enumerate(pages) if page.questions and not _of_table(page)
    ]
    sets["given"] = others[::7] + tables[::3]
    return sets


def _of_table(page: TrainingPage) -> bool:
    return page.id.startswith("tab") and bool(page.questions)


def matched(asked: SparseVector, pages: Sequence[SparseVector], terms: int) -> Array:
    """What each page has of the question's weight."""
    weights = np.zeros(terms, np.float32)
    weights[asked.terms] = asked.weights
    total = max(float(asked.weights.sum()), 1e-6)
    return np.array([weights[page.terms] @ page.weights for page in pages], np.float32) / total


def best_windows(direction: Array, windows: Sequence[Windows | None]) -> Array:
    """The cosine of each page's best window; 0 for pages without any."""
    out = np.zeros(len(windows), np.float32)
    for number, found in enumerate(windows):
        if found is not None:
            codes = found.codes.astype(np.float32)
            out[number] = (codes @ direction / np.linalg.norm(codes, axis=1)).max()
    return out


def scored(options: QuestionsOptions) -> dict[str, Any]:
    """Score every training page for every question, by words and by meaning: WORK/questions.npz."""
    pages = training_pages(options.data or options.work / "data")
    encoder: Any = load_encoder("reader")
    model = MeaningModel(options.model)
    model.prepare()
    vectors = [encoder.weigh_text(page.text) for page in pages]
    with ThreadPoolExecutor(2) as pool:
        windows = list(pool.map(lambda page: model.encode_text(page.text), pages))
    arrays: dict[str, Array] = {}
    medians = {}
    for name, asked in questions(pages).items():
        terms = len(encoder.vocabulary)
        words = [matched(encoder.encode_query(text), vectors, terms) for text, _ in asked]
        directions = [model.encode_query(text) for text, _ in asked]
        near = [
            np.zeros(len(pages), np.float32) if found is None else best_windows(found.vector, windows)
            for found in directions
        ]
        arrays[f"{name}.words"] = np.stack(words).astype(np.float16)
        arrays[f"{name}.meaning"] = np.stack(near).astype(np.float16)
        arrays[f"{name}.answer"] = np.array([number for _, number in asked])
        medians[f"{name}: matched by the best page, median"] = float(np.median(np.stack(words).max(axis=1)))
    np.savez(options.work / "questions.npz", **arrays)  # type: ignore[arg-type]
    return {"pages": len(pages), **medians}


if __name__ == "__main__":
    main(scored, QuestionsOptions)
