"""The options of the steps of meaning that run on a CPU, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from research.command import option

_WORK = "The folder that all steps work in."
_MINILM = "The folder with MiniLM's model.safetensors, tokenizer.json and vocab.txt."


@dataclass
class CollectOptions:
    work: Path = option(_WORK, argument=True)
    data: Path | None = option("The training data (default: WORK/data).", None, argument=True)


@dataclass
class SynonymsOptions:
    work: Path = option(_WORK, argument=True)


@dataclass
class TeachOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    passages: int = option("Passages, drawn at random.", 12_000)
    spans: int = option("Queries made of runs of passages.", 440_000)
    headwords: int = option("Short sides of pairs: headwords, headings, titles.", 75_000)
    glosses: int = option("Pairs whose long side is taken where it is short enough for a query.", 155_000)
    threads: int = option("Batches that run side by side.", 2)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class TableOptions:
    work: Path = option(_WORK, argument=True)
    dimensions: int = option("Of the vectors that ship.", 256)
    penalties: tuple[float, ...] = option(
        "Pull of a token's vector to its start; several may be given, held-out queries choose.",
        (0.3, 1.0, 3.0),
    )
    rounds: int = option("Rounds of conjugate gradients.", 25)
    held_out: int = option("Queries that the penalty is chosen on.", 6_000)
    seed: int = option("Of which queries are held out.", 0)


@dataclass
class RankOptions:
    work: Path = option(_WORK, argument=True)
    steps: int = option("Batches to learn from.", 4300)
    batch: int = option("Queries of a batch.", 768)
    passages: int = option("Passages that a batch is compared with.", 2304)
    temperature: float = option("Of the rankings: lower ones look at the first places only.", 0.05)
    rate: float = option("Of learning, as a share of the vectors' mean length.", 3e-3)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class CentroidsOptions:
    work: Path = option(_WORK, argument=True)
    count: int = option("Directions.", 4096)
    run: Path | None = option("A run of research.meaning.train whose page encoder to use instead.", None)
    seed: int = option("Of where k-means starts.", 0)


@dataclass
class ExportOptions:
    work: Path = option(_WORK, argument=True)
    out: Path = option("The folder for the files that ship.")
    minilm: Path | None = option(_MINILM, None)
    run: Path | None = option(
        "A run of research.meaning.train to ship instead of MiniLM and its table.", None
    )


@dataclass
class QuestionsOptions:
    work: Path = option(_WORK, argument=True)
    model: Path = option("The folder that research.meaning.export wrote.")
    data: Path | None = option("The training data (default: WORK/data).", None)
