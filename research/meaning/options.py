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
    passages: int = option("Passages, drawn at random.", 40_000)
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
class QueryWordsOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    count: int = option("Words with a row of their own.", 60_000)
    threads: int = option("Batches that run side by side.", 2)


@dataclass
class RankOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    steps: int = option("Batches to learn from.", 7000)
    batch: int = option("Queries of a batch.", 768)
    passages: int = option("Passages that a batch is compared with.", 2304)
    temperature: float = option("Of the rankings: lower ones look at the first places only.", 0.05)
    rate: float = option("Of learning, as a share of the vectors' mean length.", 3e-3)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class TrainOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    seconds: float = option("How long to train.", 2400.0)
    steps: int = option("Steps at most.", 1_000_000)
    frozen: int = option("Of MiniLM's layers, the first so many stay as they are.", 3)
    rate: float = option("Of learning, for the page encoder.", 1e-4)
    table_rate: float = option("For the table, as a share of its rows' mean length.", 1e-3)
    tokens: int = option("Of passages in a batch.", 18_000)
    queries: int = option("Queries of a batch, beside those made of its passages.", 2048)
    bank: int = option("Passages of earlier steps that a batch is compared with.", 4096)
    temperature: float = option("Of the rankings.", 0.05)
    wear: float = option("How badly passages are read: 1 is as usual.", 1.0)
    learned: float = option("Share of what was learned in what is written; the rest is the start.", 1.0)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class SecondTeacherOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    mpnet: Path | None = option("The folder with MPNet's weights (default: they are fetched).", None)
    queries: int = option("Queries that MPNet reads, drawn at random.", 150_000)
    passages: int = option("Passages that MPNet reads.", 15_000)
    share: float = option("What MPNet counts for; the rest is MiniLM's.", 0.3)
    threads: int = option("Batches of MiniLM that run side by side.", 2)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class RemapOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    seconds: float = option("How long to train.", 80.0)
    steps: int = option("Steps at most.", 1_000_000)
    batch: int = option("Queries of a batch.", 768)
    passages: int = option("Passages that a batch is compared with.", 2304)
    temperature: float = option("Of the table's rankings.", 0.05)
    teacher_temperature: float = option(
        "Of both teachers' rankings: their mean is less sure than each.", 0.025
    )
    rate: float = option("Of learning.", 1e-3)
    learned: float = option("Share of what was learned in what is written; the rest is the start.", 0.4)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class CentroidsOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    count: int = option("Directions.", 1024)
    seed: int = option("Of where k-means starts.", 0)


@dataclass
class ExportOptions:
    work: Path = option(_WORK, argument=True)
    out: Path = option("The folder for the files that ship.")
    minilm: Path = option(_MINILM)


@dataclass
class QuestionsOptions:
    work: Path = option(_WORK, argument=True)
    model: Path = option("The folder that research.meaning.export wrote.")
    data: Path | None = option("The training data (default: WORK/data).", None)
