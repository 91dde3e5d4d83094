"""The network that spells single words: drawn, trained and exported in one command, on a processor.

Convolutions see a word's picture, more of them look along it, and every second column of pixels says a letter
or none (connectionist temporal classification). It trains in bfloat16 and ships in 8 bits.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn
from torch.nn import functional

from research.command import main
from research.reader.options import SpellerOptions
from research.reader.word_pictures import Labelled, drawn_pictures, real_pictures
from vsplade.cli.common import note
from vsplade.encode.reader.spelling import LETTERS, STEP
from vsplade.encode.reader.word_crops import HEIGHT
from vsplade.errors import InputError

BATCH = 128
CHUNK = 24
"""Batches whose pictures are put in the order of their widths together."""
DRAWN = 0.68
"""Share of the pictures."""
WARM_UP = 150
"""Batches."""
CALIBRATION = 512
"""Pictures that the 8-bit ranges are measured on."""
KEPT_OUT = 12
"""Every so many faces and PDFs are kept out of training, to judge on."""


class Along(nn.Module):
    """A convolution along the word, added to what it saw."""

    def __init__(self, width: int, apart: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, (1, 3), padding=(0, apart), dilation=(1, apart), bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x + self.norm(self.conv(x)))


def _seeing(inputs: int, outputs: int, kernel: int, stride: Any, padding: Any) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class SpellerNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(
            _seeing(1, 24, 5, STEP, 2),
            _seeing(24, 48, 3, (2, 1), 1),
            _seeing(48, 64, 3, (2, 1), 1),
            _seeing(64, 128, 3, 1, (0, 1)),  # the three rows that are left become one
        )
        self.spell = nn.Sequential(Along(128, 1), Along(128, 2), Along(128, 1))
        self.out = nn.Conv2d(128, len(LETTERS) + 1, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """(words, 1, HEIGHT, width), ink 1 and paper 0, to logits (words, letters, frames)."""
        logits: Tensor = self.out(self.spell(self.see(pictures)))
        return logits.squeeze(2)


class _Chances(nn.Module):
    def __init__(self, network: SpellerNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, pictures: Tensor) -> Tensor:
        return self.network(pictures).softmax(1)


@dataclass
class Pictures:
    """Labelled pictures, a column of pixels after the other."""

    pixels: NDArray[np.uint8]
    widths: NDArray[np.int64]
    labels: list[list[int]]

    @classmethod
    def of(cls, some: Iterator[Labelled]) -> Pictures:
        columns, widths, labels = bytearray(), [], []
        for picture, label in some:
            columns += np.ascontiguousarray(picture.T).tobytes()
            widths.append(picture.shape[1])
            labels.append([LETTERS.index(letter) + 1 for letter in label])
        return cls(np.frombuffer(columns, np.uint8).reshape(-1, HEIGHT), np.array(widths, np.int64), labels)

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Tensor, list[list[int]]]:
        """Pictures with paper beside the narrower ones, their widths, and what they say."""
        widths, ends = self.widths[list(rows)], self.widths.cumsum()
        pixels = np.zeros((len(rows), -(-(int(widths.max()) + 4) // 4) * 4, HEIGHT), np.uint8)
        for at, row in enumerate(rows):
            pixels[at, : widths[at]] = self.pixels[ends[row] - widths[at] : ends[row]]
        pictures = torch.from_numpy(pixels).transpose(1, 2)[:, None].float() / 255
        return pictures, torch.from_numpy(widths), [self.labels[row] for row in rows]


def varied(x: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures a little wider, higher, slanted, shifted, bolder, thinner, blurred, noisy; and how much wider
    each is.
    """
    n, _, height, width = x.shape
    wider = torch.exp(torch.randn(n) * 0.08)
    move = torch.zeros(n, 2, 3)
    move[:, 0, 0], move[:, 1, 1] = 1 / wider, torch.exp(torch.randn(n) * 0.05)
    move[:, 0, 1], move[:, 1, 0] = (
        torch.randn(n) * 0.1 * height / width,
        torch.randn(n) * 0.008 * width / height,
    )
    move[:, 0, 2] = 1 / wider - 1 + torch.randn(n) * 2 / width
    move[:, 1, 2] = torch.randn(n) * 1.4 / height + move[:, 1, 0] / 2
    grid = functional.affine_grid(move, list(x.shape), align_corners=False)
    x = functional.grid_sample(x, grid, align_corners=False)
    changes: list[Callable[[Tensor], Tensor]] = [
        lambda some: functional.max_pool2d(some, 3, 1, 1),
        lambda some: -functional.max_pool2d(-some, 3, 1, 1),
        lambda some: functional.avg_pool2d(some, 3, 1, 1),
        lambda some: some + torch.randn_like(some) * 0.15,
        lambda some: some + torch.randn_like(some) * 0.08,
    ]
    for part, change in zip(torch.randperm(n).chunk(2 * len(changes)), changes, strict=False):
        x[part] = torch.lerp(x[part], change(x[part]), torch.rand(len(part), 1, 1, 1) * 0.6)
    return x.clamp(0, 1), wider


def loss_of(logits: Tensor, widths: Tensor, labels: list[list[int]]) -> Tensor:
    chances = logits.float().permute(2, 0, 1).log_softmax(-1)
    frames = ((widths + 3) // STEP).clamp(max=len(chances))
    joined = torch.tensor([letter for label in labels for letter in label])
    lengths = torch.tensor([len(label) for label in labels])
    return functional.ctc_loss(chances, joined, frames, lengths, zero_infinity=True)


def batches(sets: Sequence[Pictures], rng: random.Random) -> Iterator[tuple[Pictures, list[int]]]:
    """Without end: batches of drawn and of real pictures of about one width."""
    while True:
        some = []
        for pictures, share in zip(sets, (DRAWN, 1 - DRAWN), strict=True):
            count = max(1, round(CHUNK * share))
            rows = rng.choices(range(len(pictures.labels)), k=count * BATCH)
            rows = sorted(rows, key=pictures.widths.__getitem__)
            some += [(pictures, rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)]
        rng.shuffle(some)
        yield from some


def learn(network: SpellerNetwork, sets: Sequence[Pictures], options: SpellerOptions, say: Any) -> int:
    """Train for so many seconds, the rate falling to nothing; the number of batches."""
    heavy = [p for p in network.parameters() if p.ndim > 1]
    light = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": heavy, "weight_decay": 0.02}, {"params": light, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, options.rate, (0.9, 0.98))
    begun, step = time.monotonic(), 0
    for step, (pictures, rows) in enumerate(batches(sets, random.Random(options.seed)), 1):
        done = (time.monotonic() - begun) / options.seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1, step / WARM_UP) * (1 + math.cos(math.pi * done)) / 2
        x, widths, labels = pictures.batch(rows)
        x, wider = varied(x)
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(x)
        loss = loss_of(logits, (widths * wider).long().clamp(max=x.shape[3]), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        if step % 500 == 0:
            say(f"{step} batches, {done:.0%} of the time: loss {loss.item():.3f}")
    return step


def export_speller(network: SpellerNetwork, pictures: Pictures, out: Path) -> None:
    """In 8 bits; the last convolution and the chances stay exact."""
    shown = sorted(range(min(CALIBRATION, len(pictures.labels))), key=lambda row: int(pictures.widths[row]))
    feeds = [{"pictures": pictures.batch(shown[at : at + 16])[0].numpy()} for at in range(0, len(shown), 16)]

    class Feeds(CalibrationDataReader):
        def get_next(self) -> dict[str, Any] | None:
            return feeds.pop() if feeds else None

    with tempfile.TemporaryDirectory() as folder:
        exact, ready = Path(folder) / "exact.onnx", Path(folder) / "ready.onnx"
        axes = {"pictures": {0: "words", 3: "width"}, "chances": {0: "words", 2: "frames"}}
        torch.onnx.export(
            _Chances(network).eval(), (torch.zeros(2, 1, HEIGHT, 64),), str(exact), dynamo=False,
            input_names=["pictures"], output_names=["chances"], dynamic_axes=axes, opset_version=17,
        )  # fmt: skip
        quant_pre_process(str(exact), str(ready), skip_symbolic_shape=True)
        last = [node.name for node in onnx.load(str(ready)).graph.node if node.op_type == "Conv"][-1:]
        quantize_static(
            str(ready), str(out), Feeds(), QuantFormat.QDQ, ["Conv", "Relu", "Add"], per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, nodes_to_exclude=last,
            extra_options={"CalibMovingAverage": True},
        )  # fmt: skip


def accuracy(path: Path, pictures: Pictures) -> float:
    """Share of pictures of which every letter is right, by the file that ships."""
    from vsplade.encode.reader.detect import onnx_session
    from vsplade.encode.reader.spelling import Speller
    from vsplade.encode.tokenizer import Tokenizer

    ends = pictures.widths.cumsum()
    cut = [pictures.pixels[end - width : end].T for end, width in zip(ends, pictures.widths, strict=True)]
    found = Speller(onnx_session(path), Tokenizer.load()).spell(cut)
    said = ["".join(LETTERS[letter - 1] for letter in label) for label in pictures.labels]
    return float(np.mean([spelling.letters == text for spelling, text in zip(found, said, strict=True)]))


def train_speller(options: SpellerOptions, say: Any = note) -> dict[str, Any]:
    """Draw and cut pictures of words, learn to spell them, and write the network that ships."""
    faces, pdfs = sorted(options.fonts.iterdir()), sorted(options.pdfs.glob("*.pdf"))
    if len(faces) < 2 or len(pdfs) < 2:
        raise InputError("At least two faces and two PDFs are needed: some are kept out to judge on.")
    torch.manual_seed(options.seed)
    rng = random.Random(options.seed)
    sets, judges = [], []
    for sources, counted, make in (
        (faces, options.drawn, drawn_pictures),
        (pdfs, options.real, lambda some, rng: real_pictures(some, options.pages, rng)),
    ):
        kept_out = sources[::KEPT_OUT]
        known = [source for source in sources if source not in kept_out]
        sets.append(Pictures.of(islice(make(known, rng), counted)))
        judges.append(Pictures.of(islice(make(kept_out, rng), counted // 20)))
        say(f"{len(sets[-1].labels)} pictures of {len(known)} faces or PDFs")
    network = SpellerNetwork()
    steps = learn(network, sets, options, say)
    export_speller(network, sets[0], options.out)
    right = dict(zip(("drawn", "real"), (accuracy(options.out, some) for some in judges), strict=True))
    return {"out": str(options.out), "batches": steps, "bytes": options.out.stat().st_size, "right": right}


if __name__ == "__main__":
    main(train_speller, SpellerOptions)
