"""Checkpoints of an earlier form read the same page the same way."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from torch.nn import functional

from vsplade.encode.network import FOLD, NetworkConfig, Reader
from vsplade.errors import InputError
from vsplade.train import checkpoint, older

NOW = NetworkConfig(
    vocabulary=50, stem=12, fine=5, middle=6, coarse=7, middle_blocks=1, coarse_blocks=1, hidden=8, rank=4
)


@pytest.fixture
def early(tmp_path: Path) -> Path:
    """A checkpoint as the first reader's was: a 5 x 5 and a 3 x 3 convolution of stride 2 come first."""
    torch.manual_seed(0)
    state = Reader(NOW).state_dict()
    state["trunk.stem.0.weight"] = torch.randn(3, 1, 5, 5)
    state["trunk.to_fine.0.weight"] = torch.randn(5, 3, 3, 3)
    for name in ("weight", "bias", "running_mean", "running_var"):
        state[f"trunk.stem.1.{name}"] = torch.rand(3) + 0.5
        state[f"trunk.to_fine.1.{name}"] = torch.rand(5) + 0.5
    tensors = {f"model.{n}": t for n, t in state.items() if not n.startswith("size.")}
    tensors["optimizer.0.exp_avg"] = torch.zeros(3)
    path = tmp_path / "early.safetensors"
    checkpoint.save(path, tensors, {"network": {**NOW.to_json(), "stem": 3}, "step": 7})
    return path


def test_the_first_layers_compute_the_same(early: Path) -> None:
    raw, _ = checkpoint.load(early)
    picture = torch.rand(2, 1, 48, 64)
    expected = picture
    for name, padding in (("stem", 2), ("to_fine", 1)):
        part = {key.split(".", 3)[3]: t for key, t in raw.items() if key.startswith(f"model.trunk.{name}.")}
        expected = functional.conv2d(expected, part["0.weight"], stride=2, padding=padding)
        norm = (part[f"1.{key}"] for key in ("running_mean", "running_var", "weight", "bias"))
        expected = functional.relu(functional.batch_norm(expected, *norm))
    tensors, header = older.load(early)
    assert header["network"]["stem"] == 12
    assert header["step"] == 7
    model = Reader(NetworkConfig(**header["network"])).eval()
    checkpoint.load_model(model, tensors)
    x = functional.relu(model.trunk.stem(functional.pixel_unshuffle(picture, FOLD)))
    found = functional.relu(model.trunk.to_fine(functional.pad(x, (1, 0, 1, 0))))
    assert torch.allclose(found, expected, atol=1e-4)


def test_a_checkpoint_of_today_is_left_alone(tmp_path: Path) -> None:
    state = {f"model.{n}": t for n, t in Reader(NOW).state_dict().items()}
    state["optimizer.0.exp_avg"] = torch.ones(2)
    checkpoint.save(tmp_path / "a.safetensors", state, {"network": NOW.to_json()})
    tensors, header = older.load(tmp_path / "a.safetensors")
    assert header["network"] == NOW.to_json()
    assert tensors.keys() == state.keys()
    assert all(torch.equal(tensors[name], state[name]) for name in state)


def test_something_else_is_refused(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "a.safetensors", {"x": torch.ones(1)}, {})
    with pytest.raises(InputError, match="not a checkpoint of the reader"):
        older.load(tmp_path / "a.safetensors")
