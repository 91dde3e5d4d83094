"""The training passes of our own beside transformers': losses and gradients."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from vsplade.train import fast_layers
from vsplade.train.fast_layers import Speed
from vsplade.train.loop import Run, Trainer
from vsplade.train.pairs import FolderPairs
from vsplade.train.training_config import PaperConfig

CONFIG = PaperConfig(batch=2, steps=1, accumulate=1, lora_rank=2, precision="float32")


def pairs(folder: Path, sizes: tuple[tuple[int, int], ...] = ((128, 128), (128, 128))) -> FolderPairs:
    folder.mkdir()
    rows = []
    for n, size in enumerate(sizes):
        Image.effect_noise(size, 90).convert("RGB").save(folder / f"{n}.png")
        rows.append({"image": f"{n}.png", "query": f"red {n}", "caption": "green and blue " * (n + 1)})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return FolderPairs(folder, True)


def found(
    backbone: Path, out: Path, images: FolderPairs, speed: Speed, **changes: Any
) -> tuple[float, dict[str, Any], Trainer]:
    """The loss of the first batch, and the gradient of everything that learns."""
    config = dataclasses.replace(CONFIG, **changes)
    trainer = Trainer(config, Run(backbone, out, speed=speed), images)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in trainer.learned.items():
        if name.endswith(".up"):  # it starts at 0, where nothing reaches the other half
            torch.nn.init.normal_(parameter, std=0.02, generator=generator)
    batch = trainer.loader.make(0)
    total = trainer.losses(batch)[0].total
    total.backward()
    return (
        float(total.detach()),
        {n: p.grad for n, p in trainer.learned.items() if p.grad is not None},
        trainer,
    )


@pytest.mark.parametrize("vision", [False, True])
@pytest.mark.parametrize("sizes", [((128, 128), (128, 128)), ((128, 64), (128, 128))])
def test_loss_and_gradients_are_transformers(
    backbone: Path, tmp_path: Path, vision: bool, sizes: tuple[tuple[int, int], ...]
) -> None:
    images = pairs(tmp_path / "pages", sizes)
    plain = Speed(own_passes=False)
    loss, gradients, before = found(backbone, tmp_path / "a", images, plain, lora_vision=vision)
    again, ours, trainer = found(backbone, tmp_path / "b", images, Speed(kept=1), lora_vision=vision)
    assert before.fast.text is None
    assert before.fast.eyes is None
    assert trainer.fast.text is not None
    assert (trainer.fast.eyes is None) == vision
    assert again == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == gradients.keys()
    assert len(ours) > 10
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        assert torch.allclose(ours[name], gradient, atol=1e-4 * scale + 1e-9), name


@pytest.mark.parametrize("vision", [False, True])
@pytest.mark.parametrize("kept", [0, 99])
@pytest.mark.parametrize("sizes", [((128, 128), (128, 128)), ((128, 64), (128, 128))])
def test_the_pass_without_padding_learns_the_same(
    backbone: Path, tmp_path: Path, sizes: Any, kept: int, vision: bool, monkeypatch: Any
) -> None:
    images = pairs(tmp_path / "pages", sizes)
    loss, gradients, _ = found(backbone, tmp_path / "a", images, Speed(fused=False), lora_vision=vision)
    monkeypatch.setattr(fast_layers, "can_pack", lambda *_: True)
    monkeypatch.setattr(fast_layers, "of_text", lambda speed, _: speed)  # also where it is not the default
    monkeypatch.setattr(fast_layers.LearningText, "_pass", None)
    again, ours, _ = found(backbone, tmp_path / "b", images, Speed(kept=kept), lora_vision=vision)
    assert again == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == gradients.keys()
    for name, gradient in gradients.items():
        scale = float(gradient.abs().max())
        assert torch.allclose(ours[name], gradient, atol=1e-4 * scale + 1e-9), name


def test_in_half_precision_the_loss_is_near(backbone: Path, tmp_path: Path) -> None:
    images = pairs(tmp_path / "pages")
    exact = found(backbone, tmp_path / "a", images, Speed())[0]
    half = found(backbone, tmp_path / "b", images, Speed(), precision="bfloat16")[0]
    theirs = found(backbone, tmp_path / "c", images, Speed(own_passes=False), precision="bfloat16")[0]
    assert abs(half - exact) < max(0.02 * abs(exact), 3 * abs(theirs - exact))


def test_a_step_leaves_the_model_as_transformers_has_it(backbone: Path, tmp_path: Path) -> None:
    *_, trainer = found(backbone, tmp_path / "a", pairs(tmp_path / "pages"), Speed())
    assert trainer.model.tower is None
    assert trainer.model.text_tower is None


def test_all_of_a_network_learns_through_transformers(backbone: Path, tmp_path: Path) -> None:
    *_, trainer = found(backbone, tmp_path / "a", pairs(tmp_path / "pages"), Speed(), lora_rank=0)
    assert trainer.fast.text is None
    assert trainer.fast.eyes is None
