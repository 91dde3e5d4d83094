"""The reader on a GPU: ``python -m research.bench.reading_gpu DATASET_DIR... --json``.

- model only: pages that lie in the GPU's memory as grey bytes -> terms and weights in main memory
- loader only: image files -> grey pages in main memory, by the renderer's processes
- end to end: image files -> vectors; and -> an index on disk, which is all of ``vsplade index``
- agreement with onnxruntime on the CPU, over some pages, and NDCG@5 where the data set has questions

Warm-up and loading are timed apart. Each rate is of a few seconds of work; pages are read several times over
where a data set is too small for that.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from research.bench.gpu_parts import (
    Watched,
    compare,
    fused_convolutions,
    kernels,
    lanes,
    on_the_host,
    searched,
    stages,
    synchronize,
    variants,
)
from research.bench.measured import START, Findings, say
from research.command import main, option
from vsplade.encode import load_encoder
from vsplade.encode.gpu.batch import PageBatch
from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
from vsplade.encode.gpu.resize_torch import kernel_works
from vsplade.evaluate import PageVectors, evaluate_dataset
from vsplade.ingest import index_paths
from vsplade.pages import SourceFile, discover, render_for, usable
from vsplade.types import Encoder, Page, SparseVector


@dataclass
class ReadingGpuOptions:
    datasets: tuple[Path, ...] = option("Folders with images/, and queries and qrels or not.", argument=True)
    device: str = option("As torch names it.", "cuda")
    model: str = option("Folder of another model.", "")
    pages: int = option("For each rate from files.", 2000)
    seconds: float = option("For each rate of the model.", 2.0)
    cpu_pages: int = option("Read by onnxruntime too.", 48)
    workers: tuple[int, ...] = option("A number of processes to try; may be given several times.", ())
    cudnn_benchmark: bool = option("Let cuDNN try all its kernels first.", False)
    limit: float = option("Seconds after which nothing new is begun.", 55.0)
    batch: int = option("Pages at a time; 0: what suits the GPU's memory.", 0)
    profile: bool = option("Also kernels, and the host's calls.", False)
    plain: bool = option("Also the network without fused kernels.", False)
    output: Path | None = option("A file that is written after every step.", None)


def images_of(dataset: Path) -> list[str]:
    folder = dataset / "images" if (dataset / "images").is_dir() else dataset
    return discover([folder]).files


def sources(files: Sequence[str], pages: int) -> list[SourceFile]:
    """As many pages as asked for, over and over, each under a name of its own."""
    return [SourceFile(files[n % len(files)], f"{n}") for n in range(pages)]


def pages_of(encoder: Encoder, files: Sequence[SourceFile], workers: int | None) -> Iterator[Page]:
    return (item.page for item in usable(render_for(encoder, files, workers=workers)))


def processor_time() -> dict[str, float]:
    """Seconds that each kind of thread of this process has computed so far (on Linux)."""
    spent: dict[str, float] = {}
    for thread in threading.enumerate():
        kind = re.sub(r"[-_ ]?\d.*", "", thread.name)
        with suppress(OSError):  # it has just ended
            nanoseconds = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]
            spent[kind] = spent.get(kind, 0.0) + int(nanoseconds) / 1e9
    return spent


def rate(work: Callable[[], Iterator[object]]) -> dict[str, Any]:
    """Pages a second, from the start and without the time to the first page; and this process's own time."""
    wall, cpu = time.perf_counter(), time.process_time()
    first, count = wall, 0
    threads: dict[str, float] = {}
    before = processor_time()
    for _ in work():
        first = first if count else time.perf_counter()
        count += 1
        if count % 100 == 0:  # while they live
            threads = {name: spent - before.get(name, 0.0) for name, spent in processor_time().items()}
            seen = count
    end = time.perf_counter()
    return {
        "pages": count,
        "pages_per_s": round(count / (end - wall), 1),
        "pages_per_s_after_first": round((count - 1) / max(1e-9, end - first), 1),
        "own_ms_a_page": round((time.process_time() - cpu) / count * 1e3, 3),
        "of_threads": {name: round(spent / seen * 1e3, 3) for name, spent in threads.items()},
    }


def upload_batches(
    encoder: TorchReaderEncoder, files: Sequence[str], size: int, count: int
) -> list[PageBatch]:
    """Batches of pages of one shape, as ``encode_pages`` makes them."""
    shapes: dict[tuple[int, int], list[Image.Image]] = {}
    batches: list[PageBatch] = []
    for page in pages_of(encoder, sources(files, len(files)), None):
        same = shapes.setdefault(encoder.shape(page.image), [])
        same.append(page.image)
        if len(same) == size:
            with torch.inference_mode():
                batches.append(encoder.send(encoder.pack(same)))
            same.clear()
            if len(batches) == count:
                break
    if not batches:
        with torch.inference_mode():
            batches.append(encoder.send(encoder.pack(max(shapes.values(), key=len))))
    synchronize(encoder)
    return batches


def ndcg(dataset: Path, encoder: Any, vectors: dict[str, SparseVector]) -> float:
    found = evaluate_dataset(dataset, encoder, vectors=PageVectors.collect(vectors.items()))
    return round(found.measures["ndcg@5"], 4)


def into_index(encoder: Any, files: Sequence[str], pages: int, workers: int | None) -> dict[str, float]:
    """``vsplade index`` itself, over links to the files."""
    with tempfile.TemporaryDirectory() as folder:
        linked = Path(folder) / "pages"
        linked.mkdir()
        for n in range(pages):
            (linked / f"{n}{Path(files[0]).suffix}").symlink_to(files[n % len(files)])
        report = index_paths([linked], Path(folder) / "index", encoder, workers=workers)
    return {"pages": report.pages, "pages_per_s": round(report.pages_per_s, 1), "failed": report.failed}


class Report:
    """Step after step, the most wanted first; what is done is on disk, whatever happens next."""

    def __init__(self, options: ReadingGpuOptions) -> None:
        self.options = options
        begun = time.perf_counter()
        name = f"reader:device={options.device}" + (f",model={options.model}" if options.model else "")
        encoder = load_encoder(name)
        assert isinstance(encoder, TorchReaderEncoder)
        self.encoder = encoder
        options.batch = encoder.batch = options.batch or encoder.batch
        cuda = encoder.device.type == "cuda"
        self.found = Findings(options.output, options.limit)
        self.found |= {
            "device": torch.cuda.get_device_name() if cuda else "CPU",
            "torch": torch.__version__,
            "processors": len(os.sched_getaffinity(0)),
            "network": encoder._config["network"],
            "load_s": round(time.perf_counter() - begun, 2),
            "batch": options.batch,
            "filter_kernel": cuda and kernel_works(encoder.device),
            "fused": fused_convolutions(encoder),
        }
        say("loaded", self.found)

    def run(self) -> None:
        for dataset in self.options.datasets:
            self.model(dataset.name, images_of(dataset))
        for dataset in self.options.datasets:
            self.files(dataset.name, images_of(dataset))
        for dataset in self.options.datasets:
            self.found.step(f"{dataset.name} agreement", lambda: self.agreement(dataset))  # noqa: B023
        files = images_of(self.options.datasets[0])
        self.found.step("into_index", lambda: into_index(self.encoder, files, self.options.pages, None))
        if self.encoder.device.type == "cuda":
            batches = upload_batches(self.encoder, files, self.options.batch, 2)
            self.found.step("lanes", lambda: lanes(self.encoder, batches, self.options.seconds / 2))
            self.found.step(
                "model_only searched", lambda: searched(self.encoder, batches, self.options.seconds)
            )
        self.found["seconds"] = round(time.perf_counter() - START, 1)

    def model(self, name: str, files: list[str]) -> None:
        options, encoder, step = self.options, self.encoder, self.found.step
        seconds, plain = options.seconds, options.plain
        batches = upload_batches(encoder, files, options.batch, 3)
        step(f"{name} model_only", lambda: variants(encoder, batches, seconds, plain))
        if options.profile:
            step(f"{name} kernels", lambda: kernels(encoder, batches[0]))
            step(f"{name} host", lambda: on_the_host(encoder, batches[0]))
        step(f"{name} stages", lambda: stages(encoder, batches[0], 10 if seconds > 1 else 1))

    def files(self, name: str, files: list[str]) -> None:
        options, encoder = self.options, self.encoder
        wanted = sources(files, options.pages)
        plain, watched = encoder.trunk, Watched(encoder.trunk)
        encoder.trunk = watched
        for _ in encoder.encode_pages(pages_of(encoder, wanted[: len(wanted) // 5], None)):
            pass  # every shape of page once: the first of each takes longer
        self.found[f"{name} warm_up"] = watched.take_counts()
        for workers in options.workers or (None,):
            suffix = f" {workers} workers" if workers else ""
            work = functools.partial(pages_of, encoder, wanted, workers)
            self.found.step(
                f"{name} end_to_end{suffix}",
                lambda: rate(lambda: encoder.encode_pages(work())) | {"network": watched.take_counts()},  # noqa: B023
            )
        encoder.trunk = plain
        self.found.step(f"{name} loader_only", lambda: rate(lambda: pages_of(encoder, wanted, None)))

    def agreement(self, dataset: Path) -> dict[str, Any]:
        """All pages on the GPU for NDCG, some on the CPU for the difference."""
        options, encoder, files = self.options, self.encoder, images_of(dataset)
        few = files[:: max(1, len(files) // options.cpu_pages)][: options.cpu_pages]
        plain = load_encoder("reader" + (f":model={options.model}" if options.model else ""))
        theirs: list[SparseVector] = []
        beside = threading.Thread(
            target=lambda: theirs.extend(plain.encode_pages(pages_of(plain, sources(few, len(few)), 2)))
        )
        beside.start()
        known = (dataset / "queries.jsonl.gz").is_file()
        wanted = files if known else few
        listed = [SourceFile(file, Path(file).stem) for file in wanted]
        answers = encoder.encode_pages(pages_of(encoder, listed, None))
        made = dict(zip((file.doc_id for file in listed), answers, strict=True))
        beside.join()
        result: dict[str, Any] = compare([made[Path(file).stem] for file in few], theirs)
        if known:
            result["ndcg_at_5"] = ndcg(dataset, plain, made)
        return result


def reading_gpu(options: ReadingGpuOptions) -> dict[str, Any]:
    """The reader on a GPU: the network alone, the loader alone, from files to vectors, into an index."""
    torch.backends.cudnn.benchmark = options.cudnn_benchmark
    report = Report(options)
    report.run()
    return report.found


if __name__ == "__main__":
    main(reading_gpu, ReadingGpuOptions)
