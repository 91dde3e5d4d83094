"""The options of every step and what they mean: the command lines are made from these classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from research.command import option
from vsplade.errors import InputError


@dataclass(frozen=True)
class TextOptions:
    sources: tuple[Path, ...] = option(
        "Files and folders: .dict.dz dictionaries, man pages, HTML, .jsonl, .txt, PDFs (also with .gz).",
        argument=True,
    )
    out: Path = option("The text file to write.")


@dataclass(frozen=True)
class FontsOptions:
    sources: tuple[Path, ...] = option("Folders with .ttf, .otf and .woff files.", argument=True)
    out: Path = option("The folder to write the cut-down fonts to.")
    largest: int = option("Leave out font files of more bytes than this.", 5_000_000)
    most: int = option("Keep so many faces at most, chosen at random; 0 keeps all.", 0)
    seed: int = option("Another seed, another choice.", 0)


@dataclass(frozen=True)
class VocabularyOptions:
    text: tuple[Path, ...] = option("Text files; each has the same say.", argument=True)
    out: Path = option("The vocabulary to write, a token a line.")
    size: int = option("Tokens in all.", 31_744)
    whole_words: int = option("Frequent words that are tokens of their own.", 22_000)


@dataclass(frozen=True)
class QueryTableOptions:
    text: tuple[Path, ...] = option("Text files whose passages are counted.", argument=True)
    out: Path = option("The table to write (.npy), a weight a term; related.npy is written beside it.")


@dataclass(frozen=True)
class RetrievalOptions:
    prior: Path = option("The table to start from, of `research.reader.query_table`.", argument=True)
    out: Path = option("The learned table to write (.npy), a weight a term.")
    pairs: tuple[Path, ...] = option(
        "JSON lines with a query and its text, caption or table; may be given several times.", ()
    )
    tables: tuple[Path, ...] = option("JSON lines with the tables (_id, tsv) that pairs name.", ())
    pdfs: Path | None = option("A folder with PDFs that have a text layer: questions are made up.", None)
    questions: int = option("Questions made up for every PDF page.", 6)
    pdf_share: float = option("Share of the batches that are of PDF pages.", 0.5)
    steps: int = option("Batches in all.", 400)
    batch: int = option("Questions a batch.", 256)
    rate: float = option("Highest learning rate.", 0.02)
    near: float = option("How strongly a term's weight is held at that of its idf.", 0.005)
    rank: float = option("Weight of the ranking loss.", 1.0)
    gate: float = option("Weight of the gated supervision.", 0.0)
    flops: float = option("Weight of the FLOPS loss.", 0.0)
    seed: int = option("Of the questions and the batches.", 0)

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "rate", "questions"):
            if getattr(self, name) <= 0:
                raise InputError(f"Training option {name!r} must be above 0, not {getattr(self, name)}.")
        if not 0 <= self.pdf_share <= 1:
            raise InputError("Training option 'pdf_share' is a share, between 0 and 1.")


@dataclass(frozen=True)
class CertaintyOptions:
    model: Path = option("A folder with a reader, of `research.reader.export`.", argument=True)
    pdfs: Path = option("A folder with PDFs that have a text layer.")
    out: Path = option("The table to write (.npy), a share a term.")
    pages: int = option("Pages of one PDF, at most.", 8)


@dataclass(frozen=True)
class WordsOptions:
    text: tuple[Path, ...] = option("Text files that running text is taken from.", argument=True)
    out: Path = option("The word bank to write (.npz).")
    words_each: int = option("Words of running text from each file, at most.", 500_000)
    repeats: int = option("How often every whole word of the vocabulary comes up.", 12)
    rare: int = option("How many words of general English come up, twice each.", 200_000)
    numbers: int = option("How many numbers, dates and codes are made up.", 400_000)
    seed: int = option("Another seed, another bank.", 0)


@dataclass(frozen=True)
class TrainingConfig:
    """What a checkpoint keeps of how it was trained."""

    seconds: float = option(
        "Length of the whole schedule; a resumed run counts what was spent before.", 600.0
    )
    windows: int = option("Windows a batch.", 256)
    echo: int = option("Batches that one drawing makes, each with wear of its own.", 1)
    real_share: float = option("Share of the windows that is cut from the PDFs.", 0.3)
    rate: float = option("Highest learning rate.", 2e-3)
    decay: float = option("Weight decay of AdamW.", 0.02)
    warm_up: float = option("Share of the schedule in which the rate rises.", 0.02)
    cool_down: float = option("Share of the schedule, at its end, in which the rate falls.", 0.35)
    pieces: int = option("Word pieces of a batch that are named; the others are only found.", 24_576)
    scenes: int = option("Layouts made before the start; words and faces are new every time.", 40_000)
    pages_per_file: int = option("Pages of one PDF, at most.", 150)
    plain: bool = option(
        "Running text in black on white only, no wear: to measure what variety gives.", False
    )
    character_weight: float = option("Weight of the character loss.", 1.0)
    size_weight: float = option("Weight of the loss on the size of type.", 0.3)
    rounded: float = option(
        "Share of the schedule, at its end, in which the trunk's weights and activations are rounded to 8 "
        "bits, as in the shipped files.",
        0.0,
    )
    seed: int = option("Of the weights, the layouts and every batch.", 0)
    compile: bool = option("Compile the network with torch.compile.", False)

    def __post_init__(self) -> None:
        for name in ("seconds", "windows", "echo", "rate", "pieces", "scenes", "pages_per_file", "cool_down"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"Training option {name!r} must be above 0, not {getattr(self, name)}.")
        for name in ("real_share", "warm_up", "cool_down", "rounded"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"Training option {name!r} is a share, between 0 and 1.")


@dataclass(frozen=True)
class TrainingRun:
    """Where a run takes its material from and where it goes on; not kept in the checkpoint."""

    words: Path = option("The word bank, from `research.reader.words`.")
    fonts: Path = option("A folder with .ttf and .otf files.")
    out: Path = option("The folder for last.safetensors (a checkpoint, every minute) and log.jsonl.")
    pdfs: Path | None = option("A folder with PDFs that have a text layer; default: drawn pages only.", None)
    resume: Path | None = option("Go on with this checkpoint and its schedule.", None)
    initial: Path | None = option("Start a new schedule from the weights of this checkpoint.", None)
    stop_after: float = option("Stop after so many seconds, to be resumed later; 0: at the end.", 0.0)
    most_fonts: int = option("Use so many faces at most; 0 uses all.", 0)
    most_pages: int = option("Render so many PDF pages at most; 0 renders all.", 0)
    network: str = option('Network settings as JSON, as in {"middle": 96}.', "{}")


@dataclass(frozen=True)
class NarrowOptions:
    checkpoint: Path = option("A checkpoint of a trained reader.", argument=True)
    pdfs: Path = option("PDFs on whose pages the narrower blocks are fitted.")
    out: Path = option("The checkpoint to write, to go on from with `research.reader.train --initial`.")
    inner: float = option("Share of a block's channels to keep between its two convolutions.", 0.5)
    windows: int = option("Windows to fit on.", 80)
    seed: int = option("Of the windows and the places in them.", 0)


@dataclass(frozen=True)
class ReviveOptions:
    checkpoint: Path = option("A checkpoint of a trained reader.", argument=True)
    pdfs: Path = option("PDFs on whose pages units are watched.")
    out: Path = option("The checkpoint to write, to go on from with `research.reader.train --initial`.")
    rank: int = option("Dimensions that terms are named from, at least one a living unit; 0: as now.", 0)
    windows: int = option("Windows to watch on.", 160)
    seed: int = option("Of the windows and of the new units.", 0)


@dataclass(frozen=True)
class FoldOptions:
    model: Path = option("The folder of an exported reader.", argument=True)
    pdfs: Path = option("PDFs on whose pages units are watched and rounding is fitted.")
    out: Path = option("The folder to write head.onnx, size.onnx and reader.json to.")
    windows: int = option("Windows to watch on.", 320)
    seed: int = option("Of the windows.", 0)


@dataclass(frozen=True)
class ProbeOptions:
    checkpoint: Path = option("A checkpoint.", argument=True)
    images: Path = option("A folder of page pictures.", argument=True)
    out: Path = option("The cells to write (.npz).")
    longest_edge: int = option("Larger pages are scaled down to this many px.", 1408)
    scales: tuple[float, ...] = option("Sizes the page is read at; may be given several times.", (1.0, 0.4))


@dataclass(frozen=True)
class ExportOptions:
    checkpoint: Path = option("A checkpoint.", argument=True)
    pdfs: Path = option("PDFs whose pages the 8-bit ranges are measured on.")
    out: Path = option("The folder to write trunk.onnx, head.onnx, size.onnx and their float originals to.")
    windows: int = option("Windows to measure on.", 48)
    method: str = option(
        "How a range is chosen from what was measured.",
        "MinMax",
        choices=("MinMax", "Entropy", "Percentile", "Distribution"),
    )


@dataclass(frozen=True)
class SpellerOptions:
    fonts: Path = option("A folder of faces, of `research.reader.fonts`.")
    pdfs: Path = option("PDFs with text layers, whose words are cut from their pages.")
    out: Path = option("The folder to write SIZE.safetensors (a checkpoint) and SIZE.onnx to.")
    size: tuple[str, ...] = option(
        "The networks to train side by side; may be given several times.", ("slim",)
    )
    seconds: float = option("Length of the training.", 200.0)
    batch: int = option("Pictures a batch, of 96 px; fewer wider ones.", 2048)
    rate: float = option("Highest learning rate.", 4e-3)
    initial: Path | None = option("A folder of checkpoints to go on from.", None)
    lists: Path | None = option("Frequent and rare words (JSON), where `wordfreq` is not installed.", None)
    workers: int = option("Processes that draw; 0: one a core, but one.", 0)
    first: int = option("Pictures that training begins with.", 25_000)
    most: int = option("Pictures of 48 px that are kept of a kind and width; fewer wider ones.", 500_000)
    judged: int = option("Pictures of kept-out faces, and of kept-out PDFs, to judge on.", 3000)
    seed: int = option("Of words, wear and weights.", 0)


@dataclass(frozen=True)
class WordSupplyOptions:
    kind: str = option("drawn or real.", argument=True)
    folder: Path = option("Where files are left.", argument=True)
    sources: Path = option("Faces or PDFs, a JSON list.")
    lists: Path = option("Frequent and rare words (JSON).")
    seed: int = option("Another seed, other pictures.", 0)
