"""A recall set for large corpora, as the paper builds one from PDFA and DocMatix.

    python -m research.experiments.docmatix FOLDER docmatix/*.parquet --questions 1000

Rows are DocMatix's: ``images`` (the pages of a document) and ``texts`` (questions and answers about it).
Every page is an item of the corpus; every question is a query whose relevant items are all pages of its
document. Documents without questions (PDFA's) only make the corpus larger.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.command import main, option
from research.experiments.hub import write_picture, write_questions
from research.experiments.tables import read_rows
from vsplade.errors import InputError


def write_recall_set(
    folder: Path, files: Iterable[Path], questions: int, seed: int = 0, documents: int | None = None
) -> tuple[int, int]:
    """Write images, queries and judgements; returns how many pages and queries. Questions are a random
    sample.
    """
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    asked: list[tuple[str, list[str]]] = []
    pages = count = 0
    for file in files:
        for row in read_rows(file):
            if documents is not None and count >= documents:
                break
            ids = [f"d{count}_{number}" for number in range(1, len(row.get("images") or ()) + 1)]
            if not ids:
                raise InputError(f"{row.where}: the document has no pages; the columns are {', '.join(row)}.")
            for page, image in zip(ids, row["images"], strict=True):
                write_picture(images, page, image, row.where)
            asked += [(question, ids) for question in _questions(row.get("texts"), row.where)]
            pages += len(ids)
            count += 1
    if not asked:
        raise InputError("None of the documents has a question; a recall set needs some.")
    chosen = random.Random(seed).sample(asked, min(questions, len(asked)))
    judged = ((f"q{n}", page, 1) for n, (_, ids) in enumerate(chosen) for page in ids)
    write_questions(folder, {f"q{n}": text for n, (text, _) in enumerate(chosen)}, judged)
    return pages, len(chosen)


def _questions(texts: Any, where: str) -> list[str]:
    """The users' turns; a row without any is a document that nobody asked about."""
    found = []
    for turn in texts or ():
        if not isinstance(turn, Mapping) or "user" not in turn:
            raise InputError(f"{where}: expected texts as {{user, assistant}}, found {str(turn)[:60]!r}.")
        if str(turn["user"]).strip():
            found.append(str(turn["user"]).strip())
    return found


@dataclass(frozen=True)
class DocmatixOptions:
    folder: Path = option("The folder of the new data set.", argument=True)
    files: tuple[Path, ...] = option("DocMatix's files, parquet or jsonl.", argument=True)
    questions: int = option("A random sample of so many questions.", 1000)
    documents: int | None = option("Take so many documents at most.", None)
    seed: int = option("Of the sample.", 0)


def recall_set(options: DocmatixOptions) -> str:
    """Make a recall set for large corpora, as the paper builds one from PDFA and DocMatix."""
    pages, queries = write_recall_set(
        options.folder, options.files, options.questions, options.seed, options.documents
    )
    return f"{options.folder}: {pages} pages, {queries} questions"


if __name__ == "__main__":
    main(recall_set, DocmatixOptions)
