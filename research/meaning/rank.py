"""The query table, trained further: queries shall rank texts as MiniLM's vectors of them do.

    python -m research.meaning.rank WORK --minilm FOLDER

The regression (`table`) brings a query's vector near MiniLM's. What counts in a search is only which texts
come first. So the table learns from rankings: for a batch of queries both vectors are compared with random
passages and with the batch's other queries, and the table's ranking is drawn to the teacher's:

    loss = KL(softmax(teacher / T) | softmax(table / T)) + 0.3 * (1 - cosine)

Pages keep their vectors: only the table changes. What is written is the mean of what was learned and the
start: better than either. Reads WORK/teacher (`teach`), WORK/table.npz (`table`) and WORK/words.npz
(`query_words`), writes WORK/ranked.npz, which `export` prefers.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from research.command import main
from research.meaning.options import RankOptions
from research.meaning.query_words import query_rows
from research.meaning.table import LAST_SPECIAL, load_queries
from research.meaning.teach import taught_queries
from vsplade.encode.meaning.wordpiece import WordPiece

COSINE = 0.3
WARM_UP = 50
LEARNED = 0.5
"""Share of what was learned in what is written."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Taught:
    """MiniLM's vectors of length 1, whole and along the axes that ship; queries as rows of the table.

    Queries without a word are left out: ``numbers`` are those of the others.
    """

    numbers: Array
    rows: Array
    queries: torch.Tensor
    near_queries: torch.Tensor
    passages: torch.Tensor
    near_passages: torch.Tensor

    @classmethod
    def load(cls, folder: Path, axes: Array, rows: Array, padding: int) -> Taught:
        rows = plain_rows(rows, padding)
        worded = np.flatnonzero((rows != padding).any(axis=1))
        queries = F.normalize(torch.from_numpy(load_queries(folder)[1][worded].astype(np.float32)), dim=-1)
        passages = torch.from_numpy(np.load(folder / "passages.npz")["vectors"].astype(np.float32))
        passages = F.normalize(passages, dim=-1)
        turn = torch.from_numpy(axes)
        near = (F.normalize(queries @ turn, dim=-1), F.normalize(passages @ turn, dim=-1))
        return cls(worded, rows[worded], queries, near[0], passages, near[1])


def plain_rows(rows: Array, padding: int) -> Array:
    """Words to the front, everything else is padding."""
    rows = np.where(rows > LAST_SPECIAL, rows, padding).astype(np.int32)
    order = np.argsort(rows == padding, axis=1, kind="stable")
    longest = int((rows != padding).sum(axis=1).max())
    return np.take_along_axis(rows, order[:, :longest], axis=1)


def embedding(rows: Array) -> torch.nn.EmbeddingBag:
    """Sums of rows; the row behind the last is the padding."""
    padded = np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])
    return torch.nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(padded), freeze=False, mode="sum", sparse=True, padding_idx=len(rows)
    )


def ranking_loss(
    vectors: torch.Tensor, batch: Array, passages: Array, taught: Taught, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """How far the rankings are apart, and the vectors' mean cosine with the teacher's."""
    teacher, near = taught.queries[batch], taught.near_queries[batch]
    wanted = torch.cat([teacher @ taught.passages[passages].T, teacher @ teacher.T], dim=1)
    given = torch.cat([vectors @ taught.near_passages[passages].T, vectors @ near.T], dim=1)
    itself = torch.cat([torch.zeros(len(batch), len(passages)), torch.eye(len(batch))], dim=1).bool()
    given = given.masked_fill(itself, -9.0)  # every query is nearest to itself: nothing to learn there
    wanted = wanted.masked_fill(itself, -9.0)
    apart = F.kl_div(
        (given / temperature).log_softmax(-1), (wanted / temperature).softmax(-1), reduction="batchmean"
    )
    return apart, (vectors * near).sum(-1).mean()


def rank(options: RankOptions) -> dict[str, Any]:
    """Train the table on rankings and write WORK/ranked.npz: `axes`, `table`, `words` (of its last rows)."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    start, own = np.load(options.work / "table.npz"), np.load(options.work / "words.npz")
    first = np.concatenate([start["table"], own["rows"]])
    words = len(first)
    pieces = WordPiece.load(options.minilm / "vocab.txt")
    asked = query_rows(taught_queries(options.work), pieces, own["words"].tolist(), words)
    taught = Taught.load(options.work / "teacher", start["axes"], asked, words)
    table = embedding(first)
    # Vectors are scaled to length 1 later, so a step is measured by how long they are.
    rate = options.rate * float(np.linalg.norm(first[LAST_SPECIAL + 1 :], axis=1).mean())
    optimiser = torch.optim.SparseAdam(table.parameters(), lr=rate)
    began, apart, cosine = time.time(), [0.0], [0.0]
    for step in range(options.steps):
        optimiser.param_groups[0]["lr"] = rate * min(1, step / WARM_UP) * (1 - step / options.steps)
        batch = rng.choice(len(taught.rows), options.batch, replace=False)
        passages = rng.choice(len(taught.passages), options.passages, replace=False)
        vectors = F.normalize(table(torch.from_numpy(taught.rows[batch])), dim=-1)
        loss, near = ranking_loss(vectors, batch, passages, taught, options.temperature)
        optimiser.zero_grad()
        (loss + COSINE * (1 - near)).backward()
        optimiser.step()
        apart, cosine = [*apart[-49:], loss.item()], [*cosine[-49:], near.item()]
        if step % 100 == 0:
            print(f"{time.time() - began:5.0f} s  step {step}  {np.mean(apart):.4f}", file=sys.stderr)
    partial = options.work / "ranked.partial.npz"
    learned = table.weight.detach().numpy()[:words]
    mean = LEARNED * learned + (1 - LEARNED) * first
    np.savez(partial, axes=start["axes"], table=mean.astype(np.float32), words=own["words"])
    os.replace(partial, options.work / "ranked.npz")
    return {"queries": len(taught.rows), "loss": float(np.mean(apart)), "cosine": float(np.mean(cosine))}


if __name__ == "__main__":
    main(rank, RankOptions)
