"""Trains the page encoder and the query table together, so that pages lie where sums of rows can find them.

    python -m research.meaning.learn WORK --minilm FOLDER --seconds 500

A query is the sum of its words' rows, of length 1. Every row is one map of what both teachers say of the word
alone, times how rare the word is, and something of its own:

    row(word) = idf(word) * (both teachers on the word @ map + own(word))

So a word that few queries have moves with all others. Pages start as MiniLM with a new last layer. For a
batch of pages and of queries near them, rankings are drawn to those of both teachers, who read whole texts:

    KL over pages of each query + KL over queries of each page
    + NEAR * (1 - cosine with where the teachers' vectors lie), of pages and of queries

The pages of a batch come with neighbours, and queries are also compared with pages that were read before (the
bank). Some queries are read by the page encoder as well, so that `reader+dense` can do without the table.

Reads WORK/texts.npz and WORK/taught (`texts`, `teachers`); writes WORK/runs/NAME.safetensors. Several runs
have one start, so the mean of their weights is a model as well, and better than each: `export` takes the mean
of all. It wants a GPU.
"""

from __future__ import annotations

import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from research.command import main
from research.meaning.judge import Judge
from research.meaning.model import HIDDEN, PageEncoder, load_minilm, page_encoder
from research.meaning.options import LearnOptions
from research.meaning.query_words import LAST_SPECIAL
from research.meaning.teachers import DEVICE, joined
from research.meaning.wear import Wear
from vsplade.encode.meaning.wordpiece import WordPiece

NEAR = 0.3
READ = 0.5
"""What queries that are read count for, beside queries that are looked up."""
WARM_UP, LAST_RATE = 100, 0.01
QUERY_SHARE = 0.2
"""What queries count beside passages when the axes are chosen."""
LEAST_IDF, SMOOTHING = 0.5, 3
RIDGE = 1e-3
SEEN_FIRST = 20_000
"""Passages that the page encoder's last layer is fitted to, before it learns."""
KEPT = ("doubt", "bert.words.", "bert.positions.")
"""Of the page encoder, what does not learn."""
PARTS = 4
"""Pages of like length that are read together: so many groups a batch."""
Array = np.ndarray[Any, Any]


def unit(x: Tensor) -> Tensor:
    return F.normalize(x.float(), dim=-1)


@dataclass(frozen=True)
class Taught:
    """Texts as tokens, and what both teachers say of them, on the device that learns."""

    pieces: WordPiece
    words: list[str]
    passages: Tensor
    """As the reader gives them to the page encoder: words without signs, 0 where there is none."""
    sizes: Array
    query_tokens: Tensor
    query_rows: Tensor
    kinds: list[int]
    of_passages: Tensor
    of_queries: Tensor
    of_rows: Tensor
    near_passages: Tensor
    near_queries: Tensor

    @classmethod
    def load(cls, work: Path, minilm: Path, share: float) -> Taught:
        folder = work / "taught"
        pieces, words = (
            WordPiece.load(minilm / "vocab.txt"),
            (work / "words.txt").read_text("utf-8").splitlines(),
        )
        tokens = np.load(folder / "tokens.npz")

        def on_device(name: str) -> Tensor:
            return torch.from_numpy(np.load(folder / f"{name}.npy")).to(DEVICE)

        def taught(name: str) -> Tensor:
            return joined(on_device(name), share)

        return cls(
            pieces, words, torch.from_numpy(tokens["passages"]).to(DEVICE), tokens["passage_sizes"],
            torch.from_numpy(tokens["queries"]).to(DEVICE), torch.from_numpy(tokens["rows"]).to(DEVICE),
            tokens["kinds"].tolist(),
            taught("passages"), taught("queries"), taught("rows"),
            on_device("near_passages"), on_device("near_queries"),
        )  # fmt: skip


def principal_axes(taught: Taught, dimensions: int) -> Tensor:
    """Where passages, and to a lesser degree queries, differ most: (all, ``dimensions``)."""

    def moment(vectors: Tensor) -> Tensor:
        parts = (part.float() for part in vectors.split(1 << 16))
        total = torch.zeros(vectors.shape[1], vectors.shape[1], device=DEVICE)
        return sum((part.T @ part for part in parts), total) / len(vectors)

    both = moment(taught.of_passages) + QUERY_SHARE * moment(taught.of_queries)
    return torch.linalg.eigh(both.double())[1][:, -dimensions:].float().contiguous()


def rarity(rows: Tensor, count: int) -> Tensor:
    frequency = torch.bincount(rows.flatten(), minlength=count + 1)[:count]
    return torch.log((len(rows) + 1) / (frequency + SMOOTHING)).clamp(min=LEAST_IDF)


class Table(nn.Module):
    """Queries as sums of rows; the row behind the last is the padding."""

    def __init__(self, taught: Taught, axes: Tensor) -> None:
        super().__init__()
        alone = taught.of_rows.float()
        self.idf: Tensor
        self.alone: Tensor
        self.register_buffer("idf", rarity(taught.query_rows, len(alone)))
        self.register_buffer("alone", alone)
        self.map = nn.Parameter(axes.clone())
        self.own = nn.Parameter(torch.zeros(len(alone), axes.shape[1], device=DEVICE))

    def rows(self) -> Tensor:
        rows = self.idf[:, None] * (self.alone @ self.map + self.own)
        return torch.cat(
            [rows[LAST_SPECIAL + 1 :].new_zeros(LAST_SPECIAL + 1, rows.shape[1]), rows[LAST_SPECIAL + 1 :]]
        )

    def forward(self, queries: Tensor) -> Tensor:
        table = torch.cat([self.rows(), self.own.new_zeros(1, self.own.shape[1])])
        return unit(F.embedding(queries, table).sum(1))


class Pages:
    """Reads passages of a batch, those of like length together."""

    def __init__(self, page: PageEncoder, taught: Taught, wear: float) -> None:
        self.page, self._taught, self._much = page, taught, wear
        self._wear = Wear.of(taught.pieces).to(DEVICE)

    def read(self, chosen: Array, parts: int = PARTS, worn: bool = True) -> Tensor:
        """In the order of ``chosen``."""
        order = np.argsort(self._taught.sizes[chosen], kind="stable")
        found = []
        for some in np.array_split(chosen[order], parts):
            longest = max(1, int(self._taught.sizes[some].max()))
            tokens = self._taught.passages[torch.from_numpy(some).to(DEVICE), :longest].long()
            found.append(self.of_tokens(self._wear(tokens, self._much if worn else 0.0)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return torch.cat(found)[torch.from_numpy(back).to(DEVICE)]

    def of_tokens(self, tokens: Tensor) -> Tensor:
        padding = len(self._taught.pieces)
        tokens = F.pad(tokens, (0, -tokens.shape[1] % 8), value=padding)  # a width that is read fast
        with torch.autocast(DEVICE, torch.bfloat16):
            vectors: Tensor = self.page(tokens, torch.ones(tokens.shape, device=DEVICE))
        return vectors

    @torch.no_grad()
    def all(self, count: int) -> Tensor:
        parts = np.array_split(np.argsort(self._taught.sizes[:count], kind="stable"), max(1, count // 512))
        out = torch.zeros(count, self.page.head.out_features, device=DEVICE)
        for some in parts:
            out[torch.from_numpy(some).to(DEVICE)] = self.read(some, 1, worn=False)
        return out


@torch.no_grad()
def first_page(minilm: Path, taught: Taught, axes: Tensor) -> PageEncoder:
    """MiniLM, and the last layer that brings its vectors nearest to those of both teachers."""
    page = page_encoder(load_minilm(minilm), torch.eye(HIDDEN)).to(DEVICE)
    count = min(SEEN_FIRST, len(taught.passages))
    seen = Pages(page, taught, 0.0).all(count)
    wanted = unit(taught.of_passages[:count].float() @ axes)
    moment = seen.T @ seen / count + RIDGE * torch.eye(seen.shape[1], device=DEVICE)
    head = torch.linalg.solve(moment, seen.T @ wanted / count)
    fitted = page_encoder(load_minilm(minilm), head.T.contiguous().cpu())
    return fitted.to(DEVICE)


class Draw:
    """Batches: passages with neighbours, queries near them, and other passages to compare with."""

    def __init__(self, taught: Taught, options: LearnOptions, rng: np.random.Generator) -> None:
        self._taught, self._options, self._rng = taught, options, rng
        self._near = taught.near_passages.cpu().numpy()
        self._asked = taught.near_queries.cpu().numpy()
        self._usable = np.flatnonzero(taught.sizes > 2)

    def passages(self) -> Array:
        rng, options = self._rng, self._options
        seeds = rng.choice(self._usable, min(options.pages // (options.neighbours + 1), len(self._usable)))
        near = self._near[seeds]
        some = rng.integers(near.shape[1], size=(len(seeds), options.neighbours))
        chosen = np.unique(np.concatenate([seeds, np.take_along_axis(near, some, 1).ravel()]))
        return chosen[self._taught.sizes[chosen] > 2]

    def queries(self, chosen: Array) -> Array:
        """Some near the chosen passages, natural ones, and any."""
        rng, kinds = self._rng, self._taught.kinds
        near = self._asked[chosen]
        some = rng.integers(near.shape[1], size=(len(chosen), self._options.near_queries))
        natural = rng.integers(max(1, kinds[0]), size=self._options.natural)
        other = rng.integers(sum(kinds), size=self._options.others)
        return np.unique(np.concatenate([np.take_along_axis(near, some, 1).ravel(), natural, other]))

    def batch(self) -> tuple[Array, Array, Array]:
        """Passages to read, queries, and passages that were read before."""
        chosen = self.passages()
        return chosen, self.queries(chosen), self.bank(chosen)

    def bank(self, chosen: Array) -> Array:
        """Neighbours of the chosen ones, and any; none of the chosen."""
        near = self._near[chosen].ravel()
        other = self._rng.integers(len(self._taught.passages), size=self._options.bank)
        return np.setdiff1d(np.concatenate([near, other]), chosen)


def rankings_apart(given: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of each row's ranking, less what the teacher's own has."""
    aim = (wanted.float() / temperature).softmax(-1)
    loss: Tensor = -(aim * given.log_softmax(-1)).sum(-1).mean()
    return loss


class Learner:
    def __init__(self, options: LearnOptions, taught: Taught) -> None:
        self.options, self.taught = options, taught
        self.axes = principal_axes(taught, options.dimensions)
        self.table = Table(taught, self.axes)
        self.pages = Pages(first_page(options.minilm, taught, self.axes).train(), taught, options.wear)
        self.page_scale = nn.Parameter(torch.tensor(math.log(20.0), device=DEVICE))
        self.query_scale = nn.Parameter(torch.tensor(math.log(20.0), device=DEVICE))
        self._draw = Draw(taught, options, np.random.default_rng(options.seed))
        self._beside = ThreadPoolExecutor(1)
        self._next = self._beside.submit(self._draw.batch)
        self.stored = self.pages.all(len(taught.passages)).half()
        self._optimiser = self._optimised()
        self._rates = [group["lr"] for group in self._optimiser.param_groups]

    def _optimised(self) -> torch.optim.Optimizer:
        for name, value in self.pages.page.named_parameters():
            value.requires_grad_(not name.startswith(KEPT))
        self.learning = [value for value in self.pages.page.parameters() if value.requires_grad]
        length = float((self.table.alone @ self.axes).norm(dim=1).mean())
        groups = [
            {"params": self.learning, "lr": self.options.rate, "weight_decay": 0.01},
            {"params": [self.table.own], "lr": self.options.table_rate * length, "weight_decay": 0.02},
            {"params": [self.table.map], "lr": self.options.rate},
            {"params": [self.page_scale, self.query_scale], "lr": 1e-3},
        ]
        return torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0, fused=DEVICE == "cuda")

    def step(self, rate: float) -> Tensor:
        for group, first in zip(self._optimiser.param_groups, self._rates, strict=True):
            group["lr"] = first * rate
        batch = self._next.result()
        self._next = self._beside.submit(self._draw.batch)  # drawn while this one is read
        loss = self.loss(*batch)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learning, 1.0)
        self._optimiser.step()
        return loss.detach()

    def loss(self, chosen: Array, asked: Array, others: Array) -> Tensor:
        taught, heat = self.taught, self.options.temperature
        at, queries, bank = (torch.from_numpy(some).to(DEVICE) for some in (chosen, asked, others))
        pages, vectors = self.pages.read(chosen), self.table(taught.query_rows[queries])
        teacher, of_pages = taught.of_queries[queries], taught.of_passages[at]
        wanted = torch.cat([teacher @ of_pages.T, teacher @ taught.of_passages[bank].T], 1)

        def ranked(vectors: Tensor, wanted: Tensor) -> Tensor:
            given = torch.cat([vectors @ pages.T, (vectors.half() @ self.stored[bank].T).float()], 1)
            over_pages = rankings_apart(given * self.query_scale.exp(), wanted, heat)
            back = given[:, : len(chosen)].T * self.page_scale.exp()
            return over_pages + rankings_apart(back, wanted[:, : len(chosen)].T, heat)

        loss = ranked(vectors, wanted)
        near = (pages * unit(of_pages.float() @ self.axes)).sum(-1).mean()
        near = near + (vectors * unit(teacher.float() @ self.axes)).sum(-1).mean()
        some = torch.randperm(len(asked), device=DEVICE)[: self.options.read]
        read = self.pages.of_tokens(taught.query_tokens[queries[some]].long())
        self.stored[at] = pages.detach().half()
        return loss + NEAR * (2 - near) + READ * ranked(read, wanted[some])


def learn(options: LearnOptions) -> dict[str, Any]:
    """Train both and write WORK/runs/NAME.safetensors."""
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    taught = Taught.load(options.work, options.minilm, options.share)
    learner, judge = Learner(options, taught), Judge.load(options.work, taught.pieces, taught.words)
    print(f"starts with {judge.told(learner.table, learner.pages)}", file=sys.stderr)
    began, step, lately = time.time(), 0, torch.zeros((), device=DEVICE)
    told = began
    while (used := max((time.time() - began) / options.seconds, step / options.steps)) < 1:
        loss = learner.step(min(1, (step + 1) / WARM_UP) * max(LAST_RATE, 1 - used))
        lately = lately.lerp(loss, 1.0 if step == 0 else 0.02)
        step += 1
        if time.time() - told > options.every:
            told = time.time()
            said = judge.told(learner.table, learner.pages)
            print(f"{told - began:5.0f} s  step {step}  loss {lately.item():.4f}  {said}", file=sys.stderr)
    _save(options, learner)
    return {"steps": step, "loss": lately.item()} | judge.measured(learner.table, learner.pages)


def _save(options: LearnOptions, learner: Learner) -> None:
    """What was learned; MiniLM's tokens and positions stay as they are."""
    state = {
        name: value.detach().half().cpu().contiguous()
        for name, value in learner.pages.page.state_dict().items()
        if not name.startswith(KEPT)
    }
    state["table"] = learner.table.rows().detach().half().cpu().contiguous()
    folder = options.work / "runs"
    folder.mkdir(exist_ok=True)
    save_file(state, str(folder / f"{options.name}.partial"))
    (folder / f"{options.name}.partial").replace(folder / f"{options.name}.safetensors")


if __name__ == "__main__":
    main(learn, LearnOptions)
