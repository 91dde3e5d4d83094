"""The options of every step and what they mean: the command lines are made from these classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from research.command import option

UNTRAINED = "ModernVBERT/modernvbert"


@dataclass(frozen=True)
class PaperOptions:
    """``python -m research.paper.train``"""

    backbone: str = option(
        "A folder or hub name: ModernVBERT, or a V-SPLADE model to train further.", UNTRAINED
    )
    out: Path = option("The folder for checkpoints, the log, and the finished model.", Path("vsplade-model"))
    config: str = option("quality, efficient, or a TOML file with what differs.", "quality")
    set: tuple[str, ...] = option("Change one setting of the configuration, as in rate=1e-4.", ())
    pages: Path | None = option("ColPali's train set: the folder with its parquet files.", None)
    captions: Path | None = option("Captions of those pages, from research.paper.captions.", None)
    pairs: Path | None = option("Instead of --pages, a folder with pairs.jsonl and pictures.", None)
    texts: Path | None = option("RLHN: the folder with its parquet files.", None)
    device: str = option("As torch names it; default: a GPU where there is one.", "")
    every: int = option("Steps between checkpoints.", 500)
    stop_after: int = option("Stop at this step, to be resumed by the same command later; 0: at the end.", 0)
    dev: str | None = option(
        "A data set to measure on while training, as vsplade eval takes it: ranking, FLOPS, stop words.", None
    )
    data: Path | None = option("Of --dev: where copies of the hub's data sets lie, as OWNER/NAME.", None)
    judge_every: int = option("Steps between measurements on --dev.", 500)
    patience: int = option(
        "End the run after so many measurements without a new best one; 0: never early. The best step's "
        "model is kept beside the last one's.", 0,
    )  # fmt: skip


@dataclass(frozen=True)
class CaptionOptions:
    """``python -m research.paper.captions``"""

    pages: str = option(
        "ColPali's train set: the folder with its parquet files; or a data set as vsplade eval takes it.",
        argument=True,
    )
    out: Path = option("The captions to write or to go on with (.jsonl).")
    url: str = option("The OpenAI-compatible endpoint, up to and with /v1.")
    model: str = option("The model's name there.")
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    concurrent: int = option("Questions at a time.", 16)
    seconds: float = option("Time for one answer.", 120.0)
    attempts: int = option("Attempts for each page.", 4)


@dataclass(frozen=True)
class AblationOptions:
    """``python -m research.paper.ablation``"""

    charts: Path = option("Pictures with captions: pairs.jsonl with image, query and caption.", argument=True)
    out: Path = option("The folder for what was read, and for ablation.json.")
    dev: tuple[Path, ...] = option("A data set to measure on: images/, queries.jsonl, qrels.tsv.", ())
    reader: Path | None = option(
        "A reader: a folder, or a checkpoint; default: the one in the package.", None
    )
    texts: tuple[Path, ...] = option("Text pairs to mix in, JSON lines with query and text.", ())
    ocr: Path | None = option("OCR text of the pictures, JSON lines with id (the image) and caption.", None)
    reports: Path | None = option("Pages of PDFs with their text layer as caption, as pairs.jsonl.", None)
    pages: int = option("Pairs of each source; 0: all.", 0)
    cells: int = option("Word cells kept of a page.", 640)
    rows: tuple[str, ...] = option("Train this row of the table only.", ())
    seeds: int = option("Runs of each row.", 3)
    steps: int = option("Steps of a run.", 800)
    batch: int = option("Pairs in a step.", 42)
    rate: float = option("Highest learning rate.", 5e-4)
    processes: int = option("Runs at a time, each in a process; 0: one after the other in this one.", 4)
    device: str = option("As torch names it; default: a GPU where there is one.", "")


@dataclass(frozen=True)
class LayoutOptions:
    """``python -m research.paper.sentence_layout``"""

    model: str = option("A folder with a model, or its name on the hub.", argument=True)
    out: Path = option("The folder to write.")
    prompt: str = option("A text beside the image in every page's prompt.", "")
    once: bool = option(
        "Count a repeated word of a query once: then no code is written beside the model.", False
    )
