"""Drawing: the Triton kernels, run by Triton's own interpreter, against the plain loop."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")


from research.reader.draw import compose, draw_boxes
from research.reader.scenes import COVER, INK, PAPER, SIZE

IDENTITY = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
FIRST = torch.zeros(1, dtype=torch.long)

# triton decides when a kernel is defined whether to interpret it, so this runs in a process of its own
COMPARE = """
import random, sys
from pathlib import Path
import numpy as np, torch
from vsplade.encode.tokenizer import Tokenizer
from research.reader import draw
from research.reader.glyphs import build_atlas
from research.reader.scenes import RUN, SIZE, Scene, slide
from research.reader.synthesis import random_affine
from research.reader.typeset import Typesetter
from research.reader.words import KINDS, build

torch.manual_seed(3)
cpu = torch.device("cpu")
words = "kernels against the plain loop".split()
bank = build({kind: [words * 10] for kind in KINDS}, Tokenizer.load())
atlas, _ = build_atlas([Path(sys.argv[1])], 1)
setter = Typesetter(bank, atlas, torch.ones(1), cpu)
scene = Scene(random.Random(1))
scene.text(20, 30, 300, 30, 24, words=4)
scene.text(380, 470, 300, 60, 60, words=2)
forward = random_affine(2, cpu)
runs = torch.tensor(np.array(scene.runs, np.float32))
glyphs, _ = setter.set(runs, torch.tensor([0, 1]), forward)
by_loop, by_kernel = torch.zeros(2, SIZE, SIZE), torch.zeros(2, SIZE, SIZE)
draw.loop_glyphs(by_loop, glyphs, atlas.ink)
draw.launch_glyphs(by_kernel, glyphs, atlas.ink)
assert by_loop.max() > 0.5, "nothing was drawn"
difference = (by_loop - by_kernel).abs().max().item()
assert difference < 0.006, f"glyphs differ by {difference}"

scene.panel(0, 0, 150, 150)
scene.panel(30, 40, 90, 170)
scene.panel(60, 20, 80, 60)
scene.rule(10, 100, 140, 100, 0.7)
scene.box(500, 500, 530, 530, 1.0, 2.0)
boxes = torch.tensor(np.array(scene.boxes, np.float32))
window = torch.arange(len(boxes)) % 2
window[:6] = 0
placed = draw.place_boxes(boxes, window, forward)
by_loop, by_kernel = torch.zeros(3, 2, SIZE, SIZE), torch.zeros(3, 2, SIZE, SIZE)
draw.loop_boxes(by_loop, placed)
draw.launch_boxes(by_kernel, placed)
assert by_loop[:, 0].flatten(1).amax(1).min() > 0, "a plane stayed empty"
difference = (by_loop - by_kernel).abs()
assert (difference > 0.006).float().mean().item() < 1e-4, f"boxes differ by {difference.max().item()}"
print("same")
"""


@pytest.mark.skipif(
    find_spec("triton") is None, reason="triton is not installed (it comes with torch for GPUs)"
)
def test_kernels_draw_what_the_loop_draws(face: Path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARE, str(face)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "same"


def test_a_later_panel_hides_an_earlier_one() -> None:
    planes = torch.zeros(3, 1, SIZE, SIZE)
    rows = [[0, 0, 100, 100, 0.9, PAPER], [0, 0, 100, 100, 0.1, INK], [20, 20, 60, 60, 0.2, PAPER]]
    draw_boxes(planes, torch.tensor(rows), torch.zeros(3, dtype=torch.long), IDENTITY)
    assert float(planes[0, 0, 10, 10]) == pytest.approx(0.9)
    assert float(planes[0, 0, 40, 40]) == pytest.approx(0.2)
    assert float(planes[1, 0, 40, 40]) == pytest.approx(0.1)
    assert float(planes[0, 0, 110, 110]) == 0


def test_a_thin_rule_covers_its_share_of_the_pixels() -> None:
    planes = torch.zeros(3, 1, SIZE, SIZE)
    draw_boxes(planes, torch.tensor([[100, 50.0, 200, 50.5, 1.0, COVER]]), FIRST, IDENTITY)
    assert float(planes[2, 0, :, 150].sum()) == pytest.approx(0.5, abs=0.26)
    assert float(planes[2, 0, :, 250].sum()) == 0


def test_ink_covers_paper() -> None:
    planes = torch.stack([torch.full((1, 1, 1), v) for v in (0.2, 0.9, 0.5)])
    assert float(compose(planes)) == pytest.approx(0.55)
