"""The OCR baselines: texts of pages by unstructured, Tesseract or RapidOCR, and what they cost.

    python -m research.bench.ocr DATASET_DIR texts.jsonl.gz --engine tesseract
    vsplade eval DATASET_DIR --texts texts.jsonl.gz

One thread; the rate is pages a second of processor time, so other work on the machine does not change it.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.bench.measured import processor_seconds
from research.command import main, option
from research.experiments.hub import open_dataset
from vsplade.errors import InputError


def tesseract() -> Callable[[Path], str]:
    if shutil.which("tesseract") is None:
        sys.exit("The program 'tesseract' is not installed (Debian: apt install tesseract-ocr).")
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}

    def read(page: Path) -> str:
        command = ["tesseract", str(page), "-"]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, check=False
        )
        if done.returncode:
            sys.exit(f"{page}: tesseract failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    return read


def rapidocr() -> Callable[[Path], str]:
    try:
        from rapidocr import RapidOCR
    except ImportError:
        sys.exit("RapidOCR is not installed: pip install rapidocr onnxruntime")
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    engine = RapidOCR(params=threads)
    return lambda page: "\n".join(engine(str(page)).txts or ())


def unstructured() -> Callable[[Path], str]:
    """The paper's OCR: ``hi_res``, which finds the layout first and reads with Tesseract."""
    try:
        from unstructured.partition.image import partition_image
    except ImportError:
        sys.exit("unstructured is not installed: pip install 'unstructured[image]'")
    return lambda page: "\n".join(str(part) for part in partition_image(str(page), strategy="hi_res"))


ENGINES = {"unstructured": unstructured, "tesseract": tesseract, "rapidocr": rapidocr}
BEST = "unstructured" if importlib.util.find_spec("unstructured") else "tesseract"


@dataclass(frozen=True)
class OcrOptions:
    dataset: str = option("A data set with images/, or a benchmark's name (visrag:mpdocvqa).", argument=True)
    texts: Path = option("Where to write {_id, text} lines (.jsonl.gz).", argument=True)
    data: Path | None = option("Where copies of the hub's data sets lie, as OWNER/NAME.", None)
    engine: str = option("The OCR program.", BEST, choices=tuple(ENGINES))
    sample: int = option("So many pages, evenly spread, for the speed alone; 0: all.", 0)


def ocr(options: OcrOptions) -> dict[str, Any]:
    """Write the texts of pages by an OCR program, and say what they cost."""
    dataset = open_dataset(options.dataset, options.data)
    if dataset.image_ids is None:
        raise InputError(f"{options.dataset} has no images/: OCR reads pictures.")
    pages = list(dataset.files)
    if options.sample:
        pages = pages[:: max(1, len(pages) // options.sample)][: options.sample]
    read = ENGINES[options.engine]()
    before, start = processor_seconds(), time.perf_counter()
    texts = {page.stem: read(page) for page in pages}
    busy, wall = processor_seconds() - before, time.perf_counter() - start
    with gzip.open(options.texts, "wt", encoding="utf-8") as file:
        file.writelines(
            json.dumps({"_id": i, "text": t}, ensure_ascii=False) + "\n" for i, t in texts.items()
        )
    return {
        "engine": options.engine,
        "pages": len(pages),
        "processor_s": busy,
        "wall_s": wall,
        "pages_per_processor_s": len(pages) / busy,
    }


if __name__ == "__main__":
    main(ocr, OcrOptions)
