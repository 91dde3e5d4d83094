"""Trains the page encoder and the query table for meaning, with MiniLM as teacher. One GPU.

    python -m research.meaning.train WORK OUT --seconds 600

Not behind what ships (`table.py` is): kept for an encoder over the reader's own terms. First the table alone
learns to meet the teacher's page vectors; then both learn together, from passages worn as the reader wears
them (words lost, words mistaken, each with the certainty that goes with it). Losses:

    KL( softmax(teacher scores / 0.05) || softmax(student scores * scale) )     over all passages of the batch
    + pair_weight * cross entropy of each query with the passage it belongs to   (in-batch ranking)
    + page_weight * (1 - cosine(page, teacher's page))  + query_weight * (1 - cosine(query, teacher's query))
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from research.meaning.evaluate import DevSet, dev_sets, report
from research.meaning.model import PageEncoder, QueryTable, load_minilm, mean

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS, SHARES = (64, 128, 200), (0.3, 0.35, 0.35)
"""Passages of one batch are of one class of length: little padding, and three shapes to compile."""


@dataclass
class Options:
    seconds: float = 600.0
    dimensions: int = 256
    layers: int = 6
    bigrams: int = 0
    tokens: int = 262_144
    """Of passages in a batch."""
    table_batch: int = 8192
    table_share: float = 0.12
    """Of the time, for the table alone."""
    rate: float = 2e-4
    table_rate: float = 3e-3
    temperature: float = 0.05
    pair_weight: float = 0.2
    pair_share: float = 0.35
    asked_share: float = 0.15
    page_weight: float = 1.0
    query_weight: float = 0.3
    lost: float = 0.08
    mistaken: float = 0.06
    seed: int = 0
    compile: bool = True
    start: str = ""
    """A run whose page encoder stays as it is: only the table learns on, from its vectors."""
    every: float = 120.0
    """Seconds between two checkpoints."""


class Data:
    """Everything on the GPU: tokens, and the teacher's vectors."""

    def __init__(self, work: Path, terms: int, say: Any) -> None:
        raw = np.load(work / "tokens.npz")
        self.pairs, self.asked, self.terms = int(raw["pairs"]), int(raw["asked"]), terms
        teacher = load_minilm(work / "minilm").to(DEVICE).eval()
        self.words = teacher.words.weight.detach()
        self.passage = torch.from_numpy(raw["passage"].astype(np.int32)).to(DEVICE)
        self.query = torch.from_numpy(raw["query"].astype(np.int32)).to(DEVICE)
        self.passage_vector = taught(teacher, raw["teacher_passage"])
        say(f"{len(self.passage):,} passages taught")
        self.query_vector = taught(teacher, raw["teacher_query"])
        say(f"{len(self.query):,} queries taught")
        single = raw["teacher_terms"]
        self.term_vector = taught(teacher, single)
        ids = torch.from_numpy(single.astype(np.int64)).to(DEVICE)
        inner = (ids != 0) & (ids != 101) & (ids != 102)
        spread = (F.embedding(ids, self.words) * inner[..., None]).sum(1) / inner.sum(1, keepdim=True).clamp(
            min=1
        )
        self.start = spread
        self.model = teacher
        frequency = torch.bincount(self.passage.flatten().long(), minlength=terms + 1)[:terms].float()
        self.idf = torch.log(frequency.sum() / (frequency + 50))
        sizes = (self.passage != terms).sum(1)
        self.of_length, counts, shortest = {}, [], 1
        for length in LENGTHS:
            inside = torch.nonzero((sizes > shortest) & (sizes <= length)).flatten()
            self.of_length[length] = inside[inside < self.pairs], inside[inside >= self.pairs]
            counts.append(len(inside))
            shortest = length
        say(f"passages by length: {dict(zip(LENGTHS, counts, strict=True))}")

    def draw(self, length: int, size: int, options: Options) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of queries; of passages; and the pairs, which are the first of both."""
        pairs, passages = self.of_length[length]
        paired = int(size * options.pair_share)
        of_asked = int(size * options.asked_share) if self.asked else 0
        pair = pairs[torch.randint(len(pairs), (paired,), device=DEVICE)]
        asked = self.pairs + torch.randint(max(self.asked, 1), (of_asked,), device=DEVICE)
        others = passages[torch.randint(len(passages), (size - paired,), device=DEVICE)]
        # one of the queries that were made of each of these passages
        first = self.pairs + self.asked
        spans = (len(self.query) - first) // (len(self.passage) - self.pairs)
        own = others[: size - paired - of_asked]
        made = first + (own - self.pairs) * spans + torch.randint(spans, own.shape, device=DEVICE)
        return torch.cat([pair, asked, made]), torch.cat([pair, others]), pair

    def length(self) -> int:
        return int(np.random.choice(LENGTHS, p=SHARES))


def taught(teacher: Any, tokens: np.ndarray[Any, Any], batch: int = 4096) -> Tensor:
    """The teacher's vectors; rows of like length go together."""
    size = (tokens != 0).sum(1)
    order = np.argsort(size, kind="stable")
    out = torch.zeros(len(tokens), 384, device=DEVICE, dtype=torch.float16)
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
        for at in range(0, len(order), batch):
            rows = order[at : at + batch]
            longest = max(1, int(-(-int(size[rows].max()) // 8) * 8))
            part = torch.from_numpy(tokens[rows, :longest].astype(np.int64)).to(DEVICE)
            vector = F.normalize(mean(*teacher(part)).float(), dim=-1)
            out[torch.from_numpy(rows).to(DEVICE)] = vector.half()
    return out


def worn(tokens: Tensor, terms: int, options: Options) -> tuple[Tensor, Tensor]:
    """As the reader might have read it: some words lost, some mistaken, and how sure it was of each."""
    there = tokens != terms
    chance = torch.rand(tokens.shape, device=DEVICE)
    level = torch.rand(len(tokens), 1, device=DEVICE) * 2  # pages differ: some are read without a fault
    wrong = there & (chance < options.mistaken * level)
    lost = there & ~wrong & (chance > 1 - options.lost * level)
    other = torch.randint(terms, tokens.shape, device=DEVICE)
    tokens = torch.where(wrong, other, tokens)
    sure = 1 - 0.5 * torch.rand(tokens.shape, device=DEVICE) ** 4
    certainty = torch.where(wrong, 0.2 + 0.6 * torch.rand(tokens.shape, device=DEVICE), sure)
    order = torch.argsort((lost | ~there).to(torch.int8), dim=1, stable=True)  # what is lost leaves no gap
    tokens = torch.where(lost, terms, tokens).gather(1, order)
    return tokens, certainty.gather(1, order)


class Student:
    def __init__(self, data: Data, terms: int, options: Options) -> None:
        self.options, self.data, self.terms = options, data, terms
        self.page = PageEncoder(terms, options.dimensions, options.layers).to(DEVICE)
        self.table = QueryTable(terms, options.dimensions, options.bigrams).to(DEVICE)
        self.scale = torch.nn.Parameter(torch.tensor(20.0, device=DEVICE).log())
        self.teacher_axes = self._axes()
        self.fixed: Tensor | None = None
        """Vectors of all passages by the page encoder, where it stays as it is."""
        if options.start:
            self._go_on(Path(options.start))
        else:
            self._start()

    def _axes(self) -> Tensor:
        """The teacher's vectors in fewer dimensions: its principal axes, without centring."""
        some = self.data.passage_vector[torch.randperm(len(self.data.passage_vector))[:200_000]].float()
        _, vectors = torch.linalg.eigh(some.T @ some)
        return vectors[:, -self.options.dimensions :].contiguous()

    def _start(self) -> None:
        old = self.data.model.state_dict()
        keep = {k: v for k, v in old.items() if not k.startswith("words") and _layer(k) < self.options.layers}
        self.page.bert.load_state_dict(keep, strict=False)
        with torch.no_grad():
            self.page.bert.words.weight[: self.terms] = self.data.start
            self.page.bert.words.weight[self.terms] = 0
            self.page.head.weight.copy_(self.teacher_axes.T)
            idf = self.data.idf / self.data.idf.mean()
            self.table.terms.weight[: self.terms] = (self.data.term_vector.float() @ self.teacher_axes) * idf[
                :, None
            ]

    @torch.no_grad()
    def _go_on(self, run: Path) -> None:
        from safetensors.torch import load_file

        self.page.load_state_dict({k: v.float() for k, v in load_file(str(run / "page.safetensors")).items()})
        kept = {k: v.float() for k, v in load_file(str(run / "table.safetensors")).items()}
        self.table.load_state_dict(kept, strict=False)
        self.page.eval()
        parts = []
        for at in range(0, len(self.data.passage), 2048):
            tokens = self.data.passage[at : at + 2048].long()
            with torch.autocast(DEVICE, torch.bfloat16):
                parts.append(self.page(*worn(tokens, self.terms, self.options)).half())
        self.fixed = torch.cat(parts)

    def reduced(self, vector: Tensor) -> Tensor:
        return F.normalize(vector.float() @ self.teacher_axes, dim=-1)


def _layer(name: str) -> int:
    return int(name.split(".")[1]) if name.startswith("layers.") else 0


def step_loss(student: Student, encode: Any, table_only: bool) -> tuple[Tensor, dict[str, Tensor]]:
    o, data = student.options, student.data
    length = data.length()
    queries, passages, pair = data.draw(length, o.table_batch if table_only else o.tokens // length, o)
    taught_query, taught_page = data.query_vector[queries].float(), data.passage_vector[passages].float()
    q = student.table(data.query[queries].long())
    if table_only:
        p = student.fixed[passages].float() if student.fixed is not None else student.reduced(taught_page)
        off = torch.zeros((), device=DEVICE)
    else:
        with torch.autocast(DEVICE, torch.bfloat16):
            p = encode(*worn(data.passage[passages, :length].long(), data.terms, o))
        off = (1 - (p * student.reduced(taught_page)).sum(-1)).mean()
    target = (taught_query @ taught_page.T / o.temperature).softmax(-1)
    scores = q @ p.T * student.scale.exp().clamp(max=100)
    kl = F.kl_div(scores.log_softmax(-1), target, reduction="batchmean")
    ranking = F.cross_entropy(scores[: len(pair)], torch.arange(len(pair), device=DEVICE))
    near = (q * student.reduced(taught_query)).sum(-1).mean()
    loss = kl + o.pair_weight * ranking + o.page_weight * off + o.query_weight * (1 - near)
    return loss, {"kl": kl, "ranking": ranking, "page off": off, "query cosine": near}


def train(student: Student, sets: list[DevSet], out: Path, say: Any) -> None:
    o = student.options
    encode = torch.compile(student.page, dynamic=False) if o.compile else student.page
    groups = [
        {"params": student.table.parameters(), "lr": o.table_rate},
        {"params": student.page.parameters(), "lr": o.rate},
        {"params": [student.scale], "lr": 1e-3},
    ]
    base = [float(str(group["lr"])) for group in groups]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0, betas=(0.9, 0.98))
    began, step, kept = time.time(), 0, 0.0
    while (used := time.time() - began) < o.seconds:
        share = used / o.seconds
        table_only = bool(o.start) or share < o.table_share
        joint = max(0.0, share - o.table_share) / (1 - o.table_share)
        for group, rate in zip(optimiser.param_groups, base, strict=True):
            group["lr"] = rate * ((1 - share) if rate == o.table_rate else min(1, joint / 0.03) * (1 - joint))
        loss, parts = step_loss(student, encode, table_only)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(student.page.parameters(), 1.0)
        if not torch.isfinite(norm):  # once let in, it never leaves
            continue
        optimiser.step()
        step += 1
        if step % 200 == 0:
            say(f"step {step} " + ", ".join(f"{k} {v.item():.4f}" for k, v in parts.items()))
        if time.time() - began - kept > o.every:
            kept = time.time() - began
            save(student, out)
            report(f"after {kept:.0f} s", student, sets, say)
    say(f"{step} steps")
    save(student, out)
    report("at the end", student, sets, say)


def save(student: Student, out: Path) -> None:
    """In half precision, one file a part."""
    from safetensors.torch import save_file

    out.mkdir(parents=True, exist_ok=True)
    for name, module in (("page", student.page), ("table", student.table)):
        state = {key: value.detach().half().contiguous().cpu() for key, value in module.state_dict().items()}
        save_file(state, str(out / f"{name}.partial"))
        (out / f"{name}.partial").rename(out / f"{name}.safetensors")
    (out / "options.json").write_text(json.dumps(asdict(student.options)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    for name, value in asdict(Options()).items():
        kind = (lambda text: text == "True") if isinstance(value, bool) else type(value)
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=value)
    given = vars(parser.parse_args())
    work, out = given.pop("work"), given.pop("out")
    options = Options(**given)
    began = time.time()

    def say(text: str) -> None:
        print(f"{time.time() - began:7.1f} {text}", flush=True)

    torch.manual_seed(options.seed)
    np.random.seed(options.seed)
    torch.set_float32_matmul_precision("high")
    from vsplade.encode.tokenizer import Tokenizer

    terms = len(Tokenizer.load())
    data = Data(work, terms, say)
    student = Student(data, terms, options)
    sets = dev_sets(work, DEVICE)
    report("before", student, sets, say)
    train(student, sets, out, say)


if __name__ == "__main__":
    main()
