"""The GPU's kernels against torch's own operations, in Triton's interpreter (a process of its own: it is
chosen on import).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton", reason="the kernels need triton")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

POOLING = """
import torch
from vsplade.encode.modernvbert.pooling import _by_kernel, max_logits

torch.manual_seed(0)
for length, terms, kind in ((1, 3, torch.float32), (130, 70, torch.float32), (64, 64, torch.bfloat16)):
    features = torch.randn(2, length, 8).round().to(kind)   # whole numbers: many ties
    weight, bias = torch.randn(terms, 8).round().to(kind), torch.randn(terms).to(kind)
    mask = (torch.rand(2, length) < 0.7).long()
    mask[:, -1] = 1
    for seen in (None, mask):
        ours = max_logits(features, weight, bias, seen, 33, kernel=True)
        logits = (features.float() @ weight.float().T).to(kind)
        if seen is not None:
            logits = logits.masked_fill(seen[..., None] == 0, float("-inf"))
        assert torch.equal(ours[0], logits.amax(1) + bias)
        assert torch.equal(ours[1].long(), (logits == logits.amax(1, keepdim=True)).int().argmax(1))
        assert torch.equal(ours[1], max_logits(features, weight, bias, seen, 33, kernel=False)[1])

# gradients go through the places that the kernel found
parts = [torch.randn(2, 9, 4, requires_grad=True), torch.randn(30, 4, requires_grad=True), torch.randn(30)]
one, other = (
    torch.autograd.grad(max_logits(*parts, None, 7, kernel=way)[0].square().sum(), parts[:2])
    for way in (True, False)
)
assert all(torch.allclose(a, b) for a, b in zip(one, other))

# a number that is none is not hidden by larger ones
broken = torch.randn(1, 200, 5)
broken[0, 70, 3] = float("nan")
best, where = torch.empty(1, 5), torch.empty(1, 5, dtype=torch.int32)
_by_kernel(broken, None, best, where)
assert best.isnan().tolist() == [[False, False, False, True, False]] and int(where.max()) < 200
print("same")
"""

TOWER = """
import torch
from vsplade.encode.modernvbert import kernels, text_tower, tower

torch.manual_seed(0)
for rows, width in ((7, 48), (3, 64)):
    x = torch.randn(rows, width)
    norm = tower.Norm(torch.randn(width), torch.randn(width), 1e-6, torch.randn(width))
    assert torch.allclose(tower.launch_norm(kernels.norm_rows, x, norm), norm(x), atol=1e-5)

tiles = torch.randint(0, 256, (2, 3, 24, 24), dtype=torch.uint8)
made = tower.launch_patches(kernels.patch_rows, tiles, 8, 0.4, 0.3, torch.float32)
pixels = (tiles / 255 - 0.4) / 0.3
weight = torch.randn(10, 3, 8, 8)
wanted = torch.nn.functional.conv2d(pixels, weight, stride=8).flatten(2).transpose(1, 2).reshape(-1, 10)
assert torch.allclose(made @ weight.flatten(1).T, wanted, atol=1e-3)

qkv = torch.randn(2 * 5, 3 * 3 * 8)   # two pages of five positions, three heads
cosine, sine = torch.randn(1, 5, 8), torch.randn(1, 5, 8)
turned, plain = qkv.clone(), qkv.clone()
text_tower.launch_rotate(kernels.rotate_heads, turned, cosine, sine, 3)
text_tower.rotate(plain, cosine, sine, 3)
assert torch.allclose(turned, plain, atol=1e-5) and not torch.allclose(turned, qkv)
assert torch.equal(turned[:, 48:], qkv[:, 48:])
both = torch.randn(7, 2 * 12)
assert torch.allclose(text_tower.launch_gate(kernels.gate_rows, both), text_tower.gate(both), atol=1e-5)
print("same")
"""


WHOLE = """
import sys
from pathlib import Path
import torch
from tests.encode.modernvbert import tiny
from vsplade.encode.modernvbert import checkpoint, pooling, text_tower, tower

model = checkpoint.load(tiny.write_folder(Path(sys.argv[1]), tiny.released_tensors())).model
ids = torch.randint(0, 500, (2, 50), generator=torch.Generator().manual_seed(0))
ids[:, 5:37] = tiny.IMAGE_TOKEN
mask = torch.ones_like(ids)
mask[1, 44:] = 0
shape = (2 * 32 // tiny.TOKENS_A_TILE, 3, tiny.TILE, tiny.TILE)
tiles = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
with torch.inference_mode():
    wanted = model(ids, mask, (tiles / 255 - 0.5) / 0.5)
    assert model.for_encoding(0.5, 0.5)
    for module in (pooling, text_tower, tower):
        module.kernels_run_on = lambda tensor: True
    ours = model(ids, mask, tiles)
assert torch.allclose(ours.logits, wanted.logits, atol=1e-4), (ours.logits - wanted.logits).abs().max()
assert (ours.positions == wanted.positions).float().mean() > 0.99
print("same")
"""

SCRIPTS = {"pooling": POOLING, "towers": TOWER, "whole": WHOLE}


def run_interpreted(script: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "same", done.stderr


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_kernels_give_what_torch_gives(script: str, tmp_path: Path) -> None:
    run_interpreted(script, tmp_path)
