"""Read a folder of pages with a checkpoint and keep everything the head said, to try weightings without
reading again.

Kept per word cell: page, place, scale of the pyramid, the probability that a word is there, and the best few
terms with their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from research.command import main
from research.reader.options import ProbeOptions
from research.reader.weights import load_weights
from vsplade.encode.gpu.network import NetworkConfig, Reader, cell_features
from vsplade.encode.reader.ink_windows import CELL
from vsplade.train import training_checkpoint

BEST = 4
"""Likeliest terms that are kept of a cell."""
FLOOR = -2.0  # word logit under which a cell is not kept


def load_reader(path: Path, device: torch.device) -> Reader:
    tensors, header = load_weights(path)
    model = Reader(NetworkConfig(**header["network"]))
    training_checkpoint.load_model(model, tensors)
    return model.eval().to(device)


def picture(path: Path, longest_edge: int) -> np.ndarray:
    image = Image.open(path).convert("L")
    scale = longest_edge / max(image.size)
    if scale < 1:
        size = (max(16, round(image.width * scale)), max(16, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    return np.asarray(image)


def pad(x: Tensor) -> Tensor:
    """To multiples of 16, repeating the edge."""
    return functional.pad(x, (0, -x.shape[-1] % 16, 0, -x.shape[-2] % 16), mode="replicate")


def pyramid(grey: Tensor, scales: tuple[float, ...]) -> Iterator[tuple[float, Tensor]]:
    dark = 1 - grey.float()[None, None] / 255
    for scale in scales:
        if scale == 1:
            yield scale, pad(dark)
        elif min(dark.shape[-2:]) * scale >= 32:
            small = functional.interpolate(dark, scale_factor=scale, mode="bilinear", antialias=True)
            yield scale, pad(small)


@torch.inference_mode()
def read_cells(model: Reader, grey: Tensor, scales: tuple[float, ...]) -> list[np.ndarray]:
    found = []
    for scale, x in pyramid(grey, scales):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            logits, fine, coarse, _ = model.trunk(x)
            batch, row, column = (logits > FLOOR).nonzero(as_tuple=True)
            if not len(batch):
                continue
            named = model.head(cell_features(fine, coarse, batch, row, column))
        best = torch.log_softmax(named.float(), 1).topk(BEST, 1)
        cells = [
            ((column + 0.5) * CELL / scale),
            ((row + 0.5) * CELL / scale),
            torch.full_like(row, 0) + scale,
            logits[batch, row, column].float(),
        ]
        places = torch.stack([c.float() for c in cells], 1)
        found.append(torch.cat([places, best.values, best.indices.float()], 1).cpu().numpy())
    return found


def probe(options: ProbeOptions) -> dict[str, Any]:
    """Read a folder of pages with a checkpoint and keep every word cell, for trying out weightings."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_reader(options.checkpoint, device)
    paths = sorted(p for p in options.images.iterdir() if p.is_file())
    rows, pages = [np.zeros((0, 4 + 2 * BEST), np.float32)], [np.zeros(0, np.int32)]
    with ThreadPoolExecutor(8) as pool:
        greys = pool.map(lambda p: picture(p, options.longest_edge), paths)
        for n, grey in enumerate(greys):
            cells = read_cells(model, torch.from_numpy(grey.copy()).to(device), options.scales)
            rows += cells
            pages += [np.full(len(c), n, np.int32) for c in cells]
    table = np.concatenate(rows)
    np.savez_compressed(
        options.out,
        page=np.concatenate(pages).astype(np.uint16),
        place=table[:, :3].astype(np.float16),
        word=table[:, 3].astype(np.float16),
        log_probability=table[:, 4 : 4 + BEST].astype(np.float16),
        term=table[:, 4 + BEST :].astype(np.uint16),
        ids=np.array([p.stem for p in paths]),
    )
    return {"out": str(options.out), "pages": len(paths), "cells": len(table)}


if __name__ == "__main__":
    main(probe, ProbeOptions)
