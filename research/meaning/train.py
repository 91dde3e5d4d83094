"""Trains the page encoder and the query table together, so that pages lie where sums of rows can find them.

    python -m research.meaning.train WORK --minilm FOLDER --seconds 2400

The table (`rank`) meets MiniLM's vectors as well as a sum of rows can. Then the pages must come to meet it:
MiniLM's upper layers learn on, from passages as the reader would give them (no punctuation, words lost, words
mistaken), to lie near the queries that MiniLM itself, over the whole text, puts near the passage:

    KL over queries of each passage + KL over passages of each query
    + PAGE * (1 - cosine with MiniLM's passage) + QUERY * (1 - cosine with MiniLM's query)

Passages of earlier steps (the bank) count as others that a query might find. On a CPU with bfloat16 a step of
18,000 tokens takes about 5 seconds on two cores. Reads WORK/teacher, WORK/ranked.npz (`rank`); writes
WORK/trained.npz (`axes`, `table`, `words`) and WORK/page.safetensors, which `export` prefers.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from research.command import main
from research.meaning.model import PageEncoder, load_minilm, page_encoder
from research.meaning.options import TrainOptions
from research.meaning.query_words import query_rows
from research.meaning.rank import Taught, embedding
from research.meaning.table import LAST_SPECIAL
from research.meaning.teach import taught_queries
from vsplade.encode.meaning.wordpiece import WordPiece

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PAGE, QUERY = 0.3, 0.3
WARM_UP, LAST_RATE = 30, 0.02
LOST, MISTAKEN, RARE_MISTAKEN = 0.08, 0.04, 0.12
"""Shares of words on a page that is read as usual; pages differ, up to twice as much. Rare words, which are
read piece by piece, are mistaken more often by so much."""
SHORT, SHORT_SHARE = 130, 0.7
"""Most batches are of passages of up to so many tokens: three for the price of two."""
START, END = 101, 102
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Wear:
    """Passages as the reader might have read them; ``continues`` marks tokens inside of words."""

    continues: Tensor
    padding: int

    @classmethod
    def of(cls, pieces: WordPiece) -> Wear:
        inside = [pieces.token(n).startswith("##") for n in range(len(pieces))]
        return cls(torch.tensor([*inside, False]), len(pieces))

    def __call__(self, tokens: Tensor, much: float = 1.0) -> Tensor:
        """Between the tokens of a start and an end; 0 stands for no token in what is given."""
        there, chance = tokens != 0, torch.rand(tokens.shape)
        level = 2 * much * torch.rand(len(tokens), 1)
        rare = self.continues[tokens]
        rare[:, :-1] |= self.continues[tokens[:, 1:]]
        wrong = there & (chance < (MISTAKEN + RARE_MISTAKEN * rare) * level)
        lost = ~there | (~wrong & (chance > 1 - LOST * level))
        tokens = torch.where(wrong, torch.randint(LAST_SPECIAL + 1, self.padding, tokens.shape), tokens)
        order = torch.argsort(lost.to(torch.int8), dim=1, stable=True)  # what is lost leaves no gap
        tokens = torch.where(lost, self.padding, tokens).gather(1, order)
        sizes = (tokens != self.padding).sum(1)
        longest = int(sizes.max())
        out = torch.full((len(tokens), longest + 2), self.padding)
        out[:, 0], out[:, 1:-1] = START, tokens[:, :longest]
        out[torch.arange(len(out)), sizes + 1] = END
        return out


class Passages:
    """Their tokens, and the queries that were made of each; in order of length."""

    def __init__(self, tokens: Array, own: Array, asked: Array) -> None:
        """``own`` has the passage of each query, or -1; ``asked`` are the queries that can be used."""
        self.tokens = tokens
        self._sizes = (tokens != 0).sum(axis=1)
        self._order = np.argsort(self._sizes, kind="stable")
        self._order = self._order[self._sizes[self._order] > 0]
        self._short = max(1, int(np.searchsorted(self._sizes[self._order], SHORT)))
        self._own: dict[int, list[int]] = {}
        for place, query in enumerate(asked.tolist()):
            if own[query] >= 0:
                self._own.setdefault(int(own[query]), []).append(place)

    def draw(self, budget: int, rng: np.random.Generator) -> tuple[Array, list[int]]:
        """Passages of about one length with ``budget`` tokens in all, and a query of each that has some."""
        among = self._short if rng.random() < SHORT_SHARE else len(self._order)
        at = int(rng.integers(among))
        count = min(max(16, budget // (int(self._sizes[self._order[at]]) + 2)), 512, len(self._order))
        first = max(0, min(at - 2 * count, len(self._order) - 4 * count))
        chosen = rng.choice(self._order[first : first + 4 * count], count, replace=False)
        return chosen, [int(rng.choice(self._own[n])) for n in chosen.tolist() if n in self._own]

    def rows(self, chosen: Array) -> Tensor:
        return torch.from_numpy(self.tokens[chosen, : int(self._sizes[chosen].max())].astype(np.int64))


@dataclass
class Bank:
    """Passages of the last steps: the student's vectors of them and the teacher's."""

    student: Tensor
    teacher: Tensor
    place: int = 0

    def add(self, student: Tensor, teacher: Tensor) -> None:
        count = min(len(student), len(self.student))
        rows = (self.place + torch.arange(count)) % len(self.student)
        self.student[rows], self.teacher[rows] = student[:count].detach(), teacher[:count]
        self.place = int(rows[-1]) + 1


def apart(given: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """How far the rankings of each row are apart."""
    return F.kl_div(
        (given / temperature).log_softmax(-1), (wanted / temperature).softmax(-1), reduction="batchmean"
    )


def step_loss(
    pages: Tensor, vectors: Tensor, chosen: Array, asked: Array, taught: Taught, bank: Bank, heat: float
) -> Tensor:
    """Of a batch of pages and of queries, both of length 1."""
    teacher, passages = taught.queries[asked].to(DEVICE), taught.passages[chosen].to(DEVICE)
    given, wanted = vectors @ pages.T, teacher @ passages.T
    loss = apart(given.T, wanted.T, heat)
    more = (torch.cat([given, vectors @ bank.student.T], 1), torch.cat([wanted, teacher @ bank.teacher.T], 1))
    loss = loss + apart(*more, heat)
    off = 1 - (pages * taught.near_passages[chosen].to(DEVICE)).sum(-1).mean()
    query_off = 1 - (vectors * taught.near_queries[asked].to(DEVICE)).sum(-1).mean()
    return loss + PAGE * off + QUERY * query_off


def learning(page: PageEncoder, frozen: int) -> list[torch.nn.Parameter]:
    """All but the embeddings and the first layers, which are MiniLM's for good."""
    kept = ("doubt", "bert.words.", "bert.positions.", *(f"bert.layers.{n}." for n in range(frozen)))
    for name, value in page.named_parameters():
        value.requires_grad_(not name.startswith(kept))
    return [value for value in page.parameters() if value.requires_grad]


def train(options: TrainOptions) -> dict[str, Any]:
    """Train both and write WORK/trained.npz and WORK/page.safetensors."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    start, folder = np.load(options.work / "ranked.npz"), options.work / "teacher"
    pieces, count = WordPiece.load(options.minilm / "vocab.txt"), len(start["table"])
    rows = query_rows(taught_queries(options.work), pieces, start["words"].tolist(), count)
    taught = Taught.load(folder, start["axes"], rows, count)
    texts = np.load(folder / "passages.npz")
    passages = Passages(texts["tokens"], np.load(folder / "own.npy"), taught.numbers)
    table = embedding(start["table"]).to(DEVICE)
    head = torch.from_numpy(np.ascontiguousarray(start["axes"].T))
    page = page_encoder(load_minilm(options.minilm), head).to(DEVICE).train()
    weights, wear = learning(page, options.frozen), Wear.of(pieces)
    length = float(table.weight.detach().norm(dim=1).mean())
    optimisers = (
        torch.optim.AdamW(weights, lr=options.rate, weight_decay=0.01, betas=(0.9, 0.98)),
        torch.optim.SparseAdam(table.parameters(), lr=options.table_rate * length),
    )
    rates = [one.param_groups[0]["lr"] for one in optimisers]
    others = rng.choice(len(taught.passages), min(options.bank, len(taught.passages)), replace=False)
    bank = Bank(taught.near_passages[others].to(DEVICE), taught.passages[others].to(DEVICE))
    began, step, lately = time.time(), 0, [0.0]
    while (used := max((time.time() - began) / options.seconds, step / options.steps)) < 1:
        for one, rate in zip(optimisers, rates, strict=True):
            one.param_groups[0]["lr"] = rate * min(1, (step + 1) / WARM_UP) * max(LAST_RATE, 1 - used)
        chosen, own = passages.draw(options.tokens, rng)
        some = rng.choice(len(taught.rows), min(options.queries, len(taught.rows)), replace=False)
        asked = np.unique(np.concatenate([np.array(own, np.int64), some]))
        worn = wear(passages.rows(chosen), options.wear).to(DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16):
            pages = page(worn, torch.ones(worn.shape, device=DEVICE))
        vectors = F.normalize(table(torch.from_numpy(taught.rows[asked]).to(DEVICE)), dim=-1)
        loss = step_loss(pages, vectors, chosen, asked, taught, bank, options.temperature)
        for one in optimisers:
            one.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        for one in optimisers:
            one.step()
        bank.add(pages, taught.passages[chosen].to(DEVICE))
        step, lately = step + 1, [*lately[-49:], loss.item()]
        if step % 25 == 0:
            print(f"{time.time() - began:5.0f} s  step {step}  {np.mean(lately):.4f}", file=sys.stderr)
    _save(options, page, table.weight.detach()[:count], start)
    return {"steps": step, "loss": float(np.mean(lately))}


def _save(options: TrainOptions, page: PageEncoder, table: Tensor, start: Any) -> None:
    """The mean of what was learned and what it started from, for both."""
    first = page_encoder(load_minilm(options.minilm), torch.from_numpy(np.ascontiguousarray(start["axes"].T)))
    share, before = options.learned, first.state_dict()
    state = {
        name: (share * value.cpu() + (1 - share) * before[name]).contiguous()
        for name, value in page.state_dict().items()
    }
    save_file(state, str(options.work / "page.partial"))
    os.replace(options.work / "page.partial", options.work / "page.safetensors")
    mean = share * table.cpu().numpy() + (1 - share) * start["table"]
    np.savez(options.work / "trained.partial.npz", axes=start["axes"], table=mean, words=start["words"])
    os.replace(options.work / "trained.partial.npz", options.work / "trained.npz")


if __name__ == "__main__":
    main(train, TrainOptions)
