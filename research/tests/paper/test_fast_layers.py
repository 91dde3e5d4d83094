"""The text layers' training passes beside transformers': losses and gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.train.test_passes import assert_equal, found, pairs

from research.paper import fast_layers
from research.paper.fast_layers import Speed, fast_passes
from vsplade.train.loop import Trainer
from vsplade.train.passes import Passes


def by(speed: Speed) -> Callable[[Trainer], Passes]:
    return lambda trainer: fast_passes(
        trainer.model, speed, trainer.kind, trainer.config.gradient_checkpointing, trainer.settings
    )


@pytest.mark.parametrize("vision", [False, True])
@pytest.mark.parametrize("sizes", [((128, 128), (128, 128)), ((128, 64), (128, 128))])
def test_loss_and_gradients_are_transformers(
    backbone: Path, tmp_path: Path, vision: bool, sizes: tuple[tuple[int, int], ...]
) -> None:
    images = pairs(tmp_path / "pages", sizes)
    plain = Speed(own_passes=False)
    loss, gradients, before = found(backbone, tmp_path / "a", images, by(plain), lora_vision=vision)
    again, ours, trainer = found(backbone, tmp_path / "b", images, by(Speed(kept=1)), lora_vision=vision)
    assert before.passes.text is None
    assert before.passes.eyes is None
    assert trainer.passes.text is not None
    assert (trainer.passes.eyes is None) == vision
    assert again == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == gradients.keys()
    assert len(ours) > 10
    assert_equal(ours, gradients)


@pytest.mark.parametrize("vision", [False, True])
@pytest.mark.parametrize("kept", [0, 99])
@pytest.mark.parametrize("sizes", [((128, 128), (128, 128)), ((128, 64), (128, 128))])
def test_the_pass_without_padding_learns_the_same(
    backbone: Path, tmp_path: Path, sizes: Any, kept: int, vision: bool, monkeypatch: Any
) -> None:
    images = pairs(tmp_path / "pages", sizes)
    loss, gradients, _ = found(backbone, tmp_path / "a", images, by(Speed(fused=False)), lora_vision=vision)
    monkeypatch.setattr(fast_layers, "can_pack", lambda *_: True)
    monkeypatch.setattr(fast_layers, "of_text", lambda speed, _: speed)  # also where it is not the default
    monkeypatch.setattr(fast_layers.LearningText, "_pass", None)
    again, ours, _ = found(backbone, tmp_path / "b", images, by(Speed(kept=kept)), lora_vision=vision)
    assert again == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == gradients.keys()
    assert_equal(ours, gradients)


def test_in_half_precision_the_loss_is_near(backbone: Path, tmp_path: Path) -> None:
    images = pairs(tmp_path / "pages")
    exact = found(backbone, tmp_path / "a", images, by(Speed()))[0]
    half = found(backbone, tmp_path / "b", images, by(Speed()), precision="bfloat16")[0]
    theirs = found(backbone, tmp_path / "c", images, by(Speed(own_passes=False)), precision="bfloat16")[0]
    assert abs(half - exact) < max(0.02 * abs(exact), 3 * abs(theirs - exact))


def test_all_of_a_network_learns_through_transformers(backbone: Path, tmp_path: Path) -> None:
    *_, trainer = found(backbone, tmp_path / "a", pairs(tmp_path / "pages"), by(Speed()), lora_rank=0)
    assert trainer.passes.text is None
    assert trainer.passes.eyes is None
