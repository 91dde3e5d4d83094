"""The paper's model trained further on a folder of PDFs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsplade.encode.modernvbert.find_model import find_model
from vsplade.encode.modernvbert.processor import ProcessorSettings
from vsplade.errors import InputError
from vsplade.train.loop import Run, train
from vsplade.train.pairs import FolderPairs
from vsplade.train.pdfs import prepare_pdfs
from vsplade.train.training_config import Config, PaperConfig, load_config

Say = Callable[[str], None]


def silent(_: str) -> None:
    """For those who want to hear nothing."""


def adapt(
    from_pdfs: Path,
    backbone: str,
    out: Path,
    config: str,
    settings: Sequence[str],
    device: str,
    every: int,
    stop_after: int,
    say: Say = silent,
) -> dict[str, Any]:
    """``vsplade train``: text layers are captions and queries. A second call goes on where one stopped."""
    chosen = configuration(config, settings, PaperConfig)
    model = find_model(backbone)
    pages = out / "pages"
    while os.environ.get("RANK", "0") != "0" and not (pages / "pairs.jsonl").is_file():
        time.sleep(1)  # the first process renders for all; where it fails, torchrun ends the others
    counts = prepare_pdfs(from_pdfs, pages, ProcessorSettings.read(model).longest_edge)
    say(", ".join(f"{count} {name}" for name, count in counts.items()))
    pairs = FolderPairs(pages, chosen.captions != "none")
    count, processes = sum(pairs.groups), int(os.environ.get("WORLD_SIZE", "1"))
    if count < chosen.batch * processes and not any(item.startswith("batch=") for item in settings):
        chosen = replace(chosen, batch=max(2, count // processes))
        say(f"a batch is {chosen.batch} pairs: there are no more")
    return train(chosen, Run(model, out, device, every, stop_after), pairs, say)


def configuration(name: str, settings: Sequence[str], kind: type[Config]) -> Config:
    """A preset or a TOML file, with some settings changed."""
    changed = {}
    for item in settings:
        key, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"Cannot read the setting {item!r}: write name=value.")
        changed[key.strip()] = value.strip()
    return load_config(name, changed, kind)
