"""Pages a second, pixels to vectors, against Tesseract: ``python -m research.bench.reading IMAGES_OR_PDFS...
--json``.

The same pages in the same run: ours through the renderer and the reader on every core, Tesseract as one
process a core with one thread each. Both get image files; the pages of PDFs are rendered to 150 dpi
beforehand, and that is not timed for either. Rates per second of processor time are given too, since other
work on the machine changes only the wall clock. ``--cores N`` gives both N processors and no more. Without
Tesseract, ours is measured alone.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2

from research.bench.measured import draw_pdf_page, processor_seconds
from research.bench.ocr import tesseract
from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.keyed import encode_rendered
from vsplade.errors import InputError
from vsplade.pages import discover, name_files, render_for, usable


def sample_pages(sources: list[Path], count: int, folder: Path) -> list[Path]:
    """Image files as they are; PDF pages at 150 dpi as PNG in ``folder``."""
    rng = random.Random(0)
    images, pages = [], []
    for file in discover(sources).files:
        path = Path(file)
        if path.suffix.lower() != ".pdf":
            images.append(path)
            continue
        pages += [(path, number) for number in range(len(pypdfium2.PdfDocument(path)))]
    images += [draw_pdf_page(*place, folder) for place in rng.sample(pages, min(count, len(pages)))]
    return rng.sample(images, min(count, len(images)))


def timed(work: Callable[[], None], pages: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), processor_seconds()
    work()
    wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
    return {"pages_per_s": round(pages / wall, 3), "pages_per_cpu_s": round(pages / cpu, 3)}


def keep_to(cores: int | None) -> int:
    """This process and all that it starts get so many processors; how many they have."""
    if not hasattr(os, "sched_getaffinity"):
        if cores:
            raise InputError("--cores needs a system that can bind processes to processors, as Linux does.")
        return os.cpu_count() or 1
    there = sorted(os.sched_getaffinity(0))
    if cores is not None and not 0 < cores <= len(there):
        raise InputError(
            f"--cores is between 1 and {len(there)}, the processors that are there, not {cores}."
        )
    here = there[:cores]
    os.sched_setaffinity(0, here)
    # As Python's own -X cpu_count does: threads are started for these.
    os.cpu_count = lambda: len(here)
    return len(here)


def read_ours(paths: list[Path], encoder_name: str) -> None:
    encoder = load_encoder(encoder_name)
    for _ in encode_rendered(encoder, usable(render_for(encoder, name_files(discover(paths).files)))):
        pass


def read_tesseract(paths: list[Path]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(tesseract(), paths))


@dataclass(frozen=True)
class ReadingOptions:
    sources: tuple[Path, ...] = option("Pictures or PDFs, or folders with them.", argument=True)
    pages: int = option("A random sample of so many pages.", 40)
    encoder: str = option("What reads them beside Tesseract.", "reader")
    cores: int | None = option("Processors to use; all, where it is not given.", None)


def reading(options: ReadingOptions) -> dict[str, Any]:
    """Pages a second, pixels to vectors, against Tesseract on the same pages in the same run."""
    cores = keep_to(options.cores)
    with tempfile.TemporaryDirectory() as folder:
        paths = sample_pages(list(options.sources), options.pages, Path(folder))
        read_ours(paths[:2], options.encoder)  # start-up is not part of a rate
        ours = timed(lambda: read_ours(paths, options.encoder), len(paths))
        found: dict[str, Any] = {
            "encoder": options.encoder,
            "pages": len(paths),
            "cores": cores,
            "reader": ours,
        }
        if shutil.which("tesseract"):
            theirs = timed(lambda: read_tesseract(paths), len(paths))
            found |= {
                "tesseract": theirs,
                "times_faster": round(ours["pages_per_s"] / theirs["pages_per_s"], 2),
                "times_faster_cpu": round(ours["pages_per_cpu_s"] / theirs["pages_per_cpu_s"], 2),
            }
        else:
            print("tesseract is not installed (Debian: apt install tesseract-ocr)", file=sys.stderr)
    return found | {"largest_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


if __name__ == "__main__":
    main(reading, ReadingOptions)
