"""Copies made by matrix products are Pillow's, but for a grey level here and there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageDraw

torch = pytest.importorskip("torch")

from vsplade.encode.gpu.resize_torch import shrink  # noqa: E402
from vsplade.pages import fit  # noqa: E402
from vsplade.pages.resize import fit_size  # noqa: E402


def sheet(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(width).integers(180, 256, (height, width), np.uint8)
    image = Image.fromarray(noise)
    draw = ImageDraw.Draw(image)
    for n, y in enumerate(range(4, height, 17)):
        draw.text((3 + n % 5, y), "Where have all the harbours gone? 4711 " * 4, fill=10)
    return image


@pytest.mark.parametrize("scale", [0.4, 0.16, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_copies_are_pillows(scale: float, kind: str) -> None:
    images = [sheet(408, 530), sheet(333, 512), sheet(511, 90)]
    edges = [max(16, round(max(image.size) * scale)) for image in images]
    new = [fit_size(*image.size, edge)[::-1] for image, edge in zip(images, edges, strict=True)]
    stack = np.full((len(images), 544, 512), 77, np.float32)  # what lies beyond a page must not matter
    for n, image in enumerate(images):
        stack[n, : image.height, : image.width] = np.asarray(image)
    height, width = max(size[0] for size in new) + 3, max(size[1] for size in new) + 5
    old = [(image.height, image.width) for image in images]
    made = shrink(torch.from_numpy(stack).to(getattr(torch, kind)), old, new, height, width).float().numpy()
    for n, (image, edge) in enumerate(zip(images, edges, strict=True)):
        expected = np.asarray(fit(image, edge), np.float32)
        rows, columns = expected.shape
        assert (rows, columns) == new[n]
        difference = np.abs(made[n, :rows, :columns] - expected)
        assert np.mean(difference > 1) < 0.02  # at the edge, where a block of the average is cut
        assert np.mean(difference > 0) < (0.3 if scale < 0.25 else 0.15 if kind == "float16" else 0.005)
        # the edge goes on
        assert (made[n, rows:, :columns] == made[n, rows - 1, :columns]).all()
        assert (made[n, :rows, columns:] == made[n, :rows, columns - 1 : columns]).all()


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton, which comes with torch")
def test_kernel_makes_the_same_filter() -> None:
    """In triton's interpreter, which must be chosen before triton is imported."""
    script = """
import torch
from vsplade.encode import shrink
from vsplade.encode.gpu.transfers import on
device = torch.device("cpu")
for kind, tolerance in ((torch.float32, 1e-6), (torch.float16, 1e-3)):
    like = torch.zeros(1, dtype=kind)
    whole, small, tiny = [(96, 64), (90, 60), (33, 22)], [(96, 38), (64, 25)], [(128, 20), (100, 16)]
    for sides in (whole, small, tiny, [(50, 64)], [(64, 64)]):
        numbers = on(sides, device, torch.float64)
        made = shrink._filter_by_kernel(sides, numbers, 128, 72, like)
        expected = shrink._filter_by_torch(sides, numbers, 128, 72, like)
        torch.testing.assert_close(made, expected, atol=tolerance, rtol=0)
assert shrink.kernel_works(device)
from vsplade.encode import reader_kernels
reader_kernels.lanczos = lambda *_: None
shrink.kernel_works.cache_clear()
assert not shrink.kernel_works(device)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
