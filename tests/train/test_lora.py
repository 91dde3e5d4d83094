"""Adapters: the value and gradients of the plain formula, and what they keep for the way back."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from vsplade.train.lora import LoraLinear


def adapter(dtype: torch.dtype = torch.float32) -> LoraLinear:
    torch.manual_seed(0)
    made = LoraLinear(torch.nn.Linear(16, 48), 4, 8.0, torch.Generator().manual_seed(0))
    torch.nn.init.normal_(made.up)
    return made.to(dtype)


def test_value_and_gradients_are_the_formulas() -> None:
    ours = adapter(torch.float64)
    inputs = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    plain = ours.base(inputs) + 2.0 * (inputs @ ours.down.T @ ours.up.T)
    wanted = (inputs, ours.down, ours.up)
    assert torch.allclose(ours(inputs), plain)
    found = torch.autograd.grad(ours(inputs).square().sum(), wanted)
    for one, other in zip(found, torch.autograd.grad(plain.square().sum(), wanted), strict=True):
        assert torch.allclose(one, other)


def test_nothing_of_the_outputs_size_is_kept() -> None:
    ours, inputs = adapter(), torch.randn(100, 16, requires_grad=True)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autocast("cpu", torch.bfloat16), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        out = ours(inputs)
    assert out.dtype == torch.bfloat16
    weights = 2 * sum(tensor.numel() for tensor in (ours.base.weight, ours.down, ours.up))
    assert sum(kept.values()) <= 2 * 100 * (16 + 4) + weights  # the input, cast, and the low rank's numbers
