"""The reader on a GPU: the same 8-bit weights, unpacked into torch, whole pages in batches.

Activations are not rounded to 8 bits here, so vectors differ from onnxruntime's by a little
(docs/model-card.md says how much); the fingerprint is the same, and an index may be filled by both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from vsplade.encode.ink import BLOCK
from vsplade.encode.network import CELL, Reader, cell_features, fold_norms
from vsplade.encode.reader import Cells, ReaderEncoder, ReaderOptions
from vsplade.errors import InputError, MissingExtraError
from vsplade.types import Page, SparseVector

if TYPE_CHECKING:
    from PIL import Image

BATCH = 16
HEAD_CELLS = 8192


def unpacked(path: Path) -> dict[str, NDArray[np.float32]]:
    """The weights of an 8-bit ONNX file by their names in the network, as float32."""
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("Reading pages with torch", "train") from error
    held = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}
    weights: dict[str, NDArray[np.float32]] = {}
    for name, value in held.items():
        base, _, suffix = name.rpartition("_")
        if suffix == "quantized":
            scale = held.get(f"{base}_scale", held.get(f"{name}_scale"))
            # the trunk's channels come first, the head's matrices are stored the other way round
            last = value.ndim == 2 and base.startswith("head.")
            shape = (-1,) if last else (-1,) + (1,) * (value.ndim - 1)
            plain = value.astype(np.float32) * np.asarray(scale, np.float32).reshape(shape)
            weights[base] = np.ascontiguousarray(plain.T) if last else plain
        elif name.startswith("head.") and name.endswith(".bias"):
            weights[name] = value.astype(np.float32)
    return weights


def load_network(folder: Path, config: dict[str, Any]) -> Reader:
    """The network with its norms folded, strictly: every weight must be there."""
    from vsplade.encode.network import NetworkConfig

    reader: Reader = Reader(NetworkConfig(**config["network"])).eval()
    fold_norms(reader)
    found = {
        name: torch.from_numpy(w)
        for part in ("trunk", "head")
        for name, w in unpacked(folder / f"{part}.onnx").items()
    }
    wanted = {name for name in reader.state_dict() if not name.startswith("characters.")}
    if wanted != found.keys():
        odd = sorted(wanted ^ found.keys())
        raise InputError(f"{folder} does not fit the network; missing or unexpected: {', '.join(odd[:5])}.")
    reader.load_state_dict(found, strict=False)
    return reader


class TorchReaderEncoder(ReaderEncoder):
    def __init__(self, options: ReaderOptions) -> None:
        super().__init__(options)
        self.device = torch.device(options.device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise InputError("There is no GPU that torch can use; leave the reader's option 'device' out.")
        self.network = load_network(self._folder, self._config).to(self.device)
        if self.device.type == "cuda":
            self.network = self.network.to(memory_format=torch.channels_last)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        stream = iter(pages)
        with ThreadPoolExecutor(self.options.threads or 8) as pool:
            while batch := list(islice(stream, BATCH)):
                yield from pool.map(self._pool, self.read_batch([page.image for page in batch]))

    def read(self, image: Image.Image) -> Cells:
        return self.read_batch([image])[0]

    def read_batch(self, images: list[Image.Image]) -> list[Cells]:
        copies = [self._read_copies(images, scale) for scale in self._config["scales"]]
        return [Cells.join(parts) for parts in zip(*copies, strict=True)]

    @torch.inference_mode()
    def _read_copies(self, images: list[Image.Image], scale: float) -> list[Cells]:
        greys = [self._copy(image, scale) for image in images]
        height = max(g.shape[0] for g in greys) + BLOCK - 1
        width = max(g.shape[1] for g in greys) + BLOCK - 1
        stack = np.zeros((len(greys), height - height % BLOCK, width - width % BLOCK), np.uint8)
        for n, grey in enumerate(greys):
            room = ((0, stack.shape[1] - grey.shape[0]), (0, stack.shape[2] - grey.shape[1]))
            stack[n] = np.pad(grey, room, mode="edge")
        dark = 1 - torch.from_numpy(stack).to(self.device)[:, None].float() / 255
        with torch.autocast(self.device.type, torch.float16, enabled=self.device.type == "cuda"):
            word, fine, coarse, _ = self.network.trunk(dark)
            place = (word > self._config["floor"]).nonzero(as_tuple=True)
            seen = cell_features(fine, coarse, *place)
            named = [
                torch.softmax(self.network.head(part).float(), 1).topk(self._config["best"], 1)
                for part in seen.split(HEAD_CELLS)
            ]
        chance = torch.sigmoid(word[place].float())[:, None]
        probability = (torch.cat([part.values for part in named]) * chance).cpu().numpy()
        term = torch.cat([part.indices for part in named]).int().cpu().numpy()
        batch, row, column = (index.cpu().numpy() for index in place)
        cells = []
        for n, grey in enumerate(greys):
            pixel = np.array([[1 / grey.shape[1], 1 / grey.shape[0]]], np.float32)
            middle = (np.stack([column, row], 1)[batch == n] * CELL + CELL / 2) * pixel
            inside = (middle < 1).all(axis=1)  # the padding repeats the edge
            mine = np.flatnonzero(batch == n)[inside]
            pixels = np.repeat(pixel, len(mine), axis=0)
            cells.append(Cells(middle[inside].astype(np.float32), pixels, probability[mine], term[mine]))
        return cells
