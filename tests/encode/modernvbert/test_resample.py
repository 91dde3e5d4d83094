"""Tiles cut with torch are the tiles that pillow cuts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from PIL import Image  # noqa: E402

from vsplade.encode.modernvbert import resample  # noqa: E402
from vsplade.encode.modernvbert.processor import PageProcessor, ProcessorSettings  # noqa: E402


def noise(width: int, height: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def planes(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


@pytest.mark.parametrize(
    "sizes", [(124, 175, 145, 205), (145, 205, 154, 205), (154, 205, 51, 51), (37, 90, 300, 91), (1, 3, 8, 8)]
)
def test_resizing_is_pillows(sizes: tuple[int, int, int, int]) -> None:
    width, height, wider, higher = sizes
    pixels = noise(width, height)
    wanted = np.asarray(Image.fromarray(pixels).resize((wider, higher), Image.Resampling.LANCZOS)).astype(int)
    found = resample.resize(planes(pixels), wider, higher).permute(1, 2, 0).numpy().astype(int)
    apart = np.abs(found - wanted)
    assert apart.max() <= 1
    assert (apart > 0).mean() < 1e-3


@pytest.mark.parametrize("size", [(124, 175), (300, 90), (20, 30), (64, 64), (700, 40)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_tiles_are_the_processors(size: tuple[int, int], mode: str) -> None:
    settings = ProcessorSettings(longest_edge=256, tile=64)
    processor = object.__new__(PageProcessor)
    processor.settings = settings
    image = Image.fromarray(noise(*size)).convert(mode)
    wanted, grid = processor.tiles(image)
    pixels = np.asarray(image).reshape(size[1], size[0], -1)
    tiles, same_grid = resample.cut(planes(pixels.copy()), settings)
    assert same_grid == grid
    apart = np.abs(tiles.expand(-1, 3, -1, -1).numpy().astype(int) - wanted.astype(int))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 2e-3


def test_only_lanczos_is_taken_over() -> None:
    assert resample.can_cut(ProcessorSettings())
    assert not resample.can_cut(ProcessorSettings(resample=2))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton, which comes with torch")
def test_the_kernel_gives_the_same() -> None:
    """In triton's interpreter, which must be chosen before triton is imported."""
    script = """
import numpy as np, torch
from vsplade.encode.modernvbert import resample
picture = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 50, 40), dtype=np.uint8))
for axis, size in ((1, 77), (2, 13), (2, 61)):
    first, taps = resample._weights_on(picture.shape[axis], size, picture.device)
    kernel = resample._kernel_resize(picture, first, taps, axis)
    assert torch.equal(kernel, resample._resize_axis(picture, size, axis)), axis
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
