"""The kernels of the training pass and of 8-bit products against torch's own operations."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.encode.modernvbert import tiny
from tests.encode.modernvbert.test_kernels import run_interpreted

from vsplade.errors import InputError

torch = pytest.importorskip("torch")
pytest.importorskip("triton", reason="the kernels need triton")
pytest.importorskip("transformers")

from research.paper import tower_eight
from vsplade.encode.modernvbert import checkpoint

TRAINING = """
import torch
from research.paper import fused_kernels, fused_text

torch.manual_seed(0)
for rows, width in ((7, 48), (4, 64)):
    x, weight = torch.randn(rows, width), torch.randn(width)
    y, to_whole, to_out = (torch.randn(rows, width) for _ in range(3))
    ours = fused_text.launch_add_norm(fused_kernels.add_norm_rows, x, y, weight, 1e-5)
    one, other = x.clone().requires_grad_(), y.clone().requires_grad_()
    wanted = fused_text.AddNorm.apply(one, other, weight, 1e-5)
    for a, b in zip(ours, wanted):
        assert torch.allclose(a, b, atol=1e-5)
    plain = torch.nn.functional.layer_norm(one + other, (width,), weight, None, 1e-5)
    assert torch.allclose(wanted[1], plain, atol=1e-5)
    for also in (to_whole, None):
        back = fused_text.launch_add_norm_back(
            fused_kernels.add_norm_back, ours[0], weight, to_out, also, 1e-5, torch.float32
        )
        loss = (plain * to_out).sum() + (0 if also is None else ((one + other) * also).sum())
        (exact,) = torch.autograd.grad(loss, one, retain_graph=True)
        assert torch.allclose(back[0], exact, atol=1e-4) and torch.equal(back[0], back[1])

both = torch.randn(7, 2 * 12, requires_grad=True)
given = torch.randn(7, 12)
value, factor = both.chunk(2, -1)
out = torch.nn.functional.gelu(value) * factor
(exact,) = torch.autograd.grad((out * given).sum(), both)
for back in (
    fused_text.launch_gate_back(fused_kernels.gate_back, both.detach(), given),
    fused_text._gate_back(both.detach(), given),
):
    assert torch.allclose(back[0], exact, atol=1e-5) and torch.allclose(back[1], out, atol=1e-5)
print("same")
"""

EIGHT = """
import torch
from research.paper import kernels_eight, tower_eight
from vsplade.encode.modernvbert import tower

torch.manual_seed(0)
def same(ours, wanted):
    assert ours[0].dtype == wanted[0].dtype and torch.allclose(ours[1], wanted[1], rtol=1e-5)
    one, other = ours[0].float(), wanted[0].float()
    # One step, where a number is at a border; and the interpreter rounds 126 up to 64, not to 128.
    near = ((one - other).abs() <= 0.13 * other.abs().clamp(min=1)) | (2 * one == other)
    assert near.all() and (one != other).float().mean() < 0.05

for rows, width in ((7, 48), (4, 64)):
    x, added = torch.randn(rows, width), torch.randn(rows, width)
    norm = tower.Norm(torch.randn(width), torch.randn(width), 1e-6, torch.randn(width))
    for more in (None, added):
        mine, theirs = x.clone(), x.clone()
        same(
            tower_eight.launch_norm_to_eight(kernels_eight.norm_to_eight, norm, mine, more),
            tower_eight.norm_rows(norm, theirs, more),
        )
        assert torch.equal(mine, theirs)
    same(tower_eight.launch_gelu_to_eight(kernels_eight.gelu_to_eight, x), tower_eight.gelu_rows(x))
print("same")
"""


@pytest.mark.parametrize("script", [TRAINING, EIGHT], ids=["training", "eight"])
def test_kernels_give_what_torch_gives(script: str, tmp_path: Path) -> None:
    run_interpreted(script, tmp_path)


def test_eight_bits_change_little(released: Path) -> None:
    model = checkpoint.load(released).model
    tiles = torch.randint(0, 256, (3, 3, tiny.TILE, tiny.TILE), dtype=torch.uint8)
    with torch.inference_mode():
        assert model.for_encoding(0.5, 0.5)
        exact = model.see(tiles)
        model.tower = tower_eight.EightBitTower(model.body.vision_model, 0.5, 0.5)
        coarse = model.see(tiles)
    apart = (coarse - exact).norm() / exact.norm()
    assert 1e-4 < apart < 0.1


def test_a_gpu_without_eight_bits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old GPU")
    for capability, fits in (((8, 0), False), ((9, 0), True), ((10, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        if fits:
            tower_eight.check_device(torch.device("cuda"))
            continue
        with pytest.raises(InputError, match="Old GPU has none"):
            tower_eight.check_device(torch.device("cuda"))
