"""From PDF pages and scans to vectors on a GPU, by the number of loading processes; where the time goes.

    python -m research.bench.loading_gpu pdfs/ scans/ --out loading.json

Each rate is of some seconds after the first pages; files are read over and over. Told beside it: processor
time a page of the loading processes and of each kind of thread of this one, and how long the GPU computes.
``research.bench.reading_gpu`` measures the network by itself.
"""

from __future__ import annotations

import itertools
import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from research.bench.measured import Findings
from research.bench.reading_gpu import images_of, processor_time, upload_batches
from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
from vsplade.encode.gpu.pipeline import finish
from vsplade.pages import FileProblem, SourceFile, render_for
from vsplade.types import Page


class Feed:
    """Pages until some seconds after the first ones; those count."""

    def __init__(
        self, encoder: TorchReaderEncoder, files: Sequence[str], workers: int, seconds: float
    ) -> None:
        self.encoder, self.files, self.workers, self.seconds = encoder, files, workers, seconds
        self.given, self.failed, self.waited = 0, 0, 0.0
        self.first = 0.0

    def __iter__(self) -> Iterator[Page]:
        named = (SourceFile(file, f"{n}") for n, file in enumerate(itertools.cycle(self.files)))
        rendered = render_for(self.encoder, named, workers=self.workers)
        try:
            while True:
                begun = time.perf_counter()
                result = next(rendered)
                now = time.perf_counter()
                self.waited += now - begun if self.first else 0.0
                self.first = self.first or now
                if isinstance(result, FileProblem):
                    self.failed += 1
                    continue
                self.given += 1
                yield result.page
                if time.perf_counter() > self.first + self.seconds:
                    return
        finally:
            rendered.close()


def children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def measured(feed: Feed, network: bool) -> dict[str, Any]:
    """Pages a second from the first page on, with the vectors or of the loaders alone."""
    own, theirs, threads, done, seen = time.process_time(), children(), dict[str, float](), 0, 1
    before = processor_time()
    for _ in feed.encoder.encode_pages(iter(feed)) if network else iter(feed):
        done += 1
        if done % 64 == 0:
            threads = {kind: spent - before.get(kind, 0.0) for kind, spent in processor_time().items()}
            seen = done
    spent = time.perf_counter() - feed.first
    found: dict[str, Any] = {"pages": done, "failed": feed.failed, "pages_per_s": round(done / spent, 1)}
    found["own_ms_a_page"] = round(1000 * (time.process_time() - own) / done, 2)
    found["loaders_ms_a_page"] = round(1000 * (children() - theirs) / done, 2)
    found["waited_for_pages_share"] = round(feed.waited / spent, 3)
    found["threads_ms_a_page"] = {k: round(1000 * v / seen, 2) for k, v in threads.items() if v > 0.001}
    return found


def gpu_milliseconds(encoder: TorchReaderEncoder, files: Sequence[str]) -> dict[str, float]:
    """A page's share of a batch, by itself, to vectors."""
    import torch

    batches = upload_batches(encoder, list(files), encoder.batch, 2)
    times = []
    with torch.inference_mode():
        for batch in batches * 4:
            begun = time.perf_counter()
            finish(encoder.vectors(batch))
            times.append((time.perf_counter() - begun) / batch.pages)
    return {"batch": encoder.batch, "ms_a_page": round(1000 * sorted(times)[len(times) // 2], 3)}


@dataclass(frozen=True)
class LoadingGpuOptions:
    folders: tuple[Path, ...] = option("Pages: PDFs or pictures; the first in full.", argument=True)
    out: Path = option("The results (.json).")
    device: str = option("As torch names it.", "cuda")
    workers: tuple[int, ...] = option("A number of processes to try.", (16, 1, 2, 4, 8))
    seconds: float = option("For each rate.", 4.0)
    limit: float = option("Seconds after which nothing new is begun.", 55.0)
    batch: int = option("Pages at a time; 0: what suits the GPU's memory.", 0)


def loading_gpu(options: LoadingGpuOptions) -> dict[str, Any]:
    """From PDF pages and scans to vectors on a GPU, by the number of loading processes."""
    encoder = load_encoder(f"reader:device={options.device}")
    assert isinstance(encoder, TorchReaderEncoder)
    encoder.batch = options.batch or encoder.batch
    found = Findings(options.out, options.limit)
    found |= {"processors": len(os.sched_getaffinity(0)), "device": str(encoder.device)}
    most = max(options.workers)
    asked = [(folder, most, network) for folder in options.folders for network in (True, False)]
    asked[2:2] = [(options.folders[0], n, True) for n in options.workers if n != most]

    def measure(folder: Path, workers: int, seconds: float, network: bool = True) -> dict[str, Any]:
        return measured(Feed(encoder, images_of(folder), workers, seconds), network)

    for folder in options.folders:  # the first pages of a shape take longer
        found.step(f"{folder.name}, warm-up", partial(measure, folder, most, 1.5))
    for folder, workers, network in asked:
        name = f"{folder.name}, {workers} loaders" + ("" if network else ", without the network")
        found.step(name, partial(measure, folder, workers, options.seconds, network))
    for folder in options.folders:
        name = f"{folder.name}, the network by itself"
        found.step(name, partial(gpu_milliseconds, encoder, images_of(folder)))
    return found


if __name__ == "__main__":
    main(loading_gpu, LoadingGpuOptions)
