"""Rounding to 8 bits while training: what it keeps, and that it can be switched off."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from research.reader.rounding import round_to_8_bits, rounded
from vsplade.encode.gpu.network import NetworkConfig, Reader


@pytest.fixture
def reader() -> Reader:
    torch.manual_seed(0)
    config = NetworkConfig(vocabulary=50, fine=8, middle=16, coarse=24, hidden=32, rank=16)
    model: Reader = Reader(config).eval()
    return model


def test_rounding_keeps_255_steps_and_the_gradient() -> None:
    x = torch.randn(3, 4, 50, 50, requires_grad=True)
    kept = rounded(x)
    kept.sum().backward()
    low, high = float(x.amin((1, 2, 3)).mean()), float(x.amax((1, 2, 3)).mean())
    step = (high - low) / 255
    inside = (x >= low) & (x <= high)
    assert 100 < len(kept.unique().detach().div(step).round().unique()) <= 257
    assert float((kept - x)[inside].detach().abs().max()) <= 0.501 * step
    assert float(kept.detach().max()) <= high + step, "what is beyond the range is cut off"
    assert x.grad is not None
    assert bool((x.grad == 1).all())


def test_rounding_is_off_until_it_is_asked_for(reader: Reader) -> None:
    picture = torch.rand(2, 1, 32, 64)
    plain = reader.trunk(picture)
    round_to_8_bits(reader.trunk)
    between = reader.trunk(picture)
    round_to_8_bits(reader.trunk, on=False)
    again = reader.trunk(picture)
    for before, rough, after in zip(plain, between, again, strict=True):
        assert torch.equal(before, after)
        assert not torch.equal(before, rough)
        assert float((before - rough).norm()) < 0.2 * float(before.norm())


def test_a_blank_picture_survives_rounding(reader: Reader) -> None:
    round_to_8_bits(reader.trunk)
    assert all(bool(t.isfinite().all()) for t in reader.trunk(torch.zeros(1, 1, 32, 32)))
