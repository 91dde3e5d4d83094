"""The encoder behind hub names such as ``naver/v-splade-quality`` and behind folders with such a model.

Queries need the table and the tokenizer only; torch and the network are loaded with the first page.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vsplade.encode.modernvbert.adapters import files_folder
from vsplade.encode.modernvbert.processor import IMAGE, Grid, PageProcessor
from vsplade.encode.modernvbert.query import open_model
from vsplade.encode.query_length import check_query_length
from vsplade.errors import InputError, MissingExtraError
from vsplade.types import Box, Page, SparseVector, TermStatistics, Vocabulary

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from vsplade.encode.modernvbert.model import Pooled, SpladeModel

Cut: TypeAlias = "tuple[Tensor, Grid]"
Running: TypeAlias = "tuple[Tensor, Any]"
Prepared: TypeAlias = "tuple[NDArray[np.uint8] | Tensor, Grid] | Tensor"

LONGEST_TEXT = 8192
"""Tokens of a text; the rest is cut off."""
_PRECISIONS = ("float32", "bfloat16", "float16")
_WHOLE_PAGE = Box(0.0, 0.0, 1.0, 1.0)
_IN_FLIGHT = 2
"""Batches that a GPU has before it while the one before them is read back."""
_THREADS_FOR_GPU = 4
"""They only copy pictures; more of them would be in the way of the thread that starts the kernels."""


@dataclass(frozen=True)
class ModernVBertOptions:
    """``naver/v-splade-quality:device=cuda,batch=32``"""

    model: str
    """A folder with a model, a folder with a query side alone, or a hub name."""
    device: str = ""
    """As torch names it; empty: a GPU where there is one."""
    precision: str = ""
    """float32, bfloat16 or float16; empty: bfloat16 on a GPU, float32 elsewhere."""
    batch: int = 0
    """Pages at a time; 0: 32 on a GPU, 2 elsewhere."""
    threads: int = 0
    """Pages that are prepared side by side; 0 is one for every core, or 4 where a GPU cuts the tiles."""
    top: int = 0
    """Keep a page's heaviest terms only; 0 keeps all."""
    compile: bool = False
    """Have torch compile the text layers, instead of our kernels: some ten seconds before the first page."""

    prompt: str = ""
    """Text beside the image in every page's prompt; the public scripts have "Describe the image."."""
    bag: bool = False
    """Queries are plain bags of words, every word weighing 1: also for a backbone without a query table."""

    def __post_init__(self) -> None:
        if "," in self.prompt or self.prompt != self.prompt.strip() or IMAGE in self.prompt:
            raise InputError(
                "The option prompt is a text without commas, spaces at its ends, and image tokens: "
                f"{self.prompt!r} could not be kept in an index's name of the encoder."
            )
        if self.precision and self.precision not in _PRECISIONS:
            raise InputError(f"Precision is one of {', '.join(_PRECISIONS)}, not {self.precision!r}.")
        if min(self.batch, self.threads, self.top) < 0:
            raise InputError("The options batch, threads and top are 0 (the default) or more.")


class ModernVBertEncoder:
    reads_grey = latin_only = False

    def __init__(self, options: ModernVBertOptions, *, download: bool = True) -> None:
        self.options = options
        self._side, self._folder = open_model(options.model, download, options.bag)

    @property
    def name(self) -> str:
        options = [f"top={self.options.top}"] if self.options.top else []
        options += [f"prompt={self.options.prompt}"] if self.options.prompt else []
        options += ["bag=true"] if self.options.bag else []
        return self._side.name + (f":{','.join(options)}" if options else "")

    @property
    def fingerprint(self) -> str:
        top = f"-top{self.options.top}" if self.options.top else ""
        prompt = self.options.prompt.encode()
        said = f"-prompt{hashlib.blake2b(prompt, digest_size=6).hexdigest()}" if prompt else ""
        return self._side.fingerprint + top + ("-bag" if self.options.bag else "") + said

    @property
    def vocabulary(self) -> Vocabulary:
        return self._side

    @property
    def longest_edge(self) -> int:
        return self._side.longest_edge

    @property
    def query_weights(self) -> NDArray[np.float32]:
        return self._side.table

    def encode_query(self, text: str, statistics: TermStatistics | None = None) -> SparseVector:
        check_query_length(text)
        return self._side.encode(text)

    def encode_text(self, text: str) -> SparseVector:
        """A text through the network, as pages are: pooled over its positions, [CLS] and [SEP] included."""
        import torch

        model = self._model
        ids = torch.tensor([self._processor.text_ids(text, LONGEST_TEXT)], device=self._device)
        with torch.inference_mode():
            weights = model(ids, None).weights
        return self._sparse(weights.float().cpu().numpy()[0])

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        """Threads prepare pages while the network works on those before. On a GPU two batches are under way
        before the one ahead of them is read back: it need not wait for Python.
        """
        batch = self.options.batch or (32 if self.on_gpu else 2)
        ahead = _IN_FLIGHT if self.on_gpu else 0
        waiting: deque[Future[Prepared]] = deque()
        running: deque[Running] = deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="tiles") as pool:
            for page in pages:
                waiting.append(pool.submit(self._prepare, page.image))
                if len(waiting) >= 2 * batch:
                    running.append(self._start([waiting.popleft().result() for _ in range(batch)]))
                    while len(running) > ahead:
                        yield from self._read_back(running.popleft())
            while waiting:
                last = [waiting.popleft().result() for _ in range(min(batch, len(waiting)))]
                running.append(self._start(last))
            while running:
                yield from self._read_back(running.popleft())

    def encode_with_places(self, page: Page) -> tuple[SparseVector, list[Box]]:
        """The vector, and for each term the cell of the page whose logit was the largest."""
        cut = self._cut(self._prepare(page.image))
        pooled = self._pool([cut])
        vector = self._sparse(pooled.weights.float().cpu().numpy()[0])
        ids = np.array(self._processor.prompt_ids(cut[1]))
        order = np.cumsum(ids == self._image_token) - 1
        positions = pooled.positions[0].cpu().numpy()[vector.terms.astype(np.int64)]
        settings = self._processor.settings
        boxes = [
            settings.cell(int(order[place]), cut[1]) if ids[place] == self._image_token else _WHOLE_PAGE
            for place in positions
        ]
        return vector, boxes

    def _prepare(self, image: Image.Image) -> Prepared:
        """In a thread: the tiles; or, where a GPU will cut them, the picture in memory it can fetch from."""
        if not self.on_gpu or not self._gpu_cuts:
            return self._processor.tiles(image)
        import torch

        plain = image if image.mode in ("L", "RGB") else image.convert("RGB")
        shape = (plain.height, plain.width, 3)[: 2 if plain.mode == "L" else 3]
        picture = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        picture.numpy()[...] = np.asarray(plain)
        return picture

    def _cut(self, prepared: Prepared) -> Cut:
        """Tiles on the device; where it is a GPU, they belong to the stream beside the network's."""
        import torch

        from vsplade.encode.modernvbert import resample

        if isinstance(prepared, tuple):
            tiles, grid = prepared
            if isinstance(tiles, np.ndarray):
                tiles = torch.from_numpy(tiles).to(self._device)
            return tiles, grid
        with self._beside():
            picture = prepared.to(self._device, non_blocking=True)
            planes = picture[None] if picture.dim() == 2 else picture.permute(2, 0, 1).contiguous()
            tiles, grid = resample.cut(planes, self._processor.settings)
            return tiles.expand(-1, 3, -1, -1), grid

    def _pool(self, prepared: list[Prepared]) -> Pooled:
        """Starts a batch; on a GPU it may still run when this returns."""
        import torch

        model = self._model
        with self._beside():
            cut = [self._cut(one) for one in prepared]
            tiles = self._pixels(torch.cat([tiles for tiles, _ in cut]))
        prompts = [self._processor.prompt_ids(grid) for _, grid in cut]
        ids = torch.full((len(prompts), max(map(len, prompts))), self._padding, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
            mask[row, : len(prompt)] = 1
        places = (ids == self._image_token).flatten().nonzero().squeeze(1)
        ragged = len({len(prompt) for prompt in prompts}) > 1
        seen = mask if ragged else None
        with torch.inference_mode():
            if self.on_gpu:
                main = torch.cuda.current_stream(self._device)
                main.wait_stream(self._side_stream)
                tiles.record_stream(main)
            pooled: Pooled = model(self._sent(ids), self._sent(seen), tiles, self._sent(places))
        return pooled

    def _pixels(self, tiles: Tensor) -> Tensor:
        """Bytes travel to the device and, where the tower takes them, to the tower."""
        if self._model.tower is not None:
            return tiles
        settings = self._processor.settings
        return tiles.float().div_(255).sub_(settings.mean).div_(settings.deviation)

    def _sent(self, tensor: Tensor | None) -> Any:
        """On the device; from pinned memory, or the host would wait until the device has come that far."""
        if tensor is None or not self.on_gpu:
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def _beside(self) -> AbstractContextManager[Any]:
        """Work for a GPU while it is busy with the batch before."""
        import torch

        return torch.cuda.stream(self._side_stream) if self.on_gpu else nullcontext()

    def _start(self, prepared: list[Prepared]) -> Running:
        """A batch under way, and what tells when its weights have come back."""
        import torch

        weights = self._pool(prepared).weights
        if not self.on_gpu:
            return weights, None
        host = torch.empty(weights.shape, dtype=torch.float32, pin_memory=True)
        host.copy_(weights, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(self._device))
        return host, arrived

    def _read_back(self, running: Running) -> Iterator[SparseVector]:
        weights, arrived = running
        if arrived is not None:
            arrived.synchronize()
        for row in weights.float().numpy():
            yield self._sparse(row)

    def _sparse(self, weights: NDArray[np.float32]) -> SparseVector:
        if not np.isfinite(weights).all():
            raise InputError(
                f"The model {self.name} gave weights that are not numbers. Try precision=float32."
            )
        terms = np.flatnonzero(weights > 0)
        vector = SparseVector(terms.astype(np.uint32), weights[terms])
        return vector.top(self.options.top) if self.options.top else vector

    # -- the network, loaded with the first page --------------------------------------------------------

    @cached_property
    def _model_folder(self) -> Path:
        if self._folder is None:
            raise InputError(
                f"{self.options.model} holds the query side of {self._side.name} only: it can search, "
                "but not read "
                "pages. Index with the model itself."
            )
        return self._folder

    @cached_property
    def _processor(self) -> PageProcessor:
        return PageProcessor(files_folder(self._model_folder), text=self.options.prompt)

    @cached_property
    def _gpu_cuts(self) -> bool:
        """Triton comes with torch for the GPUs it knows; elsewhere threads cut the tiles."""
        from vsplade.encode.modernvbert import devices, resample

        return resample.can_cut(self._processor.settings) and devices.kernels_allowed()

    @property
    def _threads(self) -> int:
        if self.options.threads:
            return self.options.threads
        return _THREADS_FOR_GPU if self.on_gpu and self._gpu_cuts else os.cpu_count() or 1

    @cached_property
    def _side_stream(self) -> Any:
        import torch

        return torch.cuda.Stream(self._device)

    @cached_property
    def _device(self) -> Any:
        try:
            import torch
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"Reading pages with {self._side.name}", "hf") from error
        try:
            return torch.device(self.options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        except RuntimeError as error:
            raise InputError(f"torch knows no device {self.options.device!r}: {error}") from error

    @property
    def on_gpu(self) -> bool:
        """All processors are left to the decoding of pages then."""
        return bool(self._device.type == "cuda")

    @cached_property
    def _model(self) -> SpladeModel:
        device = self._device
        try:
            import torch
            import transformers  # noqa: F401

            from vsplade.encode.modernvbert import checkpoint
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"Reading pages with {self._side.name}", "hf") from error
        precision = self.options.precision or ("bfloat16" if self.on_gpu else "float32")
        model = checkpoint.load(self._model_folder, dtype=getattr(torch, precision)).model.to(device)
        settings = self._processor.settings
        model.for_encoding(settings.mean, settings.deviation)
        if self.options.compile:
            model.compile_layers()
        return model

    @property
    def _image_token(self) -> int:
        return int(self._model.config.image_token_id)

    @property
    def _padding(self) -> int:
        return int(self._model.config.text_config.pad_token_id or 0)
