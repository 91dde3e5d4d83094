"""8-bit products, emulated: what rounding does, and that the random model of the benchmarks can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from research.bench.fp8 import EightBits, loss, rounded
from research.bench.full_size import write_model
from vsplade.encode import load_encoder
from vsplade.types import Page


def test_rows_keep_three_bits_of_their_numbers() -> None:
    rows = torch.randn(40, 30) * torch.logspace(-6, 6, 40)[:, None]
    near = rounded(rows, 1)
    assert torch.equal(rounded(near, 1), near)
    large = rows.abs() > rows.abs().amax(1, keepdim=True) / 100
    assert ((near - rows).abs() / rows.abs())[large].max() <= 2**-4 + 1e-6
    assert not torch.equal(near, rows)


def test_products_in_here_are_of_eight_bits() -> None:
    a, b = torch.randn(5, 8), torch.randn(8, 3)
    with EightBits() as mode:
        product = a @ b
    assert mode.count == 1
    assert torch.equal(product, rounded(a, 1) @ rounded(b, 0))


def test_vectors_of_a_random_model_hardly_move(tmp_path: Path) -> None:
    encoder = load_encoder(str(write_model(tmp_path / "model", small=True)))
    noise = torch.randint(0, 255, (90, 70, 3), generator=torch.Generator().manual_seed(0))
    page = Page(id="p", image=Image.fromarray(noise.to(torch.uint8).numpy()), path="p")
    found = loss(encoder, [page])
    assert int(str(found["products"])) > 5
    assert 0.98 < float(str(found["cosine, least"])) < 1.0
