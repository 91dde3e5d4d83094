"""The reader's network: shapes, what a cell sees, and that a page's place does not matter."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the network needs torch: pip install 'vsplade[train]'")

from vsplade.encode.gpu.network import (
    CHARACTER_CLASSES,
    NetworkConfig,
    Reader,
    cell_features,
)
from vsplade.encode.reader.ink_windows import CELL
from vsplade.encode.tokenizer import Tokenizer

SMALL = NetworkConfig(vocabulary=300, fine=8, middle=16, coarse=24, hidden=16, rank=8, coarse_blocks=1)


@pytest.fixture
def reader() -> Reader:
    torch.manual_seed(0)
    return Reader(SMALL).eval()


def test_the_default_vocabulary_is_the_packaged_one() -> None:
    assert NetworkConfig().vocabulary == len(Tokenizer.load())


@pytest.mark.parametrize(("height", "width"), [(16, 16), (64, 160), (512, 32)])
def test_shapes(reader: Reader, height: int, width: int) -> None:
    word, fine, coarse, middle = reader.trunk(torch.rand(2, 1, height, width))
    rows, columns = height // CELL, width // CELL
    assert word.shape == (2, rows, columns)
    assert fine.shape == middle.shape == (2, SMALL.middle, rows, columns)
    assert coarse.shape == (2, SMALL.coarse, rows // 2, columns // 2)
    assert reader.characters(middle).shape == (2, 2 * CHARACTER_CLASSES, rows, columns)


def test_a_cell_is_described_by_itself_and_the_coarse_cell_around_it() -> None:
    fine = torch.arange(2 * 3 * 4 * 6.0).view(2, 3, 4, 6)
    coarse = -torch.arange(2 * 2 * 2 * 3.0).view(2, 2, 2, 3)
    got = cell_features(fine, coarse, torch.tensor([1, 0]), torch.tensor([3, 0]), torch.tensor([4, 1]))
    assert got[0].tolist() == [*fine[1, :, 3, 4].tolist(), *coarse[1, :, 1, 2].tolist()]
    assert got[1].tolist() == [*fine[0, :, 0, 1].tolist(), *coarse[0, :, 0, 0].tolist()]


def test_the_head_takes_what_cells_give(reader: Reader) -> None:
    _, fine, coarse, _ = reader.trunk(torch.rand(1, 1, 32, 32))
    zero = torch.zeros(5, dtype=torch.long)
    assert reader.head(cell_features(fine, coarse, zero, zero, zero)).shape == (5, SMALL.vocabulary)


def test_moving_the_page_by_coarse_cells_moves_the_answer(reader: Reader) -> None:
    """No position is learnt by heart: inside, away from the borders, the answer moves with the ink."""
    torch.manual_seed(2)
    page = torch.zeros(1, 1, 320, 480)
    page[:, :, 140:156, 200:260] = torch.rand(16, 60)
    moved = torch.roll(page, (16, 32), (2, 3))
    with torch.no_grad():
        here, there = reader.trunk(page)[0][0], reader.trunk(moved)[0][0]
    inner = (slice(14, 24), slice(22, 36))
    assert torch.allclose(torch.roll(here, (2, 4), (0, 1))[inner], there[inner], atol=1e-5)


def test_few_cells_fire_at_the_start(reader: Reader) -> None:
    with torch.no_grad():
        word = reader.trunk(torch.rand(1, 1, 128, 128))[0]
    assert float(torch.sigmoid(word).mean()) < 0.2


def test_settings_go_through_json(reader: Reader) -> None:
    assert NetworkConfig(**SMALL.to_json()) == SMALL
