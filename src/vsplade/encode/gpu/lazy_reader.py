"""The reader of an index that a GPU has filled: queries need no torch, so it is loaded when a page comes.

An index names the encoder that made its vectors, here ``reader:device=torch``, and a search loads it again:
on a machine without a GPU, perhaps without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.errors import MissingExtraError
from vsplade.types import Page, SparseVector

if TYPE_CHECKING:
    from PIL import Image

    from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
    from vsplade.encode.reader.detect import Cells
    from vsplade.encode.reader.orientation import Reading


class LaterTorchReader(ReaderEncoder):
    on_gpu = True
    engine = "torch"

    @cached_property
    def _loaded(self) -> TorchReaderEncoder:
        try:
            from vsplade.encode.gpu.gpu_reader import TorchReaderEncoder
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "Reading pages for an index that was filled through torch", "train"
            ) from error
        return TorchReaderEncoder(self.options)

    def encode_pages(self, pages: Iterable[Page]) -> Iterator[SparseVector]:
        return self._loaded.encode_pages(pages)

    def _read(self, image: Image.Image) -> Cells:
        cells: Cells = self._loaded._read(image)
        return cells

    def _read_samples(self, pictures: Sequence[Image.Image]) -> list[Reading]:
        readings: list[Reading] = self._loaded._read_samples(pictures)
        return readings
