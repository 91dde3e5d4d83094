"""Pages a second, pixels to vectors, against Tesseract: ``python -m research.bench.reading IMAGES_OR_PDFS...
--json``.

The same pages in the same run: ours through the renderer and the reader on every core, Tesseract as one
process a core with one thread each. Both get image files; the pages of PDFs are rendered to 150 dpi
beforehand, and that is not timed for either. Rates per second of processor time are given too, since other
work on the machine changes only the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vsplade.encode import load_encoder
from vsplade.pages import FileProblem, discover, name_files, render_for


def sample_pages(sources: list[Path], count: int, folder: Path) -> list[Path]:
    """Image files as they are; PDF pages at 150 dpi as PNG in ``folder``."""
    rng = random.Random(0)
    images, pages = [], []
    for file in discover(sources).files:
        path = Path(file)
        if path.suffix.lower() != ".pdf":
            images.append(path)
            continue
        import pypdfium2

        document = pypdfium2.PdfDocument(path)
        pages += [(path, number) for number in range(len(document))]
    for path, number in rng.sample(pages, min(count, len(pages))):
        import pypdfium2

        target = folder / f"{path.stem}_{number}.png"
        pypdfium2.PdfDocument(path)[number].render(scale=150 / 72, grayscale=True).to_pil().save(target)
        images.append(target)
    return rng.sample(images, min(count, len(images)))


def processor_seconds() -> float:
    """Of this process and of the finished ones that it started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def timed(work: object, pages: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), processor_seconds()
    work()  # type: ignore[operator]
    wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
    return {"pages_per_s": round(pages / wall, 3), "pages_per_cpu_s": round(pages / cpu, 3)}


def read_ours(paths: list[Path], encoder_name: str) -> None:
    encoder = load_encoder(encoder_name)
    results = render_for(encoder, name_files(discover(paths).files))
    pages = (result.page for result in results if not isinstance(result, FileProblem))
    for _ in encoder.encode_pages(pages):
        pass


def read_tesseract(paths: list[Path]) -> None:
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    command = lambda path: subprocess.run(  # noqa: E731
        ["tesseract", str(path), "-"], capture_output=True, env=environment, check=True
    )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(command, paths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--pages", type=int, default=40)
    parser.add_argument("--encoder", default="reader")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if shutil.which("tesseract") is None:
        sys.exit("The program 'tesseract' is not installed (Debian: apt install tesseract-ocr).")
    with tempfile.TemporaryDirectory() as folder:
        paths = sample_pages(options.sources, options.pages, Path(folder))
        read_ours(paths[:2], options.encoder)  # start-up is not part of a rate
        ours = timed(lambda: read_ours(paths, options.encoder), len(paths))
        theirs = timed(lambda: read_tesseract(paths), len(paths))
    report = {
        "pages": len(paths),
        "reader": ours,
        "tesseract": theirs,
        "times_faster": round(ours["pages_per_s"] / theirs["pages_per_s"], 2),
        "times_faster_cpu": round(ours["pages_per_cpu_s"] / theirs["pages_per_cpu_s"], 2),
        "largest_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(report) if options.json else json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
