"""The networks that spell single words, of several sizes side by side: trained on a GPU within a set time.

    python -m research.reader.speller --bundle FOLDER --out FOLDER --seconds 330

FOLDER holds fonts/, pdfs/, words.json and judges.npz. Worker processes draw
lines and cut words of PDFs all the while; all networks see the same batches. The rate falls to nothing by the
clock. Checkpoints are averages of the weights, written every minute.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from research.reader.speller_network import SIZES, SpellerNetwork
from research.reader.word_changes import changed, stretched
from research.reader.word_store import Batch, Store, Workers
from research.reader.word_supply import HEIGHT, WIDTHS
from vsplade.encode.reader.spelling import LETTERS, STEP

DRAWN = 0.68
"""Share of the pictures."""
WARM_UP = 300
"""Batches."""
FIRST = 25_000
"""Pictures that training begins with; after PATIENCE fewer are enough."""
PATIENCE = 30.0
"""Seconds."""
LAST = 10.0
"""Seconds that are kept for the last check and file."""
AVERAGED = 0.9985
"""Of the average of the weights, what stays at every batch."""


def smaller(x: Tensor, height: int) -> Tensor:
    """Pictures as networks of this height see them."""
    if height == x.shape[2]:
        return x
    size = (height, x.shape[3] * height // x.shape[2])
    return functional.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)


def frames_of(widths: Tensor, height: int) -> Tensor:
    return (torch.div(widths * height, HEIGHT, rounding_mode="floor") + 3) // STEP


class Learner:
    """The networks, their averages, and one optimiser for all."""

    def __init__(self, names: list[str], device: torch.device, rate: float, initial: Path | None) -> None:
        self.device, self.rate = device, rate
        self.networks: dict[str, SpellerNetwork] = {}
        for name in names:
            network = SpellerNetwork(SIZES[name])
            if initial is not None:
                network.load_state_dict(load_file(initial / f"{name}.safetensors"))
            self.networks[name] = network.to(device, memory_format=torch.channels_last)
        self.averages = {name: SpellerNetwork(SIZES[name]).to(device).eval() for name in names}
        for name, average in self.averages.items():
            average.load_state_dict(self.networks[name].state_dict())
        weights = [p for network in self.networks.values() for p in network.parameters()]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": 0.02},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, rate, (0.9, 0.98), fused=device.type == "cuda")
        self.step = 0
        states = [(self.averages[name].state_dict(), self.networks[name].state_dict()) for name in names]
        kept = [(ours[key], theirs[key]) for ours, theirs in states for key in ours]
        kept = [(our, their) for our, their in kept if our.is_floating_point()]
        self._ours, self._theirs = [our for our, _ in kept], [their for _, their in kept]

    def learn(self, batch: Batch, done: float) -> Tensor:
        """One batch; the loss of each network."""
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * min(1, self.step / WARM_UP) * (1 + math.cos(math.pi * done)) / 2
        most = (batch.pictures.shape[3] - 2) / batch.widths
        wider = torch.exp(torch.randn(len(batch.widths)) * 0.09).minimum(most)
        widths = (batch.widths * wider).long()
        with torch.no_grad():
            x = changed(stretched(batch.pictures, wider.to(self.device, non_blocking=True)))
            seen = {height: smaller(x, height) for height in {n.size.height for n in self.networks.values()}}
        all_logits, all_frames = [], []
        for network in self.networks.values():
            height = network.size.height
            with torch.autocast(self.device.type, torch.bfloat16):
                logits = network(seen[height].contiguous(memory_format=torch.channels_last))
            all_logits.append(logits.float().permute(2, 0, 1).log_softmax(-1))
            all_frames.append(frames_of(widths, height).clamp(max=logits.shape[2]))
        losses = self._losses(all_logits, all_frames, batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        for network in self.networks.values():
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        self.optimizer.step()
        self._average()
        return losses.detach()

    def _losses(self, logits: list[Tensor], frames: list[Tensor], batch: Batch) -> Tensor:
        """All networks' in one call, which waits for the GPU once."""
        longest = max(len(some) for some in logits)
        joined = torch.cat([functional.pad(some, (0, 0, 0, 0, 0, longest - len(some))) for some in logits], 1)
        count = len(logits)
        loss = functional.ctc_loss(
            joined, batch.letters.long().repeat(count, 1), torch.cat(frames), batch.lengths.repeat(count),
            reduction="none", zero_infinity=True,
        )  # fmt: skip
        lengths = batch.lengths.to(self.device, non_blocking=True).repeat(count)
        return (loss / lengths).view(count, -1).mean(1)

    @torch.no_grad()
    def _average(self) -> None:
        stays = min(AVERAGED, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(self._ours, self._theirs, 1 - stays)

    def save(self, out: Path) -> None:
        for name, average in self.averages.items():
            part = out / f"{name}.part"
            state = {
                key: value.detach().float().cpu().contiguous() for key, value in average.state_dict().items()
            }
            save_file(state, part)
            os.replace(part, out / f"{name}.safetensors")


def said(best: NDArray[np.int64]) -> str:
    """What one picture's likeliest letters say."""
    begins = (best > 0) & (best != np.concatenate([[0], best[:-1]]))
    return "".join(LETTERS[number - 1] for number in best[begins])


def judged(
    network: SpellerNetwork, shelf: dict[str, NDArray[Any]], device: torch.device
) -> Iterator[tuple[str, bool]]:
    """For each picture of a chunk, what it says and whether that is what the network reads."""
    height = network.size.height
    for number in range(len(WIDTHS)):
        if f"p{number}" not in shelf:
            continue
        x = torch.from_numpy(shelf[f"p{number}"]).to(device)[:, None].float() / 255
        with torch.no_grad():
            best = network(smaller(x, height)).argmax(1).cpu().numpy()
        frames = frames_of(torch.from_numpy(shelf[f"w{number}"].astype(np.int64)), height).tolist()
        for row, (letters, length) in enumerate(zip(shelf[f"t{number}"], shelf[f"l{number}"], strict=True)):
            true = "".join(LETTERS[letter - 1] for letter in letters[:length])
            yield true, said(best[row, : frames[row]]) == true


def kind_of(text: str) -> str:
    digits, letters = re.search("[0-9]", text), re.search("[a-z]", text)
    return "codes" if digits and letters else "numbers" if digits else "words"


def judge(learner: Learner, judges: dict[str, dict[str, NDArray[Any]]]) -> None:
    for name, network in learner.averages.items():
        parts = []
        for source, shelf in judges.items():
            right: dict[str, list[bool]] = {}
            for text, is_right in judged(network, shelf, learner.device):
                right.setdefault(kind_of(text), []).append(is_right)
                right.setdefault("all", []).append(is_right)
            found = ", ".join(f"{kind} {np.mean(right[kind]):.4f}" for kind in sorted(right))
            parts.append(f"{source}: {found}")
        print(f"  right, {name}: " + "; ".join(parts), flush=True)


def load_judges(path: Path) -> dict[str, dict[str, NDArray[Any]]]:
    judges: dict[str, dict[str, NDArray[Any]]] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            source, name = key.split("-")
            judges.setdefault(source, {})[name] = arrays[key]
    return judges


def train(given: argparse.Namespace, workers: Workers, began: float) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(given.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    learner = Learner(given.sizes.split(","), device, given.rate, given.initial)
    judges, store = load_judges(given.bundle / "judges.npz"), Store(device, given.most)
    print(f"{time.monotonic() - began:.1f} s: networks stand on {device}", flush=True)
    stand = time.monotonic()
    while (count := sum(store.came.values())) < given.first:
        waited = time.monotonic() - stand
        if waited > PATIENCE and count > given.batch:
            break
        if waited > 3 * PATIENCE:
            raise SystemExit(f"no pictures came in time: {store.came}")
        workers.bring(store, 64)
        time.sleep(0.05)
    begun, deadline = time.monotonic(), began + given.seconds - min(LAST, given.seconds / 4)
    print(f"{begun - began:.1f} s: training begins with {store.came}", flush=True)
    rng, told, seen, lately = random.Random(given.seed), begun, 0, 0
    saved_at = begun
    while (now := time.monotonic()) < deadline:
        workers.bring(store)
        batch = store.draw(given.batch, DRAWN, rng)
        losses = learner.learn(batch, (now - begun) / (deadline - begun))
        lately += len(batch.widths)
        if learner.step in (1, 10, 100) or now - told > 15:
            shown = " ".join(f"{loss:.3f}" for loss in losses.tolist())
            seen += lately
            rate, told = lately / (time.monotonic() - told), time.monotonic()
            print(
                f"{told - began:.0f} s: {learner.step} batches, {seen} pictures seen, {rate:.0f}/s; "
                f"came {store.came}; loss {shown}",
                flush=True,
            )
            lately = 0
        if now - saved_at > 60 and deadline - now > 15:
            learner.save(given.out)
            saved_at = time.monotonic()
            judge(learner, judges)
    learner.save(given.out)
    print(f"{time.monotonic() - began:.0f} s: written", flush=True)
    judge(learner, judges)
    print(f"{time.monotonic() - began:.0f} s: {learner.step} batches in all, came {store.came}", flush=True)


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=330.0, help="in all, from the start of the program")
    parser.add_argument("--sizes", default="slim,low,high,large")
    parser.add_argument("--initial", type=Path, help="a folder of checkpoints to go on from")
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--workers", type=int, default=max(2, (os.cpu_count() or 2) - 1))
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument(
        "--most", type=int, default=500_000, help="pictures of 48 px kept of a kind and width"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(dir=shared))
    workers = Workers(folder, given.bundle / "words.json")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        real = max(1, given.workers // 4)
        workers.start("real", sorted((given.bundle / "pdfs").glob("*.pdf")), real, 1000 + given.seed)
        faces = sorted((given.bundle / "fonts").iterdir())
        workers.start("drawn", faces, max(1, given.workers - real), 2000 + given.seed)
        workers.load()
        train(given, workers, began)
    finally:
        workers.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
