"""The losses, against values worked out by hand, and their gradients."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")


from research.reader.reading import character_loss, name_weights, reader_losses, word_loss
from research.reader.targets import Targets
from vsplade.encode.gpu.network import CHARACTER_CLASSES, NetworkConfig, Reader, cell_features

NONE = torch.zeros(0, dtype=torch.long)


def word_targets(word: torch.Tensor, counted: torch.Tensor) -> Targets:
    return Targets(word, counted, NONE, NONE, NONE, NONE, NONE, NONE)


def test_word_loss_and_its_gradient() -> None:
    logits = torch.tensor([[[0.0, 2.0], [-1.0, 3.0]]], requires_grad=True)
    word = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    counted = torch.tensor([[[True, True], [True, False]]])
    loss = word_loss(logits, word_targets(word, counted))
    by_hand = (math.log(2) + math.log(1 + math.exp(2)) + math.log(1 + math.exp(1))) / 2
    assert loss.item() == pytest.approx(by_hand)
    loss.backward()
    expected = (torch.sigmoid(logits.detach()) - word) * counted / 2
    assert logits.grad is not None
    assert torch.allclose(logits.grad, expected, atol=1e-6)


def test_word_loss_of_an_empty_page_is_finite() -> None:
    empty = torch.zeros(1, 2, 2)
    loss = word_loss(empty, word_targets(empty, torch.ones(1, 2, 2, dtype=torch.bool)))
    assert loss.item() == pytest.approx(4 * math.log(2))


def test_frequent_terms_weigh_less_and_the_mean_is_one() -> None:
    weights = name_weights(torch.tensor([7, 7, 7, 7, 2]), 10)
    assert float(weights.mean()) == pytest.approx(1)
    assert float(weights[4] / weights[0]) == pytest.approx(4**0.4)


def test_character_loss_weighs_blanks_less_and_ignores_the_unsure() -> None:
    logits = torch.zeros(1, 2 * CHARACTER_CLASSES, 1, 2, requires_grad=True)
    target = torch.tensor([[[0, 3, -1, 0]]])
    loss = character_loss(logits, target)
    assert loss.item() == pytest.approx(math.log(CHARACTER_CLASSES))
    loss.backward()
    assert logits.grad is not None
    halves = logits.grad.view(2, CHARACTER_CLASSES, 2)  # half, class, column
    total = 1 + 0.05 + 0.05
    assert float(halves[1, 3, 0]) == pytest.approx((1 / CHARACTER_CLASSES - 1) / total, rel=1e-4)
    assert float(halves[0, 0, 0]) == pytest.approx(0.05 * (1 / CHARACTER_CLASSES - 1) / total, rel=1e-4)
    assert float(halves[0, :, 1].abs().sum()) == 0  # the unsure half cell


def test_naming_looks_at_the_asked_cells(tiny: NetworkConfig) -> None:
    torch.manual_seed(0)
    model = Reader(tiny).eval()
    pictures = torch.rand(2, 1, 64, 64)
    word = torch.zeros(2, 8, 8)
    word[0, 2, 3] = word[1, 7, 0] = 1
    places = (torch.tensor([0, 1]), torch.tensor([2, 7]), torch.tensor([3, 0]))
    terms, em = torch.tensor([11, 22]), torch.tensor([8.0, 32.0])
    characters = torch.zeros(2, 8, 16, dtype=torch.long)
    targets = Targets(word, torch.ones(2, 8, 8, dtype=torch.bool), *places, terms, em, characters)
    outputs = model.trunk(pictures)
    losses = reader_losses(model, outputs, targets, 100, torch.Generator().manual_seed(1))
    logits = model.head(cell_features(outputs[1], outputs[2], *places))
    expected = torch.nn.functional.cross_entropy(logits, terms)
    assert losses.name.item() == pytest.approx(expected.item(), rel=1e-5)
    octaves = model.size(model.head.look(cell_features(outputs[1], outputs[2], *places)))[:, 0]
    assert losses.size.item() == pytest.approx((octaves - torch.tensor([3.0, 5.0])).abs().mean().item())
    assert sorted(losses.window.tolist()) == [0, 1]
    only_one = reader_losses(model, outputs, targets, 1, torch.Generator().manual_seed(1))
    assert len(only_one.right) == 1
    (losses.word + losses.name + losses.character + losses.size).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_batch_without_a_word_teaches_and_breaks_nothing(tiny: NetworkConfig) -> None:
    model = Reader(tiny).eval()
    empty = Targets(
        torch.zeros(1, 8, 8), torch.ones(1, 8, 8, dtype=torch.bool), NONE, NONE, NONE, NONE,
        torch.zeros(0), torch.zeros(1, 8, 16, dtype=torch.long),
    )  # fmt: skip
    losses = reader_losses(model, model.trunk(torch.zeros(1, 1, 64, 64)), empty, 10, torch.Generator())
    assert losses.name.item() == 0
    (losses.word + losses.name + losses.character + losses.size).backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)
