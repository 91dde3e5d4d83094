"""Batches without waiting: windows are made on a stream of their own while the last batch is trained on."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from research.reader.degrade import degrade
from research.reader.realpages import PagePool, RealPage
from research.reader.synthesis import Synthesis
from research.reader.targets import Targets, build_targets
from research.reader.typeset import Labels
from vsplade.errors import InputError


@dataclass(frozen=True)
class WindowBatch:
    pictures: Tensor  # (windows, SIZE, SIZE) darkness
    targets: Targets
    synthetic: int  # the first so many windows are drawn, the rest cut from real pages

    def tensors(self) -> list[Tensor]:
        return [self.pictures, *(getattr(self.targets, f.name) for f in fields(self.targets))]


class GrowingPool:
    """A page pool that is usable after the first pages and is rebuilt as more of them are rendered."""

    def __init__(
        self,
        pages: Iterable[RealPage],
        device: torch.device,
        steps: tuple[int, ...],
        say: Callable[[str], None] = print,
    ) -> None:
        self.pool: PagePool | None = None
        self._say = say
        self._error: Exception | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._collect, args=(pages, device, steps), daemon=True)
        self._thread.start()

    def _collect(self, pages: Iterable[RealPage], device: torch.device, steps: tuple[int, ...]) -> None:
        held: list[RealPage] = []
        try:
            for page in pages:
                held.append(page)
                if len(held) in steps:
                    self.pool = PagePool(held, device)
                    self._ready.set()
                    self._say(f"real pages: {len(held)}")
            if held:
                self.pool = PagePool(held, device)
                self._say(f"real pages: {len(held)}, all")
        except Exception as error:  # handed to whoever waits for the pages
            self._error = error
        finally:
            self._ready.set()

    def wait(self) -> PagePool:
        """The first pages; an error while they were read is raised here, not lost on its thread."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        if self.pool is None:
            raise InputError("None of the PDFs has pages with a text layer. Give others, or train without.")
        return self.pool


@dataclass(frozen=True)
class Windows:
    """As they were drawn and cut, before wear."""

    pictures: Tensor
    labels: Labels
    synthetic: int

    def worn(self, plain: bool = False) -> WindowBatch:
        """Another picture of the same words each time; ``plain`` leaves them as they are."""
        pictures = self.pictures if plain else degrade(self.pictures.clone())
        return WindowBatch(pictures, build_targets(self.labels, pictures), self.synthetic)


def make_windows(synthesis: Synthesis, pool: PagePool | None, windows: int, real_share: float) -> Windows:
    real = int(windows * real_share) if pool is not None else 0
    pictures, labels = synthesis.windows(windows - real)
    if pool is not None and real:
        cut, cut_labels = pool.windows(real)
        labels = Labels.join(labels, cut_labels, windows - real)
        pictures = torch.cat([pictures, cut])
    return Windows(pictures, labels, windows - real)


class Supply:
    """Calls ``make`` with the number of each batch on a thread; on a GPU also on a stream of its own."""

    def __init__(
        self, make: Callable[[int], WindowBatch], device: torch.device, first: int = 0, depth: int = 3
    ) -> None:
        self._make, self._device, self._numbers = make, device, itertools.count(first)
        self._queue: queue.Queue[tuple[WindowBatch, torch.cuda.Event | None] | BaseException] = queue.Queue(
            depth
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
            while not self._stop.is_set():
                if stream is None:
                    self._queue.put((self._make(next(self._numbers)), None))
                    continue
                with torch.cuda.stream(stream), torch.no_grad():
                    batch = self._make(next(self._numbers))
                    event = torch.cuda.Event()
                    event.record(stream)
                self._queue.put((batch, event))
        except BaseException as error:  # handed to the consumer, which raises it
            self._queue.put(error)

    def next(self) -> WindowBatch:
        item = self._queue.get()
        if isinstance(item, BaseException):
            raise item
        batch, event = item
        if event is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(event)
            for tensor in batch.tensors():
                tensor.record_stream(current)
        return batch

    def close(self) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.1)
            except queue.Empty:
                continue
