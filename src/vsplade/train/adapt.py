"""The paper's model trained further on a folder of PDFs, or on pairs of any other source."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vsplade.encode.modernvbert.find_model import find_model
from vsplade.encode.modernvbert.processor import ProcessorSettings
from vsplade.errors import InputError
from vsplade.train.loop import Run, train
from vsplade.train.pairs import FolderPairs
from vsplade.train.pdfs import PdfOptions, prepare_pdfs
from vsplade.train.training_config import Config, PaperConfig, load_config

TRAINED = "naver/v-splade-quality"

Say = Callable[[str], None]


def silent(_: str) -> None:
    """For those who want to hear nothing."""


@dataclass(frozen=True)
class Adaptation:
    """``vsplade train``"""

    from_pdfs: Path
    backbone: str = TRAINED
    """A folder or hub name."""
    out: Path = Path("vsplade-model")
    config: str = "quality"
    """quality, efficient, or a TOML file with what differs."""
    settings: tuple[str, ...] = ()
    """Changes of the configuration, as in ``rate=1e-4``."""
    device: str = ""
    every: int = 500
    """Steps between checkpoints."""
    stop_after: int = 0
    """Stop at this step, to be resumed later; 0: at the end."""


def adapt(options: Adaptation, say: Say = silent) -> dict[str, Any]:
    """Text layers are captions and queries. A second call goes on where the first one stopped."""
    config = configuration(options.config, options.settings, PaperConfig)
    backbone = find_model(options.backbone)
    pairs = _pairs_of(options, backbone, config.captions != "none", say)
    count, processes = sum(pairs.groups), int(os.environ.get("WORLD_SIZE", "1"))
    if count < config.batch * processes and not any(item.startswith("batch=") for item in options.settings):
        config = replace(config, batch=max(2, count // processes))
        say(f"a batch is {config.batch} pairs: there are no more")
    run = Run(backbone, options.out, options.device, options.every, options.stop_after)
    return train(config, run, pairs, say)


def configuration(name: str, settings: Sequence[str], kind: type[Config]) -> Config:
    """A preset or a TOML file, with some settings changed."""
    changed = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"Cannot read the setting {item!r}: write name=value.")
        changed[key.strip()] = value.strip()
    return load_config(name, changed, kind)


def _pairs_of(options: Adaptation, backbone: Path, captions: bool, say: Say) -> FolderPairs:
    pages = options.out / "pages"
    while os.environ.get("RANK", "0") != "0" and not (pages / "pairs.jsonl").is_file():
        time.sleep(1)  # the first process renders for all; where it fails, torchrun ends the others
    counts = prepare_pdfs(
        options.from_pdfs, pages, PdfOptions(longest_edge=ProcessorSettings.read(backbone).longest_edge)
    )
    say(", ".join(f"{count} {name}" for name, count in counts.items()))
    return FolderPairs(pages, captions)
