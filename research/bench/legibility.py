"""How many pages of a folder are called illegible (in a script that the reader does not know).

    python -m research.bench.legibility FOLDER... --sample 200

Prints one line a folder: pages looked at, called illegible, and with too few words to tell.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.legibility import LEGIBLE, legibility
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.pages import discover, fit


def measure(encoder: ReaderEncoder, path: str, doubt: float) -> float | None:
    with Image.open(path) as picture:
        _, cells = encoder.find_upright(fit(picture.convert("L"), encoder.longest_edge))
    return legibility(cells, Tokenizer.load(), doubt)


@dataclass(frozen=True)
class LegibilityOptions:
    folders: tuple[Path, ...] = option("Folders with pictures of pages.", argument=True)
    sample: int = option("Pages of each.", 200)


def illegible_pages(options: LegibilityOptions) -> str:
    """How many pages of a folder are called illegible: one line a folder."""
    encoder = load_encoder("reader")
    assert isinstance(encoder, ReaderEncoder)
    doubt, lines = float(encoder._config["doubt"]), []
    for folder in options.folders:
        files = [file for file in discover([folder]).files if not file.endswith(".pdf")]
        chosen = random.Random(0).sample(files, min(options.sample, len(files)))
        with ThreadPoolExecutor() as pool:
            values = list(pool.map(lambda path: measure(encoder, path, doubt), chosen))
        illegible = sum(value is not None and value < LEGIBLE for value in values)
        lines.append(
            f"{folder}: {len(values)} pages, {illegible} illegible, {values.count(None)} too few words"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main(illegible_pages, LegibilityOptions)
