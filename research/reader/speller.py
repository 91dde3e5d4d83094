"""The networks that spell single words: drawn for, trained and exported in one command.

It wants a GPU and as many cores as there are; without a GPU it trains on the processor. Worker processes draw
lines and cut words of PDFs all the while, and all networks see the same batches. The rate falls to nothing by
the clock. Checkpoints are averages of the weights, written every minute.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from research.command import main
from research.reader.options import SpellerOptions
from research.reader.speller_export import CALIBRATION, export_speller
from research.reader.speller_judge import shares_right
from research.reader.speller_learner import Learner
from research.reader.speller_network import SIZES
from research.reader.word_pictures import Labelled, drawn_pictures, real_pictures
from research.reader.word_store import Store, Workers
from research.reader.word_supply import HEIGHT, Chunk, chunk
from research.reader.word_texts import word_lists
from vsplade.cli.common import note
from vsplade.errors import InputError

DRAWN = 0.68
"""Share of the pictures."""
PATIENCE = 30.0
"""Seconds that are waited for ``first`` pictures; after that fewer are enough."""
TOLD, SAVED = 15.0, 60.0
"""Seconds from one line of progress, and from one checkpoint, to the next."""
FACE_KEPT_OUT, PDF_KEPT_OUT = 30, 12
"""Every so many faces and PDFs are kept out of training, to judge on."""


@dataclass
class Material:
    """Faces and PDFs to learn from, others that are kept out, and lists of words."""

    faces: list[Path]
    pdfs: list[Path]
    faces_out: list[Path]
    pdfs_out: list[Path]
    lists: Path

    @classmethod
    def of(cls, options: SpellerOptions, folder: Path) -> Material:
        faces, pdfs = sorted(options.fonts.iterdir()), sorted(options.pdfs.glob("*.pdf"))
        if len(faces) < 2 or len(pdfs) < 2:
            raise InputError("Training needs two faces and two PDFs at least: one of each is kept out.")
        lists = options.lists or folder / "words.json"
        if options.lists is None:
            lists.write_text(json.dumps(word_lists()))
        faces_out, pdfs_out = faces[::FACE_KEPT_OUT], pdfs[::PDF_KEPT_OUT]
        learned = [sorted({*all_} - {*out}) for all_, out in ((faces, faces_out), (pdfs, pdfs_out))]
        return cls(learned[0], learned[1], faces_out, pdfs_out, lists)

    def kept_out(self, kind: str, count: int, height: int) -> list[Labelled]:
        """The same places, whatever the height."""
        rng = random.Random(77)
        if kind == "drawn":
            found = drawn_pictures(self.faces_out, rng, word_lists(self.lists), height)
        else:
            found = real_pictures(self.pdfs_out, 40, rng, height)
        return list(islice(found, count))


def train_spellers(options: SpellerOptions, tell: Callable[[str], None] = note) -> dict[str, Any]:
    """Train networks of the given sizes, judge them on faces and PDFs that were kept out, and write for each
    its checkpoint and its file in 8 bits.
    """
    unknown = {*options.size} - SIZES.keys()
    if unknown or not options.size:
        raise InputError(f"Sizes are {', '.join(SIZES)}, not {', '.join(sorted(unknown)) or 'none'}.")
    options.out.mkdir(parents=True, exist_ok=True)
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=shared))
    try:
        material = Material.of(options, folder)
        workers = Workers(folder, material.lists)
        try:
            count = options.workers or max(2, (os.cpu_count() or 2) - 1)
            real = max(1, count // 4)
            workers.start("real", material.pdfs, real, 1000 + options.seed)
            workers.start("drawn", material.faces, max(1, count - real), 2000 + options.seed)
            workers.load()
            shelves = {
                kind: chunk(material.kept_out(kind, options.judged, HEIGHT)) for kind in ("drawn", "real")
            }
            learner = train(options, workers, shelves, tell)
        finally:
            workers.stop()
        result: dict[str, Any] = {"batches": learner.step}
        for name, network in learner.averages.items():
            result[name] = shares_right(network, shelves, learner.device)
            shown = material.kept_out("drawn", CALIBRATION // 2, network.size.height)
            shown += material.kept_out("real", CALIBRATION // 2, network.size.height)
            file = options.out / f"{name}.onnx"
            export_speller(network.cpu(), [picture for picture, _ in shown], file)
            result[name]["bytes"] = file.stat().st_size
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def train(
    options: SpellerOptions, workers: Workers, shelves: dict[str, Chunk], tell: Callable[[str], None]
) -> Learner:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    learner, store = Learner(options.size, device, options.rate, options.initial), Store(device, options.most)
    _fill(store, workers, options)
    rng, seen, lately = random.Random(options.seed), 0, 0
    begun = told = saved = time.monotonic()
    tell(f"training begins on {device} with {store.came}")
    while (now := time.monotonic()) < begun + options.seconds:
        workers.bring(store)
        batch = store.draw(options.batch, DRAWN, rng)
        losses = learner.learn(batch, (now - begun) / options.seconds)
        lately += len(batch.widths)
        if now - told > TOLD:
            seen += lately
            shown = " ".join(f"{loss:.3f}" for loss in losses.tolist())
            tell(
                f"{now - begun:.0f} s: {learner.step} batches, {seen} pictures seen, "
                f"{lately / (now - told):.0f}/s; came {store.came}; loss {shown}"
            )
            told, lately = now, 0
        if now - saved > SAVED:
            learner.save(options.out)
            saved = now
            for name, network in learner.averages.items():
                tell(f"  right, {name}: {shares_right(network, shelves, device)}")
    learner.save(options.out)
    return learner


def _fill(store: Store, workers: Workers, options: SpellerOptions) -> None:
    """Wait for the first pictures."""
    begun = time.monotonic()
    while (count := sum(store.came.values())) < options.first:
        waited = time.monotonic() - begun
        if waited > PATIENCE and count > options.batch:
            return
        if waited > 3 * PATIENCE:
            raise InputError(f"No pictures came in {waited:.0f} seconds: {store.came}.")
        workers.bring(store, 64)
        time.sleep(0.05)


if __name__ == "__main__":
    main(train_spellers, SpellerOptions)
