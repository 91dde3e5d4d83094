"""How well pages are found by meaning alone, on sets of pages with questions: by the table, by the network.

    python -m research.meaning.judge WORK --datasets DATASET

Reads every page of each data set with the reader that ships. Its words go into WORK/judge/NAME.json.gz, with
its questions (``queries.jsonl.gz`` and ``queries-meaning.jsonl.gz``). `learn` then prints NDCG@5 on half A of
each set and on half B: A has the questions whose SHA-256 begins with an even byte. Settings are chosen on A.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from research.command import main
from research.meaning.options import JudgeOptions
from research.meaning.query_words import query_rows
from research.meaning.teachers import DEVICE
from vsplade.encode.meaning.meaning_model import page_windows
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.evaluate.dataset import load_dataset
from vsplade.pages.picture import to_grey_or_rgb

if TYPE_CHECKING:
    from research.meaning.learn import Pages

CUT = 5
"""Of NDCG."""
BATCH = 256
Array = np.ndarray[Any, Any]
Table = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Set:
    """Questions over pages: windows of the pages as tokens, and what answers each question."""

    name: str
    windows: list[list[int]]
    page_of: Tensor
    rows: Tensor
    tokens: Tensor
    gains: Tensor
    is_a: Array

    def score(self, queries: Tensor, windows: Tensor) -> tuple[float, float, float]:
        """NDCG of all questions, of half A and of half B."""
        cosines = queries @ windows.T
        best = torch.full(self.gains.shape, -2.0, device=DEVICE)
        best = best.scatter_reduce(1, self.page_of.expand(len(cosines), -1), cosines, "amax")
        discount = 1 / torch.log2(torch.arange(2, CUT + 2, device=DEVICE))
        top = self.gains.gather(1, best.topk(CUT, dim=1).indices) @ discount
        ideal = self.gains.topk(CUT, dim=1).values @ discount
        found = (top / ideal).cpu().numpy()
        return float(found.mean()), float(found[self.is_a].mean()), float(found[~self.is_a].mean())


class Judge:
    def __init__(self, sets: list[Set], padding: int) -> None:
        self._sets, self._padding = sets, padding

    @classmethod
    def load(cls, work: Path, pieces: WordPiece, own: list[str]) -> Judge:
        sets = []
        for path in sorted((work / "judge").glob("*.json.gz")):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                sets += _sets(path.name.split(".")[0], json.load(file), pieces, own)
        return cls(sets, len(pieces))

    @torch.no_grad()
    def measured(self, table: Table, pages: Pages) -> dict[str, float]:
        """Of each set of questions: all, A and B, by the table; and all and A by the network."""
        pages.page.eval()
        out: dict[str, float] = {}
        read: dict[int, Tensor] = {}  # sets over the same pages have the same windows
        for one in self._sets:
            windows = read.get(id(one.windows))
            if windows is None:
                windows = read[id(one.windows)] = self._read(one.windows, pages)
            for way, queries in (("table", table(one.rows)), ("network", pages.of_tokens(one.tokens))):
                scores = one.score(queries, windows)
                out |= {
                    f"{one.name}, {way}, {part}": s for part, s in zip(("all", "A", "B"), scores, strict=True)
                }
        pages.page.train()
        return out

    def told(self, table: Table, pages: Pages) -> str:
        return "  ".join(
            f"{name} {score:.3f}" for name, score in self.measured(table, pages).items() if "B" not in name
        )

    def _read(self, windows: list[list[int]], pages: Pages) -> Tensor:
        order = sorted(range(len(windows)), key=lambda number: len(windows[number]))
        found: list[Tensor] = []
        for at in range(0, len(order), BATCH):
            some = [windows[number] for number in order[at : at + BATCH]]
            rows = torch.full((len(some), len(some[-1])), self._padding)
            for row, tokens in zip(rows, some, strict=True):
                row[: len(tokens)] = torch.tensor(tokens)
            found.append(pages.of_tokens(rows.to(DEVICE)))
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(found)[back.to(DEVICE)]


def _sets(name: str, given: dict[str, Any], pieces: WordPiece, own: list[str]) -> list[Set]:
    windows: list[list[int]] = []
    page_of: list[int] = []
    for number, words in enumerate(given["pages"].values()):
        tokens = [token for word in words for token in pieces.word(word)]
        for first, last in page_windows(len(tokens)) if tokens else []:
            windows.append([pieces.start, *tokens[first:last], pieces.end])
            page_of.append(number)
    numbers = {page: number for number, page in enumerate(given["pages"])}
    sets = []
    for kind, asked in given["questions"].items():
        found = [[pieces.start, *pieces.encode(one["text"])[:60], pieces.end] for one in asked]
        sizes = np.array(list(map(len, found)))
        flat = np.concatenate([np.array(one) for one in found])
        rows = torch.from_numpy(query_rows(flat, sizes, pieces, own)).to(DEVICE)
        padded = [
            F.pad(torch.tensor(one), (0, int(sizes.max()) - len(one)), value=len(pieces)) for one in found
        ]
        gains = torch.zeros(len(asked), len(numbers), device=DEVICE)
        for row, one in zip(gains, asked, strict=True):
            for page, gain in one["answers"].items():
                row[numbers[page]] = gain
        is_a = np.array([is_half_a(one["text"]) for one in asked])
        pages = torch.tensor(page_of, device=DEVICE)
        sets.append(Set(f"{name} {kind}", windows, pages, rows, torch.stack(padded).to(DEVICE), gains, is_a))
    return sets


def is_half_a(question: str) -> bool:
    return hashlib.sha256(question.encode()).digest()[0] % 2 == 0


def questions_of(folder: Path, kind: str = "") -> list[dict[str, Any]]:
    """Those that have an answer: ``text`` and ``answers`` (page, gain)."""
    given = load_dataset(folder, folder / f"queries{kind}.jsonl.gz", folder / f"qrels{kind}.tsv")
    return [
        {"text": text, "answers": given.qrels[name]}
        for name, text in given.queries.items()
        if name in given.qrels
    ]


def judge(options: JudgeOptions) -> dict[str, Any]:
    """Read the pages of data sets once, and keep their words and questions."""
    from vsplade.encode import load_encoder
    from vsplade.encode.reader.reader import ReaderEncoder

    reader = load_encoder("reader:meaning=false")
    assert isinstance(reader, ReaderEncoder)
    folder = options.work / "judge"
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for path in options.datasets:
        pages = {}
        for file in load_dataset(path).files:
            with Image.open(file) as picture:
                cells = reader.read(to_grey_or_rgb(picture, reader.longest_edge))
            pages[file.stem] = reader.page_text.texts(cells)
        questions = {"words": questions_of(path)}
        if (path / "queries-meaning.jsonl.gz").exists():
            questions["meaning"] = questions_of(path, "-meaning")
        with gzip.open(folder / f"{path.name}.json.gz", "wt", encoding="utf-8") as out:
            json.dump({"pages": pages, "questions": questions}, out)
        counts[path.name] = len(pages)
    return counts


if __name__ == "__main__":
    main(judge, JudgeOptions)
