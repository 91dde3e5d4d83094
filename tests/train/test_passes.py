"""The passes of a training step beside transformers': losses and gradients, and the model as it was."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from vsplade.train.loop import Run, Trainer
from vsplade.train.pairs import FolderPairs
from vsplade.train.passes import Passes
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
    backbone: Path, out: Path, images: FolderPairs, passes: Callable[[Trainer], Passes], **changes: Any
) -> tuple[float, dict[str, Any], Trainer]:
    """The loss of the first batch, and the gradient of everything that learns."""
    config = dataclasses.replace(CONFIG, **changes)
    trainer = Trainer(config, Run(backbone, out), images)
    trainer.passes = passes(trainer)
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


def assert_equal(ours: dict[str, Any], gradients: dict[str, Any]) -> None:
    """Up to rounding. A gradient of one number is a sum of many of both signs, which nearly cancel out."""
    for name, gradient in gradients.items():
        near = 1e-3 if gradient.numel() == 1 else 1e-4
        assert torch.allclose(ours[name], gradient, atol=near * float(gradient.abs().max()) + 1e-9), name


def transformers(trainer: Trainer) -> Passes:
    return Passes(trainer.model)


def test_loss_and_gradients_are_those_of_transformers(backbone: Path, tmp_path: Path) -> None:
    images = pairs(tmp_path / "pages", ((128, 64), (128, 128)))
    loss, gradients, _ = found(backbone, tmp_path / "a", images, transformers)
    again, ours, trainer = found(backbone, tmp_path / "b", images, Trainer.fast_passes)
    assert trainer.passes.eyes is not None
    assert again == pytest.approx(loss, rel=1e-5)
    assert ours.keys() == gradients.keys()
    assert len(ours) > 10
    assert_equal(ours, gradients)


def test_a_step_leaves_the_model_as_transformers_has_it(backbone: Path, tmp_path: Path) -> None:
    *_, trainer = found(backbone, tmp_path / "a", pairs(tmp_path / "pages"), Trainer.fast_passes)
    assert trainer.model.tower is None
    assert trainer.model.text_tower is None


@pytest.mark.parametrize("changes", [{"lora_rank": 0}, {"lora_vision": True}])
def test_a_vision_tower_that_learns_is_transformers(
    backbone: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    *_, trainer = found(backbone, tmp_path / "a", pairs(tmp_path / "pages"), Trainer.fast_passes, **changes)
    assert trainer.passes.eyes is None
