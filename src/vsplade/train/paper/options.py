"""The steps behind the command line: their options, and the functions that run them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from vsplade.errors import InputError
from vsplade.train.options import option

TRAINED, UNTRAINED = "naver/v-splade-quality", "ModernVBERT/modernvbert"


@dataclass(frozen=True)
class PaperOptions:
    """``vsplade train paper``"""

    backbone: str = option(
        "A folder or hub name: ModernVBERT, or a V-SPLADE model to train further. Default: "
        f"{TRAINED} for PDFs, {UNTRAINED} otherwise.",
        "",
    )
    out: Path = option("The folder for checkpoints, the log, and the finished model.", Path("vsplade-model"))
    config: str = option("quality, efficient, or a TOML file with what differs.", "quality")
    set: tuple[str, ...] = option("Change one setting of the configuration, as in rate=1e-4.", ())
    pages: Path | None = option("ColPali's train set: the folder with its parquet files.", None)
    captions: Path | None = option("Captions of those pages, from `vsplade train captions`.", None)
    pairs: Path | None = option("Instead of --pages, a folder with pairs.jsonl and pictures.", None)
    from_pdfs: Path | None = option(
        "Train on a folder of PDFs: their text layers are captions and queries.", None
    )
    texts: Path | None = option("RLHN: the folder with its parquet files.", None)
    device: str = option("As torch names it; default: a GPU where there is one.", "")
    every: int = option("Steps between checkpoints.", 500)
    stop_after: int = option("Stop at this step, to be resumed by the same command later; 0: at the end.", 0)


@dataclass(frozen=True)
class CaptionOptions:
    """``vsplade train captions``"""

    pages: Path = option("ColPali's train set: the folder with its parquet files.", argument=True)
    out: Path = option("The captions to write or to go on with (.jsonl).")
    url: str = option("The OpenAI-compatible endpoint, up to and with /v1.")
    model: str = option("The model's name there.")
    concurrent: int = option("Questions at a time.", 16)
    seconds: float = option("Time for one answer.", 120.0)
    attempts: int = option("Attempts for each page.", 4)


@dataclass(frozen=True)
class QuerySideOptions:
    """``vsplade train query-side``"""

    model: str = option("A folder or hub name.", argument=True)
    out: Path = option("The folder to write to; `--encoder FOLDER` searches with it.")
    name: str = option("The encoder's name in the index; default: as MODEL is called by `vsplade index`.", "")


@dataclass(frozen=True)
class AblationOptions:
    """``vsplade train ablation``"""

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
    seeds: int = option("Runs of each row.", 2)
    steps: int = option("Steps of a run.", 800)
    batch: int = option("Pairs in a step.", 42)
    rate: float = option("Highest learning rate.", 5e-4)
    processes: int = option("Runs at a time, each in a process; 0: one after the other in this one.", 4)
    device: str = option("As torch names it; default: a GPU where there is one.", "")


def train_paper(options: PaperOptions, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    from vsplade.encode.modernvbert.encoder import find_model
    from vsplade.train.paper.config import load_config
    from vsplade.train.paper.loop import Run, train

    sources = [name for name in ("pages", "pairs", "from_pdfs") if getattr(options, name) is not None]
    if len(sources) != 1:
        raise InputError("Give one source of pages: --pages, --pairs or --from-pdfs.")
    settings = dict(_setting(item) for item in options.set)
    config = load_config(options.config, settings)
    backbone = find_model(options.backbone or (TRAINED if options.from_pdfs else UNTRAINED))
    images = _images(options, backbone, config.captions != "none", say)
    pairs = sum(images.groups)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if options.from_pdfs is not None and pairs < config.batch * processes and "batch" not in settings:
        config = replace(config, batch=max(2, pairs // processes))
        say(f"a batch is {config.batch} pairs: there are no more")
    texts = None
    if options.texts is not None:
        from vsplade.train.paper.data import RlhnPairs

        texts = RlhnPairs(options.texts, config.hard_negatives)
    run = Run(backbone, options.out, options.device, options.every, options.stop_after)
    return train(config, run, images, texts, say)


def make_captions(options: CaptionOptions, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    from vsplade.train.paper.captions import Endpoint, write_captions
    from vsplade.train.paper.data import ColpaliPairs

    endpoint = Endpoint(options.url, options.model, options.concurrent, options.seconds, options.attempts)
    pairs = ColpaliPairs(options.pages)

    def picture(number: int) -> bytes:
        return pairs[number].image

    pictures = ((name, partial(picture, number)) for number, name in enumerate(pairs.ids(options.out)))
    report = write_captions(pictures, endpoint, options.out)
    for name, reason in list(report.failures.items())[:20]:
        say(f"{name}: {reason}")
    if report.failures:
        raise InputError(
            f"{len(report.failures)} pages have no caption, for example: "
            f"{next(iter(report.failures.values()))}. "
            f"{report.written + report.skipped} are in {options.out}; run the same command again for "
            "the rest."
        )
    return {"written": report.written, "there before": report.skipped}


def write_query_side(options: QuerySideOptions) -> dict[str, Any]:
    from vsplade.encode.modernvbert.encoder import find_model
    from vsplade.encode.modernvbert.query import export

    folder = find_model(options.model)
    given = Path(options.model).expanduser()
    name = options.name or (str(given.resolve()) if given.is_dir() else options.model)
    side = export(folder, options.out, name)
    size = sum(path.stat().st_size for path in options.out.iterdir())
    return {"out": str(options.out), "name": name, "terms": len(side.table), "bytes": size}


def _images(options: PaperOptions, backbone: Path, captions: bool, say: Callable[[str], None]) -> Any:
    from vsplade.train.paper.data import ColpaliPairs, FolderPairs, check_captions, read_captions

    if options.from_pdfs is not None:
        from vsplade.encode.modernvbert.processor import Settings
        from vsplade.train.paper.pdfs import PdfOptions, prepare_pdfs

        while os.environ.get("RANK", "0") != "0" and not (options.out / "pages" / "pairs.jsonl").is_file():
            time.sleep(1)  # the first process renders for all; where it fails, torchrun ends the others
        edge = Settings.read(backbone).longest_edge
        counts = prepare_pdfs(options.from_pdfs, options.out / "pages", PdfOptions(longest_edge=edge))
        say(", ".join(f"{count} {name}" for name, count in counts.items()))
        return FolderPairs(options.out / "pages", captions)
    if options.pairs is not None:
        return FolderPairs(options.pairs, captions)
    if options.pages is None:
        raise InputError("Give --pages.")
    if not captions:
        return ColpaliPairs(options.pages)
    if options.captions is None:
        raise InputError("This configuration trains with captions: give --captions, or --set captions=none.")
    known = read_captions(options.captions)
    pairs = ColpaliPairs(options.pages, known)
    check_captions(pairs.ids(options.captions), known)
    return pairs


def _setting(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise InputError(f"Cannot read the setting {item!r}: write name=value.")
    return key.strip(), value.strip()
