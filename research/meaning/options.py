"""The options of the steps of meaning, and what they mean."""

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
class TextsOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    passages: int = option("Passages at most.", 1_000_000)
    words: int = option("Words with a row of their own in the query table.", 60_000)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class TeachersOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    mpnet: Path | None = option("The folder with MPNet's weights (default: they are fetched).", None)
    share: float = option("What MPNet counts for where neighbours are looked for; the rest is MiniLM's.", 0.5)


@dataclass
class LearnOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    name: str = option("Of the run.", "run")
    seconds: float = option("How long to train.", 150.0)
    steps: int = option("Steps at most.", 1_000_000)
    every: float = option("Seconds between two looks at how good it is.", 30.0)
    dimensions: int = option("Of the vectors that ship.", 320)
    share: float = option("What MPNet counts for; the rest is MiniLM's.", 0.6)
    temperature: float = option("Of the teachers' rankings: lower ones look at the first places only.", 0.012)
    rate: float = option("Of learning, for the page encoder.", 2.5e-4)
    table_rate: float = option("For the table, as a share of the mean length of a word's vector.", 2e-3)
    pages: int = option("Passages of a batch.", 896)
    neighbours: int = option("Neighbours that come with each of the passages that are drawn.", 6)
    near_queries: int = option("Queries for each passage of a batch, of those near it.", 4)
    natural: int = option("Natural questions of a batch.", 2048)
    others: int = option("Queries of any kind.", 2048)
    bank: int = option("Passages read before that queries are compared with, beside neighbours.", 16_384)
    read: int = option("Queries of a batch that the page encoder reads, too.", 512)
    wear: float = option("How badly passages are read: 1 is as usual.", 1.0)
    seed: int = option("Of what is drawn.", 0)


@dataclass
class JudgeOptions:
    work: Path = option(_WORK, argument=True)
    datasets: tuple[Path, ...] = option("Folders as `vsplade eval` takes them.")


@dataclass
class CentroidsOptions:
    work: Path = option(_WORK, argument=True)
    minilm: Path = option(_MINILM)
    count: int = option("Directions.", 1024)
    passages: int = option("Passages that they are chosen by.", 60_000)
    seed: int = option("Of where k-means starts.", 0)


@dataclass
class ExportOptions:
    work: Path = option(_WORK, argument=True)
    out: Path = option("The folder for the files that ship.")
    minilm: Path = option(_MINILM)


@dataclass
class MixOptions:
    model: Path = option("A folder that `export` wrote: its pages, and one half of the rows.", argument=True)
    other: Path = option("Another one, of a training by itself: the other half.", argument=True)
    out: Path = option("The folder for the files that ship.")
    share: float = option("What the other table counts for.", 0.5)


@dataclass
class QuestionsOptions:
    work: Path = option(_WORK, argument=True)
    model: Path = option("The folder that research.meaning.export wrote.")
    data: Path | None = option("The training data (default: WORK/data).", None)


@dataclass
class DocumentQuestionsOptions:
    out: Path = option("The folder to write; it must not exist yet.", argument=True)
    pdfs: tuple[Path, ...] = option("Folders with the PDFs that are asked about.")
    kind: tuple[str, ...] = option("Only questions of these kinds.", ())


@dataclass
class JoinOptions:
    dataset: tuple[Path, ...] = option("Folders as `vsplade eval` takes them.")
    vectors: tuple[Path, ...] = option("Of each, the page vectors that `vsplade eval --keep-vectors` wrote.")
    draws: int = option("Settings that are tried for each half.", 300)
    seed: int = option("Of what is drawn.", 0)
