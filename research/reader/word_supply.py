"""Pictures of words from worker processes: each leaves files in a folder, and the training takes them away.

A worker needs no torch. Files appear under their names when they are whole. It waits while many of its files
lie there, and ends when its parent does.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.command import main
from research.reader.options import WordSupplyOptions
from research.reader.word_pictures import LONGEST_LABEL, Labelled, drawn_pictures, real_pictures
from research.reader.word_texts import word_lists
from vsplade.encode.reader.spelling import LETTERS

HEIGHT = 32
"""Pixels that a stored picture is high; networks of less see it smaller."""
WIDTHS = (48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 432)
"""Pictures are stored with others of about their width."""
A_FILE = 1000
"""Pictures."""
WAITING = 60
"""Files of a worker, at most."""
FAILURES = 20
"""After so many a worker gives up."""
LETTER = {letter: number for number, letter in enumerate(LETTERS, 1)}
Chunk = dict[str, NDArray[np.uint8]]


def bucket(width: int) -> int | None:
    """Which of WIDTHS holds a picture, with some paper beside it."""
    return next((number for number, widest in enumerate(WIDTHS) if width + 4 <= widest), None)


def chunk(some: list[Labelled]) -> Chunk:
    """For each bucket its number with: p pixels (n, HEIGHT, width), w widths, t letters, l their count."""
    rows: dict[int, list[Labelled]] = {}
    for picture, label in some:
        number = bucket(picture.shape[1])
        if number is not None and 0 < len(label) <= LONGEST_LABEL:
            rows.setdefault(number, []).append((picture, label))
    made: dict[str, NDArray[np.uint8]] = {}
    for number, found in rows.items():
        pixels = np.zeros((len(found), HEIGHT, WIDTHS[number]), np.uint8)
        letters = np.zeros((len(found), LONGEST_LABEL), np.uint8)
        for row, (picture, label) in enumerate(found):
            pixels[row, :, : picture.shape[1]] = picture
            letters[row, : len(label)] = [LETTER[letter] for letter in label]
        made[f"p{number}"], made[f"t{number}"] = pixels, letters
        made[f"w{number}"] = np.array([picture.shape[1] for picture, _ in found], np.int16)
        made[f"l{number}"] = np.array([len(label) for _, label in found], np.uint8)
    return made


def pictures(kind: str, sources: list[Path], lists: Path, seed: int) -> Iterator[Labelled]:
    """Without end."""
    rng = random.Random(seed)
    if kind == "drawn":
        yield from drawn_pictures(sources, rng, word_lists(lists), HEIGHT)
    while True:
        yield from real_pictures(rng.sample(sources, min(3, len(sources))), 20, rng, HEIGHT)


def save(path: Path, made: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, **made)
    part.rename(path)


def supply(kind: str, folder: Path, sources: list[Path], lists: Path, seed: int) -> None:
    parent, count = os.getppid(), 0
    found = pictures(kind, sources, lists, seed)
    failed = 0
    while os.getppid() == parent:
        if len(list(folder.glob(f"{kind}-{seed}-*.npz"))) >= WAITING:
            time.sleep(0.2)
            continue
        try:
            some = list(islice(found, A_FILE if count else 200))
        except Exception as error:  # one bad face or page ends no worker
            failed += 1
            print(f"{kind} {seed}: {error!r}", flush=True)
            if failed == FAILURES:
                return
            found = pictures(kind, sources, lists, seed + 100 * failed)
            continue
        save(folder / f"{kind}-{seed}-{count}.npz", chunk(some))
        count += 1


def run_supply(options: WordSupplyOptions) -> dict[str, Any]:
    """Draw or cut pictures of words until the parent process ends."""
    os.nice(5)
    sources = [Path(path) for path in json.loads(options.sources.read_text())]
    supply(options.kind, options.folder, sources, options.lists, options.seed)
    return {}


if __name__ == "__main__":
    main(run_supply, WordSupplyOptions)
