"""The reader on a GPU: ``python -m research.bench.reading_gpu DATASET_DIR... --json``.

- model only: pages that lie in the GPU's memory as grey bytes -> terms and weights in main memory
- loader only: image files -> grey pages in main memory, by the renderer's processes
- end to end: image files -> vectors; and -> an index on disk, which is all of ``vsplade index``
- agreement with onnxruntime on the CPU, over some pages, and NDCG@5 where the data set has questions

Warm-up and loading are timed apart. Each rate is of a few seconds of work; pages are read several times over
where a data set is too small for that.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vsplade.encode import load_encoder
from vsplade.encode.gpu import gpu_reader as reading
from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
from vsplade.encode.gpu.pipeline import Turns, finish
from vsplade.encode.gpu.resize_torch import kernel_works
from vsplade.evaluate import PageVectors, evaluate_dataset
from vsplade.pages import FileProblem, SourceFile, discover, render_for
from vsplade.types import Page, SparseVector

START = time.perf_counter()


def say(*words: object) -> None:
    print(
        f"{time.strftime('%H:%M:%S')} {time.perf_counter() - START:6.1f} s",
        *words,
        file=sys.stderr,
        flush=True,
    )


def images_of(dataset: Path) -> list[str]:
    folder = dataset / "images" if (dataset / "images").is_dir() else dataset
    return discover([folder]).files


def sources(files: Sequence[str], pages: int) -> list[SourceFile]:
    """As many pages as asked for, over and over, each under a name of its own."""
    return [SourceFile(files[n % len(files)], f"{n}") for n in range(pages)]


def pages_of(encoder: Any, files: list[SourceFile], workers: int | None) -> Iterator[Page]:
    for result in render_for(encoder, files, workers=workers):
        if isinstance(result, FileProblem):
            sys.exit(f"{result.path}: {result.reason}")
        yield result.page


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


def synchronize(encoder: TorchReaderEncoder) -> None:
    if encoder.device.type == "cuda":
        torch.cuda.synchronize()


def model_only(
    encoder: TorchReaderEncoder,
    batches: list[reading.PageBatch],
    seconds: float,
    turns: Turns[list[SparseVector]] | None = None,
) -> dict[str, float]:
    """The batches again and again, as many at a time as the encoder itself has under way, or ``turns``."""
    answers, pages, turn = deque[Future[list[SparseVector]]](), 0, 0
    start, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() < start + seconds:
        answers.append(Future())
        (turns or encoder.turns).put(encoder.vectors(batches[turn % len(batches)]), answers[-1])
        turn += 1
        while answers and answers[0].done():
            pages += len(answers.popleft().result())
    pages += sum(len(answer.result()) for answer in answers)
    synchronize(encoder)
    wall = time.perf_counter() - start
    own = (time.process_time() - cpu) / pages * 1e3
    return {"pages": pages, "pages_per_s": round(pages / wall, 1), "own_ms_a_page": round(own, 3)}


def lanes(encoder: TorchReaderEncoder, batches: list[reading.PageBatch], seconds: float) -> dict[str, Any]:
    """Model only with other numbers of batches under way, and the most memory that took."""
    measured: dict[str, Any] = {}
    for count in (1, 2, 3, 4, 6):
        turns = Turns[list[SparseVector]]([torch.cuda.Stream(encoder.device) for _ in range(count)])
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model_only(encoder, batches, 0.5, turns)  # every stream's memory, and cuDNN for this thread
        measured[f"{count}"] = model_only(encoder, batches, seconds, turns) | {
            "memory_gb": round(torch.cuda.max_memory_reserved() / 1e9, 1)
        }
        turns.close()
    return measured


def stages(encoder: TorchReaderEncoder, batch: reading.PageBatch, repeats: int) -> dict[str, float]:
    """Milliseconds a page of each part of the work, one after the other on one stream."""

    def timed(work: Callable[[], Any]) -> tuple[float, Any]:
        result = work()
        synchronize(encoder)
        start = time.perf_counter()
        for _ in range(repeats):
            result = work()
        synchronize(encoder)
        return (time.perf_counter() - start) / repeats / batch.pages * 1e3, result

    spent: dict[str, float] = {}
    with torch.inference_mode():
        spent["picture"], whole = timed(lambda: batch.picture(reading.SIDE).to(encoder.kind))
        dark = (255 - whole)[:, None] / 255
        spent["trunk_full_size"], _ = timed(lambda: encoder.trunk(dark))
        spent["find"], found = timed(lambda: finish(encoder.find(batch)))
        spent["vectors"], _ = timed(lambda: finish(encoder.vectors(batch)))
    return {key: round(value, 4) for key, value in spent.items()} | {
        "cells_a_page": round(len(found.em) / batch.pages, 1)
    }


def upload_batches(
    encoder: TorchReaderEncoder, files: Sequence[str], size: int, count: int
) -> list[reading.PageBatch]:
    """Batches of pages of one shape, as ``encode_pages`` makes them."""
    shapes: dict[tuple[int, int], list[Image.Image]] = {}
    batches: list[reading.PageBatch] = []
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


def fused_convolutions(encoder: TorchReaderEncoder) -> int:
    graph = getattr(encoder.trunk, "graph", None)
    return 0 if graph is None else sum("convolve" in str(node.target) for node in graph.nodes)


class Watched:
    """A network that counts the shapes it is called with, and the time until the first call of each returns:
    that is cuDNN preparing for it.
    """

    def __init__(self, trunk: Callable[[torch.Tensor], Any]) -> None:
        self.trunk = trunk
        self.shapes: dict[tuple[int, ...], int] = {}
        self.new, self.calls, self.first_s, self.other_s = 0, 0, 0.0, 0.0

    def __call__(self, picture: torch.Tensor) -> Any:
        shape, begun = tuple(picture.shape), time.perf_counter()
        result = self.trunk(picture)
        spent, known = time.perf_counter() - begun, shape in self.shapes
        self.shapes[shape] = self.shapes.get(shape, 0) + 1
        self.calls += 1
        self.new += not known
        self.first_s, self.other_s = self.first_s + spent * (not known), self.other_s + spent * known
        return result

    def told(self) -> dict[str, float]:
        """Since it was last asked."""
        told = {
            "calls": self.calls,
            "new_shapes": self.new,
            "new_shapes_s": round(self.first_s, 3),
            "other_calls_ms_each": round(self.other_s / max(1, self.calls - self.new) * 1e3, 3),
        }
        self.new, self.calls, self.first_s, self.other_s = 0, 0, 0.0, 0.0
        return told


def compare(ours: Sequence[SparseVector], theirs: Sequence[SparseVector]) -> dict[str, float]:
    cosines, largest, shared, top = [], [0.0], [], []
    for a, b in zip(ours, theirs, strict=True):
        terms = np.union1d(a.terms, b.terms)
        x, y = np.zeros(len(terms)), np.zeros(len(terms))
        x[np.searchsorted(terms, a.terms)] = a.weights
        y[np.searchsorted(terms, b.terms)] = b.weights
        if len(terms):
            both = (x > 0) & (y > 0)
            cosines.append(float(x @ y / max(1e-9, np.linalg.norm(x) * np.linalg.norm(y))))
            largest.append(float(np.abs(x - y)[both].max(initial=0)))
            shared.append(float(both.mean()))
            top.append(
                len(np.intersect1d(a.top(30).terms, b.top(30).terms)) / max(1, min(30, len(a), len(b)))
            )
    return {
        "pages": len(ours),
        "cosine_mean": round(float(np.mean(cosines)), 5),
        "cosine_least": round(min(cosines), 5),
        "largest_difference_of_a_shared_term": round(max(largest), 4),
        "share_of_terms_in_both": round(float(np.mean(shared)), 4),
        "share_of_top_30_in_both": round(float(np.mean(top)), 4),
    }


def ndcg(dataset: Path, encoder: Any, vectors: dict[str, SparseVector]) -> float:
    found = evaluate_dataset(dataset, encoder, vectors=PageVectors.collect(vectors.items()))
    return round(found.measures["ndcg@5"], 4)


def into_index(encoder: Any, files: Sequence[str], pages: int, workers: int | None) -> dict[str, float]:
    """``vsplade index`` itself, over links to the files."""
    from vsplade.ingest import index_paths

    with tempfile.TemporaryDirectory() as folder:
        linked = Path(folder) / "pages"
        linked.mkdir()
        for n in range(pages):
            (linked / f"{n}{Path(files[0]).suffix}").symlink_to(files[n % len(files)])
        report = index_paths([linked], Path(folder) / "index", encoder, workers=workers)
    return {"pages": report.pages, "pages_per_s": round(report.pages_per_s, 1), "failed": report.failed}


def variants(
    encoder: TorchReaderEncoder, batches: list[reading.PageBatch], seconds: float, both: bool
) -> dict[str, Any]:
    """Model only, with and without fused kernels; the encoder keeps the faster one that works."""
    fused, plain = encoder.trunk, encoder.network.trunk
    measured: dict[str, Any] = {}
    best: tuple[float, Any] = (0.0, plain)
    reference: list[SparseVector] | None = None
    for name, trunk in (("plain", plain), ("fused", fused)) if both else (("fused", fused),):
        encoder.trunk = trunk
        try:
            begun = time.perf_counter()
            with torch.inference_mode():
                made, *_ = [finish(encoder.vectors(batch)) for batch in batches]
            warm = time.perf_counter() - begun
            model_only(encoder, batches, min(0.5, seconds))  # every stream's memory
            measured[name] = model_only(encoder, batches, seconds) | {"warm_up_s": round(warm, 2)}
            if reference is None:
                reference = made
            else:
                measured[name]["against_plain"] = compare(made, reference)
        except RuntimeError as error:
            measured[name] = {"failed": str(error)[:500]}
            continue
        say("model only,", name, json.dumps(measured[name]))
        best = max(best, (measured[name]["pages_per_s"], trunk), key=lambda pair: pair[0])
    encoder.trunk = best[1]
    return measured


def kernels(encoder: TorchReaderEncoder, batch: reading.PageBatch) -> dict[str, Any]:
    """Where the GPU's time goes: the longest kernels, milliseconds a page; how often it was called."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CUDA]
    with torch.inference_mode(), profile(activities=activities) as watched:
        finish(encoder.vectors(batch))
        torch.cuda.synchronize()
    rows = sorted(watched.key_averages(), key=lambda row: -row.self_device_time_total)
    listed = {
        row.key[:90]: [row.count, round(row.self_device_time_total / 1e3 / batch.pages, 4)]
        for row in rows[:20]
    }
    return {
        "ms_a_page": round(sum(row.self_device_time_total for row in rows) / 1e3 / batch.pages, 4),
        "kernels": sum(row.count for row in rows if row.self_device_time_total),
        "calls": {row.key: row.count for row in rows if row.key.startswith("cu")},
        "longest": listed,
    }


def on_the_host(encoder: TorchReaderEncoder, batch: reading.PageBatch) -> dict[str, Any]:
    """Where the time of the thread that starts the work goes: calls, milliseconds of a batch."""
    from torch.profiler import ProfilerActivity, profile

    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        finish(encoder.vectors(batch))
    rows = sorted(watched.key_averages(), key=lambda row: -row.self_cpu_time_total)
    return {row.key[:60]: [row.count, round(row.self_cpu_time_total / 1e3, 3)] for row in rows[:40]}


def searched(encoder: TorchReaderEncoder, batches: list[reading.PageBatch], seconds: float) -> dict[str, Any]:
    """Model only, with cuDNN trying all its kernels first."""
    torch.backends.cudnn.benchmark = True
    try:
        begun = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                finish(encoder.vectors(batch))
        warm = time.perf_counter() - begun
        return model_only(encoder, batches, seconds) | {"search_s": round(warm, 2)}
    finally:
        torch.backends.cudnn.benchmark = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "datasets", nargs="+", type=Path, help="folders with images/, and queries and qrels or not"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="", help="folder of another model")
    parser.add_argument("--pages", type=int, default=2000, help="for each rate from files")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each rate of the model")
    parser.add_argument("--cpu-pages", type=int, default=48, help="read by onnxruntime too")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="numbers of processes to try")
    parser.add_argument("--cudnn-benchmark", action="store_true")
    parser.add_argument("--limit", type=float, default=55.0, help="seconds after which nothing new is begun")
    parser.add_argument("--batch", type=int, help="pages at a time; left out, what suits the GPU's memory")
    parser.add_argument("--profile", action="store_true", help="also kernels, and the host's calls")
    parser.add_argument("--plain", action="store_true", help="also the network without fused kernels")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path, help="a file that is written after every step")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = options.cudnn_benchmark
    report = Report(options)
    report.run()
    print(json.dumps(report.found) if options.json else json.dumps(report.found, indent=2))


class Report:
    """Step after step, the most wanted first; what is done is on disk, whatever happens next."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        begun = time.perf_counter()
        name = f"reader:device={options.device}" + (f",model={options.model}" if options.model else "")
        self.encoder = load_encoder(name)
        assert isinstance(self.encoder, TorchReaderEncoder)
        options.batch = self.encoder.batch = options.batch or self.encoder.batch
        cuda = self.encoder.device.type == "cuda"
        self.found: dict[str, Any] = {
            "device": torch.cuda.get_device_name() if cuda else "CPU",
            "torch": torch.__version__,
            "processors": len(os.sched_getaffinity(0)),
            "network": self.encoder._config["network"],
            "load_s": round(time.perf_counter() - begun, 2),
            "batch": options.batch,
            "filter_kernel": cuda and kernel_works(self.encoder.device),
            "fused": fused_convolutions(self.encoder),
        }
        say("loaded", self.found)

    def step(self, name: str, work: Callable[[], Any]) -> None:
        if time.perf_counter() - START > self.options.limit:
            self.found[name] = {"skipped": "no time left"}
        else:
            begun = time.perf_counter()
            try:
                self.found[name] = work()
            except Exception as error:  # the other numbers are still wanted
                self.found[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
            say(name, f"({time.perf_counter() - begun:.1f} s)", json.dumps(self.found[name]))
        if self.options.output:
            self.options.output.write_text(json.dumps(self.found, indent=1))

    def run(self) -> None:
        for dataset in self.options.datasets:
            self.model(dataset.name, images_of(dataset))
        for dataset in self.options.datasets:
            self.files(dataset.name, images_of(dataset))
        for dataset in self.options.datasets:
            self.step(f"{dataset.name} agreement", lambda: self.agreement(dataset))  # noqa: B023
        files = images_of(self.options.datasets[0])
        self.step("into_index", lambda: into_index(self.encoder, files, self.options.pages, None))
        if self.encoder.device.type == "cuda":
            batches = upload_batches(self.encoder, files, self.options.batch, 2)
            self.step("lanes", lambda: lanes(self.encoder, batches, self.options.seconds / 2))
            self.step("model_only searched", lambda: searched(self.encoder, batches, self.options.seconds))
        self.found["seconds"] = round(time.perf_counter() - START, 1)

    def model(self, name: str, files: list[str]) -> None:
        options, encoder = self.options, self.encoder
        batches = upload_batches(encoder, files, options.batch, 3)
        self.step(f"{name} model_only", lambda: variants(encoder, batches, options.seconds, options.plain))
        if options.profile:
            self.step(f"{name} kernels", lambda: kernels(encoder, batches[0]))
            self.step(f"{name} host", lambda: on_the_host(encoder, batches[0]))
        self.step(f"{name} stages", lambda: stages(encoder, batches[0], 10 if options.seconds > 1 else 1))

    def files(self, name: str, files: list[str]) -> None:
        options, encoder = self.options, self.encoder
        wanted = sources(files, options.pages)
        plain, watched = encoder.trunk, Watched(encoder.trunk)
        encoder.trunk = watched
        for _ in encoder.encode_pages(pages_of(encoder, wanted[: len(wanted) // 5], None)):
            pass  # every shape of page once: the first of each takes longer
        self.found[f"{name} warm_up"] = watched.told()
        for workers in options.workers or [None]:
            suffix = f" {workers} workers" if workers else ""
            work = functools.partial(pages_of, encoder, wanted, workers)
            self.step(
                f"{name} end_to_end{suffix}",
                lambda: rate(lambda: encoder.encode_pages(work())) | {"network": watched.told()},  # noqa: B023
            )
        encoder.trunk = plain
        self.step(f"{name} loader_only", lambda: rate(lambda: pages_of(encoder, wanted, None)))

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


if __name__ == "__main__":
    main()
