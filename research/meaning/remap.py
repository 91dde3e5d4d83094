"""The query table learns from a second, better teacher, by one linear map for all of its rows.

    python -m research.meaning.remap WORK --minilm FOLDER

MPNet has read too few queries to teach 90,000 rows one by one: rows that learn from them fit these queries
and no others. What it says of each word alone is known, though, so one map can bring it to every row:

    new row = row + (|row| * both teachers on its word alone, row) @ map

The map is learned from rankings, the pages as they are:

    KL(softmax(both teachers / teacher_temperature) | softmax(table / temperature))

The mean of two teachers is less sure than each of them, so its temperature is lower; with one temperature for
both, queries learn to be vague. Only the table changes: indexes that are there serve it. Reads WORK/both
(`second_teacher`), WORK/trained.npz and WORK/page.safetensors (`train`); writes WORK/remapped.npz, which
`export` prefers.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from research.command import main
from research.meaning.centroids import page_vectors
from research.meaning.export import trained_page
from research.meaning.options import RemapOptions
from research.meaning.query_words import query_rows
from research.meaning.rank import embedding, plain_rows
from research.meaning.second_teacher import load_both
from research.meaning.table import LAST_SPECIAL
from research.meaning.teach import save_arrays, taught_queries
from vsplade.encode.meaning.wordpiece import WordPiece

WARM_UP = 50
Array = np.ndarray[Any, Any]


def known_of(alone: Array, table: Array) -> Array:
    """What the map starts from: a row a word, about as long as the table's own."""
    lengths = np.linalg.norm(table, axis=1, keepdims=True) / mean_length(table)
    known = np.concatenate([alone * lengths, table / mean_length(table)], axis=1).astype(np.float32)
    known[: LAST_SPECIAL + 1] = 0
    return known


def mean_length(table: Array) -> float:
    return float(np.linalg.norm(table[LAST_SPECIAL + 1 :], axis=1).mean())


class Map(torch.nn.Module):
    """Queries as sums of mapped rows, of length 1."""

    def __init__(self, table: Array, known: Array) -> None:
        super().__init__()
        self._rows, self._known = embedding(table), embedding(known)
        self._rows.requires_grad_(False)
        self._known.requires_grad_(False)
        self._length = mean_length(table)
        self.map = torch.nn.Parameter(torch.zeros(known.shape[1], table.shape[1]))

    def forward(self, rows: Tensor) -> Tensor:
        change = self._length * (self._known(rows) @ self.map)
        return F.normalize(self._rows(rows) + change, dim=-1)

    @torch.no_grad()
    def table(self) -> Array:
        change: Tensor = self._length * (self._known.weight[:-1] @ self.map)
        return (self._rows.weight[:-1] + change).numpy()


def remap(options: RemapOptions) -> dict[str, Any]:
    """Learn the map and write WORK/remapped.npz: `axes`, `table`, `words` (of its last rows)."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    start, both = np.load(options.work / "trained.npz"), options.work / "both"
    asked, queries = load_both(both, "queries")
    chosen, passages = load_both(both, "passages")
    pieces, count = WordPiece.load(options.minilm / "vocab.txt"), len(start["table"])
    texts = taught_queries(options.work)
    rows = query_rows([texts[n] for n in asked.tolist()], pieces, start["words"].tolist(), count)
    rows = plain_rows(rows, count)
    worded = np.flatnonzero((rows != count).any(axis=1))
    page = trained_page(options.work, options.minilm, start["axes"])
    read = np.load(options.work / "teacher" / "passages.npz")["tokens"][chosen]
    pages = page_vectors(page, read, pieces).cpu()
    learner = Map(start["table"], known_of(np.load(both / "rows.npz")["vectors"], start["table"]))
    optimiser = torch.optim.Adam([learner.map], lr=options.rate)
    taught, said = torch.from_numpy(queries[worded]).bfloat16(), torch.from_numpy(passages).bfloat16()
    began, step, lately = time.time(), 0, [0.0]
    while (used := max((time.time() - began) / options.seconds, step / options.steps)) < 1:
        optimiser.param_groups[0]["lr"] = options.rate * min(1, (step + 1) / WARM_UP) * (1 - used)
        some = rng.choice(len(worded), min(options.batch, len(worded)), replace=False)
        others = rng.choice(len(pages), min(options.passages, len(pages)), replace=False)
        wanted = (taught[some] @ said[others].T).float() / options.teacher_temperature
        given = learner(torch.from_numpy(rows[worded[some]])) @ pages[others].T / options.temperature
        loss = F.kl_div(given.log_softmax(-1), wanted.softmax(-1), reduction="batchmean")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step, lately = step + 1, [*lately[-49:], loss.item()]
        if step % 100 == 0:
            print(f"{time.time() - began:5.0f} s  step {step}  {np.mean(lately):.4f}", file=sys.stderr)
    mean = options.learned * learner.table() + (1 - options.learned) * start["table"]
    path = options.work / "remapped.npz"
    save_arrays(path, axes=start["axes"], table=mean.astype(np.float32), words=start["words"])
    return {"queries": len(worded), "steps": step, "loss": float(np.mean(lately))}


if __name__ == "__main__":
    main(remap, RemapOptions)
