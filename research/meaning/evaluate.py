"""How well a student finds pages by meaning, while it learns: development sets as the reader read them.

WORK/dev-*.npz hold what `_load` reads: the terms of the pages in reading order with their certainty, the
terms of the queries, which pages answer them, and the reader's own scores. Without such files training runs
unwatched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsplade.encode.meaning.meaning_model import page_windows


@dataclass
class DevSet:
    name: str
    tokens: Tensor
    certainty: Tensor
    owner: Tensor
    pages: int
    queries: Tensor
    relevant: list[list[int]]
    words: Tensor
    """The reader's scores over the sum of the query's weights: (queries, pages)."""


def dev_sets(work: Path, device: str = "cuda", size: int = 0) -> list[DevSet]:
    return [_load(path, device, size) for path in sorted(work.glob("dev-*.npz"))]


def _load(path: Path, device: str, size: int = 0) -> DevSet:
    raw = np.load(path)
    tokens, certainty, owner = [], [], []
    padding, terms, certain = (
        int(raw["padding"]),
        raw["terms"].astype(np.int64),
        raw["certainty"].astype(np.float32),
    )
    for page, (start, stop) in enumerate(pairwise(raw["offsets"])):
        term, sure = terms[start:stop], certain[start:stop]
        for first, last in page_windows(len(term), **({"size": size} if size else {})):
            tokens.append(term[first:last])
            certainty.append(sure[first:last])
            owner.append(page)
    longest = max(map(len, tokens))
    rows = np.full((len(tokens), longest), padding, np.int64)
    sures = np.ones((len(tokens), longest), np.float32)
    for n, (term, sure) in enumerate(zip(tokens, certainty, strict=True)):
        rows[n, : len(term)], sures[n, : len(sure)] = term, sure
    bounds = raw["relevant_offsets"]
    relevant = [raw["relevant"][a:b].tolist() for a, b in pairwise(bounds)]

    def on(array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(device)

    return DevSet(
        path.stem.removeprefix("dev-"), on(rows), on(sures), on(np.array(owner)), len(raw["offsets"]) - 1,
        on(raw["queries"].astype(np.int64)), relevant, on(raw["words"].astype(np.float32)),
    )  # fmt: skip


def ndcg(scores: Tensor, relevant: list[list[int]], k: int = 5) -> float:
    """Of judging while training only; what is reported comes from `vsplade eval`."""
    total = 0.0
    for top, right in zip(scores.topk(k, 1).indices.tolist(), relevant, strict=True):
        gain = sum(1 / math.log2(rank + 2) for rank, page in enumerate(top) if page in right)
        total += gain / sum(1 / math.log2(rank + 2) for rank in range(min(k, len(right))))
    return total / len(relevant)


def page_scores(query: Tensor, windows: Tensor, owner: Tensor, pages: int) -> Tensor:
    """The best window of each page counts."""
    scores = query @ windows.T
    out = torch.full((len(query), pages), -1.0, device=scores.device)
    return out.scatter_reduce(1, owner[None].expand(len(query), -1), scores, "amax")


@torch.no_grad()
def report(title: str, student: Any, sets: list[DevSet], say: Any) -> None:
    """Alone, and added to the reader's words."""
    student.page.eval()
    for one in sets:
        with torch.autocast(one.tokens.device.type, torch.bfloat16):
            rows = zip(one.tokens.split(2048), one.certainty.split(2048), strict=True)
            parts = [student.page(tokens, certainty) for tokens, certainty in rows]
        scores = page_scores(student.table(one.queries), torch.cat(parts), one.owner, one.pages)
        matched = one.words.amax(1, keepdim=True)
        gate = {
            f"+{a}": one.words + a * (0.15 + (1 - (matched / 0.131).clamp(max=1)) ** 2) * scores
            for a in (0.5, 1)
        }
        ways = {"alone": scores, "words": one.words} | gate
        say(f"{title}: {one.name} " + ", ".join(f"{k} {ndcg(v, one.relevant):.3f}" for k, v in ways.items()))
    student.page.train()
