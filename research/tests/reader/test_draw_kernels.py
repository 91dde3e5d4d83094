"""The GPU's kernels against the plain loops, in Triton's interpreter (a process of its own: it is chosen on
import)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("triton", reason="the kernels need triton")

CHECK = """
import torch
from research.reader import draw
from research.reader.synthesis import random_affine
from research.reader.typeset import Glyphs

torch.manual_seed(0)

# windows of two pages that lie one after the other
shapes = torch.tensor([[300, 200], [150, 400]])
pixels = torch.randint(0, 256, (120000,), dtype=torch.uint8)
page = torch.tensor([0, 1, 1])
forward = random_affine(3, torch.device("cpu"))
forward[:, :, 2] -= 100
back = torch.linalg.inv(forward[:, :, :2])
inverse = torch.cat([back, -(back @ forward[:, :, 2:])], 2).reshape(-1, 6)
cut = (pixels, torch.tensor([0, 60000])[page], shapes[page], inverse)
assert torch.allclose(draw.launch_cut(*cut), draw.plain_cut(*cut), atol=1e-5)

# one glyph, turned a little, over the edge of a window
ink = torch.randint(0, 256, (20 * 30,), dtype=torch.uint8)
glyph = Glyphs(
    torch.tensor([1]), torch.tensor([0]), torch.tensor([[20, 30]]),
    torch.tensor([[0.9, 0.1, 5.0, -0.1, 0.9, 4.0]]), torch.tensor([[0, 0, 40, 30]], dtype=torch.int32),
)
kernel, loop = torch.zeros(2, 2, draw.SIZE, draw.SIZE)
draw.launch_glyphs(kernel, glyph, ink)
draw.loop_glyphs(loop, glyph, ink)
assert float(loop.max()) > 0.5
assert torch.allclose(kernel, loop, atol=5e-3)

# boxes over each other on all three planes
boxes = torch.tensor([[10.0, 10, 200, 90, 0.4, 0], [50, 20, 90, 300, 0.9, 0], [30, 30, 60, 60, 0.2, 1],
                      [5.2, 100.3, 300, 101.1, 1.0, 2]])
window = torch.tensor([0, 0, 0, 0])
planes = torch.zeros(2, 3, 1, draw.SIZE, draw.SIZE)
placed = draw.place_boxes(boxes, window, random_affine(1, torch.device("cpu")))
draw.launch_boxes(planes[0], placed)
draw.loop_boxes(planes[1], placed)
assert float(planes[1].amax(dim=(1, 2, 3)).min()) > 0.1
assert torch.allclose(planes[0], planes[1], atol=5e-3)  # a share below 0.004 is not drawn
print("same")
"""


def test_kernels_draw_what_the_loops_draw() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "same", done.stderr
