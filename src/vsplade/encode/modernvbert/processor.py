"""Pages to tiles and prompts, as Idefics3's processor makes them; needs pillow and the ``tokenizers`` wheel
only.

A page is scaled to a longest edge of 2,048 and then to whole tiles of 512, so it may be stretched a little.
All tiles and
one small view of the whole page follow each other; each stands for 64 tokens in the prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vsplade.errors import InputError, MissingExtraError
from vsplade.jsonl import read_object
from vsplade.types import Box

if TYPE_CHECKING:
    from PIL import Image

PROMPT = "User:<image>{}<end_of_utterance>\nAssistant:"
"""The chat template with one image and a text, for folders that carry no template."""
IMAGE, FRAME, WHOLE = "<image>", "<fake_token_around_image>", "<global-img>"
_LARGEST_EDGE = 4096
LANCZOS = 1
"""As pillow numbers its filters."""


@dataclass(frozen=True)
class Grid:
    """Tiles of a page; 0 x 0 where the page is one tile and has no other view."""

    rows: int
    columns: int

    @property
    def tiles(self) -> int:
        return self.rows * self.columns + 1


@dataclass(frozen=True)
class ProcessorSettings:
    longest_edge: int = 2048
    tile: int = 512
    tokens_a_tile: int = 64
    resample: int = LANCZOS
    mean: float = 0.5
    deviation: float = 0.5

    @classmethod
    def read(cls, folder: Path) -> ProcessorSettings:
        """From preprocessor_config.json and processor_config.json, where the folder has them."""
        image, whole = (
            read_object(folder / "preprocessor_config.json", optional=True),
            read_object(folder / "processor_config.json", optional=True),
        )
        image = {**whole.get("image_processor", {}), **image}
        plain = cls()
        try:
            mean = image.get("image_mean", [plain.mean])
            deviation = image.get("image_std", [plain.deviation])
            if len({*mean}) != 1 or len({*deviation}) != 1:
                raise InputError(
                    f"{folder}: different means for the colours are not supported ({mean}, {deviation})."
                )
            return cls(
                int(image.get("size", {}).get("longest_edge", plain.longest_edge)),
                int(image.get("max_image_size", {}).get("longest_edge", plain.tile)),
                int(whole.get("image_seq_len", plain.tokens_a_tile)),
                int(image.get("resample", plain.resample)),
                float(mean[0]),
                float(deviation[0]),
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder}: the image processor's configuration cannot be read ({error})."
            ) from error

    def cell(self, order: int, grid: Grid) -> Box:
        """Where on the page an image token stands, counted among all of a page's."""
        tile, cell = divmod(order, self.tokens_a_tile)
        side = math.isqrt(self.tokens_a_tile)
        row, column = divmod(cell, side)
        if tile >= grid.rows * grid.columns:  # the view of the whole page
            return Box(column / side, row / side, (column + 1) / side, (row + 1) / side)
        top, left = divmod(tile, grid.columns)
        across, down = grid.columns * side, grid.rows * side
        row, column = top * side + row, left * side + column
        return Box(column / across, row / down, (column + 1) / across, (row + 1) / down)


class PageProcessor:
    """``text`` stands beside the image in the prompt of every page; the public scripts put "Describe the
    image." there, the public quick start nothing.
    """

    def __init__(self, folder: Path, settings: ProcessorSettings | None = None, text: str = "") -> None:
        self.settings = settings or ProcessorSettings.read(folder)
        self.tokenizer = load_tokenizer(folder)
        self.prompt = read_prompt(folder, text)
        if self.prompt.count(IMAGE) != 1:
            raise InputError(
                f"{folder}: the chat template puts {self.prompt.count(IMAGE)} images in the prompt, not 1."
            )
        self.prompt_ids = lru_cache(maxsize=256)(self._prompt_ids)

    def tiles(self, image: Image.Image) -> tuple[NDArray[np.uint8], Grid]:
        """(tiles, 3, size, size): rows from left to right, then the whole page; values 0 to 255."""
        edge = self.settings.tile
        picture = image.convert("RGB")
        picture = self._resize(picture, *fit_edge(picture.width, picture.height, self.settings.longest_edge))
        picture = self._resize(picture, *whole_tiles(picture.width, picture.height, edge))
        columns, rows = picture.width // edge, picture.height // edge
        if rows == columns == 1:
            return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))[None], Grid(0, 0)
        cut = np.asarray(picture).reshape(rows, edge, columns, edge, 3).transpose(0, 2, 4, 1, 3)
        whole = np.asarray(self._resize(picture, edge, edge)).transpose(2, 0, 1)
        return np.concatenate([cut.reshape(rows * columns, 3, edge, edge), whole[None]]), Grid(rows, columns)

    def normalise(self, tiles: NDArray[np.uint8]) -> NDArray[np.float32]:
        """What the network takes; on a GPU the same arithmetic is done there."""
        scaled = tiles.astype(np.float32) / np.float32(255)
        return (scaled - np.float32(self.settings.mean)) / np.float32(self.settings.deviation)

    def text_ids(self, text: str, longest: int = 0) -> list[int]:
        """A text as the body reads it: with [CLS] and [SEP], cut to ``longest`` tokens."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=True).ids
        return [*ids[: longest - 1], ids[-1]] if 0 < longest < len(ids) else ids

    def _prompt_ids(self, grid: Grid) -> tuple[int, ...]:
        before, after = self.prompt.split(IMAGE)
        text = before + self._image_text(grid) + after
        return tuple(self.tokenizer.encode(text, add_special_tokens=True).ids)

    def _image_text(self, grid: Grid) -> str:
        block = IMAGE * self.settings.tokens_a_tile
        whole = f"{FRAME}{WHOLE}{block}{FRAME}"
        if grid.rows == 0:
            return whole
        lines = [
            "".join(f"{FRAME}<row_{row}_col_{column}>{block}" for column in range(1, grid.columns + 1))
            for row in range(1, grid.rows + 1)
        ]
        return "\n".join(lines) + "\n\n" + whole

    def _resize(self, picture: Image.Image, width: int, height: int) -> Image.Image:
        from PIL import Image

        if picture.size == (width, height):
            return picture
        return picture.resize((width, height), Image.Resampling(self.settings.resample))


def load_tokenizer(folder: Path) -> Any:
    path = folder / "tokenizer.json"
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise MissingExtraError("This model's tokenizer", "hf-query") from error
    if not path.is_file():
        raise InputError(
            f"There is no tokenizer.json in {folder}. Copy the one of the model's tokenizer there."
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the wheel raises nothing narrower
        raise InputError(f"{path} is not a tokenizer ({error}). Download it again.") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def fit_edge(width: int, height: int, longest: int) -> tuple[int, int]:
    """Longest edge as wished, the other one even and in proportion, neither above 4,096."""
    ratio = width / height
    if width >= height:
        width, height = longest, int(longest / ratio)
        height += height % 2
    else:
        width, height = int(longest * ratio), longest
        width += width % 2
    width, height = max(width, 1), max(height, 1)
    ratio = width / height
    if width >= height and width > _LARGEST_EDGE:
        width, height = _LARGEST_EDGE, int(_LARGEST_EDGE / ratio)
    elif height > width and height > _LARGEST_EDGE:
        width, height = int(_LARGEST_EDGE * ratio), _LARGEST_EDGE
    return max(width, 1), max(height, 1)


def whole_tiles(width: int, height: int, tile: int) -> tuple[int, int]:
    ratio = width / height
    if width >= height:
        width = math.ceil(width / tile) * tile
        height = math.ceil(int(width / ratio) / tile) * tile
    else:
        height = math.ceil(height / tile) * tile
        width = math.ceil(int(height * ratio) / tile) * tile
    return width, height


def read_prompt(folder: Path, text: str = "") -> str:
    """The chat template rendered for one image and a text; ``PROMPT`` where there is no template."""
    template = None
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text("utf-8")
    for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
        template = template or read_object(folder / name, optional=True).get("chat_template")
    if not isinstance(template, str):
        return PROMPT.format(text)
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError as error:
        raise MissingExtraError("Rendering this model's chat template (jinja2)", "hf") from error
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
    try:
        return environment.from_string(template).render(messages=messages, add_generation_prompt=True)
    except TemplateError as error:
        raise InputError(f"{folder}: the chat template cannot be rendered ({error}).") from error
