"""Pictures of words on a GPU, by kind and width: worker processes bring them, batches are drawn at random."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from research.reader.word_pictures import LONGEST_LABEL
from research.reader.word_supply import HEIGHT, WIDTHS

KINDS = ("drawn", "real")


class Shelf:
    """Pictures of one kind and about one width; the oldest make room where there are too many."""

    def __init__(self, width: int, device: torch.device, most: int) -> None:
        self.most, self.count, self.at = most, 0, 0
        self.pixels = torch.zeros((min(most, 1024), HEIGHT, width), dtype=torch.uint8, device=device)
        self.letters = torch.zeros((len(self.pixels), LONGEST_LABEL), dtype=torch.uint8, device=device)
        self.widths = np.zeros(most, np.int64)
        self.lengths = np.zeros(most, np.int64)

    def put(
        self, pixels: Tensor, letters: Tensor, widths: NDArray[np.int16], lengths: NDArray[np.uint8]
    ) -> None:
        n = min(len(pixels), self.most)
        if self.at + n > self.most:
            self.at = 0
        while self.at + n > len(self.pixels):
            more = min(len(self.pixels), self.most - len(self.pixels))
            self.pixels = torch.cat([self.pixels, torch.zeros_like(self.pixels[:more])])
            self.letters = torch.cat([self.letters, torch.zeros_like(self.letters[:more])])
        here = slice(self.at, self.at + n)
        self.pixels[here].copy_(pixels[:n], non_blocking=True)
        self.letters[here].copy_(letters[:n], non_blocking=True)
        self.widths[here], self.lengths[here] = widths[:n], lengths[:n]
        self.at += n
        self.count = max(self.count, self.at)


@dataclass
class Batch:
    pictures: Tensor  # (n, 1, HEIGHT, width), 0 to 1
    letters: Tensor  # (n, LONGEST_LABEL)
    widths: Tensor  # on the processor
    lengths: Tensor  # on the processor


class Store:
    def __init__(self, device: torch.device, most: int) -> None:
        self.device = device
        self.shelves = {
            kind: [Shelf(width, device, max(256, most * 48 // width)) for width in WIDTHS] for kind in KINDS
        }
        self.came = dict.fromkeys(KINDS, 0)

    def put(self, kind: str, chunk: dict[str, NDArray[np.uint8]]) -> None:
        for number, shelf in enumerate(self.shelves[kind]):
            if f"p{number}" in chunk:
                pixels, letters = (torch.from_numpy(chunk[f"{name}{number}"]) for name in "pt")
                shelf.put(pixels, letters, chunk[f"w{number}"].astype(np.int16), chunk[f"l{number}"])
                self.came[kind] += len(pixels)

    def draw(self, numbers: int, share: float, rng: random.Random) -> Batch:
        """About ``numbers`` pictures of 96 px, fewer of wider ones; ``share`` of them drawn."""
        sizes = [max(64, min(2 * numbers, numbers * 96 // width)) // 8 * 8 for width in WIDTHS]
        held = [sum(self.shelves[kind][number].count for kind in KINDS) for number in range(len(WIDTHS))]
        bucket = rng.choices(range(len(WIDTHS)), [h / s for h, s in zip(held, sizes, strict=True)])[0]
        drawn, real = (self.shelves[kind][bucket] for kind in KINDS)
        some = round(sizes[bucket] * (share if drawn.count and real.count else float(drawn.count > 0)))
        parts = [
            (shelf, np.random.default_rng(rng.getrandbits(32)).integers(0, shelf.count, count))
            for shelf, count in ((drawn, some), (real, sizes[bucket] - some))
            if count
        ]
        rows = [torch.from_numpy(at).to(self.device, non_blocking=True) for _, at in parts]
        pixels = torch.cat([shelf.pixels[at] for (shelf, _), at in zip(parts, rows, strict=True)])
        letters = torch.cat([shelf.letters[at] for (shelf, _), at in zip(parts, rows, strict=True)])
        room = -(-WIDTHS[bucket] // 32) * 4  # paper that wider ones grow into
        return Batch(
            functional.pad(pixels[:, None].float() / 255, (0, room)),
            letters,
            torch.from_numpy(np.concatenate([shelf.widths[at] for shelf, at in parts])),
            torch.from_numpy(np.concatenate([shelf.lengths[at] for shelf, at in parts])),
        )


@dataclass
class Workers:
    """Processes that draw and cut pictures, and a thread that loads what they leave in a folder."""

    folder: Path
    lists: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    loaded: queue.Queue[tuple[str, dict[str, NDArray[np.uint8]]]] = field(
        default_factory=lambda: queue.Queue(64)
    )
    stopped: threading.Event = field(default_factory=threading.Event)

    def start(self, kind: str, sources: Sequence[Path], count: int, seed: int) -> None:
        listed = self.folder / f"{kind}.json"
        listed.write_text(json.dumps([str(path) for path in sources]))
        for number in range(count):
            call = [sys.executable, "-m", "research.reader.word_supply", kind, str(self.folder)]
            call += ["--sources", str(listed), "--lists", str(self.lists), "--seed", str(seed + number)]
            self.running.append(subprocess.Popen(call))

    def load(self) -> None:
        threading.Thread(target=self._load, daemon=True).start()

    def _load(self) -> None:
        while not self.stopped.is_set():
            found = sorted(self.folder.glob("*.npz"))
            for path in found:
                with np.load(path, allow_pickle=False) as arrays:
                    chunk = {name: arrays[name] for name in arrays.files}
                path.unlink()
                self.loaded.put((path.name.split("-")[0], chunk))
            if not found:
                time.sleep(0.05)

    def bring(self, store: Store, most: int = 8) -> None:
        """Put what was loaded into the store, some at a time."""
        for _ in range(most):
            try:
                kind, chunk = self.loaded.get_nowait()
            except queue.Empty:
                return
            store.put(kind, chunk)

    def stop(self) -> None:
        self.stopped.set()
        for process in self.running:
            process.terminate()
