"""Learn the table of query weights from questions and the pages that answer them.

A term's weight is ``softplus(idf + z) ** power``, with ``z`` a projection of what is known of the term (its
idf, its length, whether it is a piece or a number) plus a number of its own, both held near 0: a term that no
training question holds keeps about the weight of its idf. In the theory of Robertson and Sparck Jones ``z``
is the log-odds that an answering page holds the term: "mentioned" or "percentage" are asked for often and
seldom there.

Losses: ranking (in-batch InfoNCE, with pages that the untrained table takes for answers as hard negatives),
gated supervision (``z`` against whether the answering page holds the term, which gets no gradient itself) and
FLOPS. What each of them gave is in docs/log.md; only ranking is on by default. Pages have no weight a term of
their own: a score is a sum of products, so it would be the same number twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from research.command import main
from research.reader.options import RetrievalOptions
from research.reader.pairs import Source, ask_about_pdfs, read_pairs
from research.reader.query_table import POWER
from vsplade.cli.common import note
from vsplade.encode.tokenizer import GOES_ON, Tokenizer, letters_of
from vsplade.errors import InputError

HARD = 8
"""Hard negatives known a question; one of them is used at a time."""
COMMON = 1.5
"""Terms with a lower idf do not count in the search for hard negatives."""
SHARPNESS = 2.0
"""The softplus bends within about half a unit of idf around 0."""
ANSWERED = 0.85
"""The share of content words of a question that stand on its page, where ``z`` is 0."""
COOL_DOWN = 0.5


class TermTable(nn.Module):
    """A weight for every term of the vocabulary."""

    def __init__(self, idf: NDArray[np.float32]) -> None:
        super().__init__()
        tokens = [Tokenizer.load().token(term) for term in range(len(idf))]
        bare = [letters_of(token) for token in tokens]
        features = np.stack(
            [
                idf / 8 - 0.8,
                (idf / 8) ** 2 - 0.7,
                np.array([GOES_ON in token for token in tokens], np.float32),
                np.array([text.isdigit() for text in bare], np.float32),
                np.array([len(text) / 8 - 0.8 for text in bare], np.float32),
            ],
            axis=1,
        )
        self.idf: Tensor
        self.features: Tensor
        self.register_buffer("idf", torch.from_numpy(idf))
        self.register_buffer("features", torch.from_numpy(features.astype(np.float32)))
        self.projection = nn.Parameter(torch.zeros(features.shape[1]))
        self.own = nn.Parameter(torch.zeros(len(idf)))

    def log_odds(self, terms: Tensor) -> Tensor:
        shared: Tensor = self.features[terms] @ self.projection
        return shared + self.own[terms]

    def forward(self, terms: Tensor) -> Tensor:
        shifted = self.idf[terms] + self.log_odds(terms)
        weights: Tensor = (functional.softplus(SHARPNESS * shifted) / SHARPNESS) ** POWER
        return weights

    @torch.no_grad()
    def table(self) -> NDArray[np.float32]:
        weights: NDArray[np.float32] = self(torch.arange(len(self.idf))).numpy()
        return weights


def hard_negatives(source: Source, idf: NDArray[np.float32]) -> NDArray[np.int64]:
    """(questions, HARD): the pages other than the answer that idf alone finds best."""
    pages, questions = source.pages, source.questions
    order = np.argsort(pages.terms, kind="stable")
    owner = np.repeat(np.arange(len(pages)), np.diff(pages.starts))[order]
    weight = (pages.weights * idf[pages.terms] ** POWER)[order]
    first = np.searchsorted(pages.terms[order], np.arange(len(idf) + 1))
    best = min(HARD, len(pages) - 1)
    found = np.zeros((len(questions), best), np.int64)
    for question in range(len(questions)):
        terms = questions.terms[questions.starts[question] : questions.starts[question + 1]]
        scores = np.zeros(len(pages))
        for term in terms[idf[terms] > COMMON]:
            scores[owner[first[term] : first[term + 1]]] += weight[first[term] : first[term + 1]]
        scores[source.answer[question]] = -1
        found[question] = np.argpartition(-scores, best - 1)[:best]
    return found


class Batches:
    """Questions of one source at a time, with their pages and a hard negative each."""

    def __init__(self, sources: list[Source], idf: NDArray[np.float32], options: RetrievalOptions) -> None:
        self._sources, self._terms, self._options = sources, len(idf), options
        self._hard = [hard_negatives(source, idf) for source in sources]
        self._rng = np.random.default_rng(options.seed)
        made_up = np.array([source.made_up for source in sources])
        share = np.where(made_up, options.pdf_share, 1 - options.pdf_share)
        share = share / np.where(made_up, made_up.sum(), (~made_up).sum())
        if not share.any():  # all the say to a kind that is not there
            share = np.ones(len(sources))
        self._share = share / share.sum()

    def next(self) -> tuple[int, Tensor, Tensor, Tensor, Tensor]:
        """Source, terms, questions (n, terms), pages (2n, terms), and which pages are no negatives."""
        rng, which = self._rng, int(self._rng.choice(len(self._sources), p=self._share))
        source, hard = self._sources[which], self._hard[which]
        size = min(self._options.batch, len(source.questions))
        chosen = rng.choice(len(source.questions), size, replace=False)
        answer = source.answer[chosen]
        pages = np.concatenate([answer, hard[chosen, rng.integers(hard.shape[1], size=size)]])
        columns = np.unique(source.questions.terms[source.questions.places(chosen)[1]]).astype(np.int64)
        held = source.pages.dense(pages, columns, self._terms)
        same = answer[:, None] == pages[None]
        same[np.arange(size), np.arange(size)] = False
        asked = source.questions.dense(chosen, columns, self._terms)
        return which, *(torch.from_numpy(part) for part in (columns, asked, held, same))


def losses(
    model: TermTable,
    temperature: Tensor,
    offset: Tensor,
    terms: Tensor,
    asked: Tensor,
    held: Tensor,
    same: Tensor,
) -> dict[str, Tensor]:
    weights = model(terms)
    scores = (asked * weights) @ held.T * temperature.exp()
    target = torch.arange(len(asked))
    there = (held[: len(asked)] > 0).float()  # the gate: taken as given, nothing flows back through it
    often = asked.sum(0)
    rate = (asked * there).sum(0) / often
    usual = float(np.log(ANSWERED / (1 - ANSWERED)))
    odds = model.log_odds(terms) + offset + usual
    gate = functional.binary_cross_entropy_with_logits(odds, rate, reduction="none")
    return {
        "rank": functional.cross_entropy(scores.masked_fill(same, -1e4), target),
        "gate": (often.clamp(max=3) * gate).sum() / len(asked),
        "flops": ((asked * weights).mean(0) * held.mean(0)).sum(),
    }


def fit(
    sources: list[Source], idf: NDArray[np.float32], options: RetrievalOptions, say: Callable[[str], None]
) -> TermTable:
    model, batches = TermTable(idf), Batches(sources, idf, options)
    temperature = nn.Parameter(torch.tensor(-1.0))
    offsets = nn.Parameter(torch.zeros(len(sources)))
    groups = [([model.projection], 0.3), ([temperature, offsets, model.own], 1.0)]
    optimizer = torch.optim.Adam([{"params": each, "lr": options.rate * share} for each, share in groups])
    cooling = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (options.steps - step) / (COOL_DOWN * options.steps))
    )
    shares = {"rank": options.rank, "gate": options.gate, "flops": options.flops}
    for step in range(options.steps):
        which, *batch = batches.next()
        parts = losses(model, temperature, offsets[which], *batch)
        near = (
            options.near * model.own.square().sum() / options.batch + 3e-3 * model.projection.square().sum()
        )
        loss = sum(
            (shares[name] * part for name, part in parts.items()), near + 0.01 * offsets.square().sum()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cooling.step()
        if (step + 1) % 50 == 0:
            said = ", ".join(f"{name} {float(part.detach()):.3f}" for name, part in parts.items())
            say(f"step {step + 1}: {said}")
    return model


def train_retrieval(options: RetrievalOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Learn the query weights from questions and the pages that answer them; minutes on a CPU."""
    torch.manual_seed(options.seed)
    if not options.prior.is_file():
        raise InputError(
            f"There is no table {options.prior}: make one with `python -m research.reader.query_table`."
        )
    prior: NDArray[np.float32] = np.load(options.prior, allow_pickle=False).astype(np.float32)
    if prior.shape != (len(Tokenizer.load()),):
        raise InputError(
            f"{options.prior} is no table of this vocabulary: make one with "
            "`python -m research.reader.query_table`."
        )
    sources = [read_pairs(path, options.tables) for path in options.pairs]
    if options.pdfs:
        sources.append(ask_about_pdfs(options.pdfs, options.questions, options.seed))
    sources = [source for source in sources if len(source.pages) > 1]
    if not sources:
        raise InputError("There is nothing to learn from: give --pairs, or --pdfs with text layers.")
    for source in sources:
        say(f"{source.name}: {len(source.questions)} questions on {len(source.pages)} pages")
    table = fit(sources, prior ** (1 / POWER), options, say).table()
    np.save(options.out, table.astype(np.float16))
    questions = sum(len(source.questions) for source in sources)
    return {"out": str(options.out), "questions": questions, "highest": round(float(table.max()), 3)}


if __name__ == "__main__":
    main(train_retrieval, RetrievalOptions, say=note)
