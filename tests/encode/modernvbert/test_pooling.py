"""Chunked pooling against the naive one: values, places, gradients, and the memory it takes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vsplade.encode.modernvbert import pooling  # noqa: E402
from vsplade.encode.modernvbert.pooling import max_logits, sparse_weights  # noqa: E402


def problem(dtype: torch.dtype = torch.float64, terms: int = 23) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(3, 7, 6, generator=generator, dtype=dtype)
    weight = torch.randn(terms, 6, generator=generator, dtype=dtype)
    bias = torch.randn(terms, generator=generator, dtype=dtype)
    mask = torch.ones(3, 7, dtype=torch.long)
    mask[1, 4:] = 0
    mask[2, :3] = 0
    return features, weight, bias, mask


def naive(
    features: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    logits = features @ weight.T + bias
    return logits.masked_fill(mask[..., None] == 0, float("-inf")).max(1)


@pytest.mark.parametrize("terms", [1, 5, 23, 1000, 0])
def test_equal_to_naive(terms: int) -> None:
    features, weight, bias, mask = problem()
    best, where = max_logits(features, weight, bias, mask, terms)
    expected = naive(features, weight, bias, mask)
    assert torch.allclose(best, expected.values, atol=1e-12)
    assert torch.equal(where.long(), expected.indices)


@pytest.mark.parametrize("pairs", [4, 1 << 15])
def test_gradients(monkeypatch: pytest.MonkeyPatch, pairs: int) -> None:
    monkeypatch.setattr(pooling, "PAIRS", pairs)
    features, weight, bias, mask = problem()
    for tensor in (features, weight, bias):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda f, w, b: max_logits(f, w, b, mask, 5)[0], (features, weight, bias))
    target = torch.randn(3, 23, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    ours = torch.autograd.grad(
        (sparse_weights(max_logits(features, weight, bias, mask, 5)[0], 0.4) * target).sum(),
        (features, weight, bias),
    )
    theirs = torch.autograd.grad(
        (torch.log1p(torch.relu(naive(features, weight, bias, mask).values * 0.4)) * target).sum(),
        (features, weight, bias),
    )
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_frozen_parts_get_no_gradient() -> None:
    features, weight, bias, mask = problem()
    features.requires_grad_()
    max_logits(features, weight, bias, mask, 5)[0].sum().backward()
    assert features.grad is not None
    assert weight.grad is None
    assert bias.grad is None


def test_activation_after_pooling_is_activation_before() -> None:
    features, weight, bias, mask = problem()
    allowed = torch.ones(23, dtype=torch.float64)
    allowed[3] = 0
    ours = sparse_weights(max_logits(features, weight, bias, mask)[0], 0.4, allowed)
    before = torch.log1p(torch.relu((features @ weight.T + bias) * 0.4)) * mask[..., None]
    assert torch.allclose(ours, before.amax(1) * allowed, atol=1e-12)


def test_half_precision_stays_near() -> None:
    features, weight, bias, mask = problem(torch.float32, 300)
    exact = max_logits(features, weight, bias, mask)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = max_logits(features, weight, bias, mask)[0]
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).abs().max() < 0.1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("positions", [1, 883, 16 * 883, 32 * 883, 42 * 883, 1 << 20])
def test_chunks_are_aligned_and_within_the_limit(device: str, positions: int) -> None:
    """883 positions are an A4 page's; sixteen of them once made chunks of 2,375 terms."""
    terms = pooling.terms_at_a_time(device, positions)
    assert terms % 64 == 0
    most = pooling.LOGITS.get(device, pooling.LOGITS_ELSEWHERE)
    assert 256 <= terms <= max(256, most // positions)


def test_logits_of_all_positions_are_never_held() -> None:
    """The largest tensor that the forward and backward pass make, counted by torch itself."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            made = func(*args, **(kwargs or {}))
            for tensor in made if isinstance(made, tuple) else (made,):
                if isinstance(tensor, torch.Tensor):
                    self.elements = max(self.elements, tensor.numel())
            return made

    features = torch.randn(2, 64, 8, requires_grad=True)
    weight, bias, mask = torch.randn(5000, 8, requires_grad=True), torch.randn(5000), torch.ones(2, 64)
    with Largest() as ours:
        sparse_weights(max_logits(features, weight, bias, mask, 100)[0], 0.4).sum().backward()
    with Largest() as naive_one:
        torch.log1p(torch.relu((features @ weight.T + bias) * 0.4)).amax(1).sum().backward()
    assert naive_one.elements == 2 * 64 * 5000
    assert ours.elements * 8 <= naive_one.elements
