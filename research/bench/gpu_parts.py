"""The parts of the reader's work on a GPU, measured one by one: batches that lie there to vectors."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch

from research.bench.measured import say
from vsplade.encode.gpu.batch import PageBatch
from vsplade.encode.gpu.batch_queue import SIDE
from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
from vsplade.encode.gpu.pipeline import StreamScheduler, finish
from vsplade.types import SparseVector


def synchronize(encoder: TorchReaderEncoder) -> None:
    if encoder.device.type == "cuda":
        torch.cuda.synchronize()


def model_only(
    encoder: TorchReaderEncoder,
    batches: list[PageBatch],
    seconds: float,
    scheduler: StreamScheduler[list[SparseVector]] | None = None,
) -> dict[str, float]:
    """The batches again and again, by ``scheduler`` or by the encoder's own."""
    answers, pages, begun = deque[Future[list[SparseVector]]](), 0, 0
    start, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() < start + seconds:
        answers.append(Future())
        (scheduler or encoder.scheduler).put(encoder.vectors(batches[begun % len(batches)]), answers[-1])
        begun += 1
        while answers and answers[0].done():
            pages += len(answers.popleft().result())
    pages += sum(len(answer.result()) for answer in answers)
    synchronize(encoder)
    wall = time.perf_counter() - start
    own = (time.process_time() - cpu) / pages * 1e3
    return {"pages": pages, "pages_per_s": round(pages / wall, 1), "own_ms_a_page": round(own, 3)}


def lanes(encoder: TorchReaderEncoder, batches: list[PageBatch], seconds: float) -> dict[str, Any]:
    """Model only with other numbers of batches under way, and the most memory that took."""
    measured: dict[str, Any] = {}
    for count in (1, 2, 3, 4, 6):
        scheduler = StreamScheduler[list[SparseVector]](
            [torch.cuda.Stream(encoder.device) for _ in range(count)]
        )
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model_only(encoder, batches, 0.5, scheduler)  # every stream's memory, and cuDNN for this thread
        measured[f"{count}"] = model_only(encoder, batches, seconds, scheduler) | {
            "memory_gb": round(torch.cuda.max_memory_reserved() / 1e9, 1)
        }
        scheduler.close()
    return measured


def stages(encoder: TorchReaderEncoder, batch: PageBatch, repeats: int) -> dict[str, float]:
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
        spent["picture"], whole = timed(lambda: batch.picture(SIDE).to(encoder.kind))
        dark = (255 - whole)[:, None] / 255
        spent["trunk_full_size"], _ = timed(lambda: encoder.trunk(dark))
        spent["find"], found = timed(lambda: finish(encoder.find(batch)))
        spent["vectors"], _ = timed(lambda: finish(encoder.vectors(batch)))
    return {key: round(value, 4) for key, value in spent.items()} | {
        "cells_a_page": round(len(found.em) / batch.pages, 1)
    }


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

    def take_counts(self) -> dict[str, float]:
        """Since it was last asked."""
        counts = {
            "calls": self.calls,
            "new_shapes": self.new,
            "new_shapes_s": round(self.first_s, 3),
            "other_calls_ms_each": round(self.other_s / max(1, self.calls - self.new) * 1e3, 3),
        }
        self.new, self.calls, self.first_s, self.other_s = 0, 0, 0.0, 0.0
        return counts


def compare(ours: Sequence[SparseVector], theirs: Sequence[SparseVector]) -> dict[str, float]:
    cosines, largest, shared, top = [], [0.0], [], []
    for a, b in zip(ours, theirs, strict=True):
        terms = np.union1d(a.terms, b.terms)
        x, y = np.zeros(len(terms)), np.zeros(len(terms))
        x[np.searchsorted(terms, a.terms)] = a.weights
        y[np.searchsorted(terms, b.terms)] = b.weights
        if len(terms):
            both = (x > 0) & (y > 0)
            cosines.append(float(x @ y) / max(1e-9, float(np.linalg.norm(x) * np.linalg.norm(y))))
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


def variants(
    encoder: TorchReaderEncoder, batches: list[PageBatch], seconds: float, both: bool
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


def kernels(encoder: TorchReaderEncoder, batch: PageBatch) -> dict[str, Any]:
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


def on_the_host(encoder: TorchReaderEncoder, batch: PageBatch) -> dict[str, Any]:
    """Where the time of the thread that starts the work goes: calls, milliseconds of a batch."""
    from torch.profiler import ProfilerActivity, profile

    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        finish(encoder.vectors(batch))
    rows = sorted(watched.key_averages(), key=lambda row: -row.self_cpu_time_total)
    return {row.key[:60]: [row.count, round(row.self_cpu_time_total / 1e3, 3)] for row in rows[:40]}


def searched(encoder: TorchReaderEncoder, batches: list[PageBatch], seconds: float) -> dict[str, Any]:
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
