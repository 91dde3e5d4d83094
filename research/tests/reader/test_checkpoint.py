"""Checkpoints: the same tensors back, mistakes named, and never half a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.reader.weights import load_weights
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.errors import InputError
from vsplade.train import training_checkpoint


def test_round_trip(tmp_path: Path, tiny: NetworkConfig) -> None:
    torch.manual_seed(0)
    model = Reader(tiny)
    path = tmp_path / "a.safetensors"
    header = {"step": 3, "network": tiny.to_json(), "spent": 1.25}
    training_checkpoint.save(path, {f"model.{n}": t for n, t in model.state_dict().items()}, header)
    tensors, read = training_checkpoint.load(path)
    assert read == header
    other = Reader(tiny)
    training_checkpoint.load_model(other, tensors)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_an_extra_and_a_misshapen_tensor_are_named(tiny: NetworkConfig) -> None:
    model = Reader(tiny)
    state = {f"model.{n}": t for n, t in model.state_dict().items()}
    del state["model.head.narrow.bias"]
    state["model.head.extra"] = torch.zeros(1)
    state["model.trunk.word.bias"] = torch.zeros(2)
    before = model.trunk.to_fine[0].weight.clone()
    state["model.trunk.to_fine.0.weight"] = before + 1
    with pytest.raises(InputError) as caught:
        training_checkpoint.load_model(model, state)
    for name in ("head.narrow.bias", "head.extra", "trunk.word.bias"):
        assert name in str(caught.value)
    assert torch.equal(model.trunk.to_fine[0].weight, before), "nothing is loaded when something is wrong"


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkpoint"):
        training_checkpoint.load(tmp_path / "none.safetensors")


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    training_checkpoint.save(path, {"model.x": torch.ones(2)}, {"step": 1})

    def fails(tensors: Any, target: Path, metadata: Any) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(training_checkpoint, "save_file", fails)
    with pytest.raises(OSError, match="no space"):
        training_checkpoint.save(path, {"model.x": torch.zeros(2)}, {"step": 2})
    tensors, header = training_checkpoint.load(path)
    assert header["step"] == 1
    assert tensors["model.x"].tolist() == [1, 1]


def stepped(model: torch.nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    sum((p**2).sum() for p in model.parameters()).backward()
    optimizer.step()
    return optimizer


def test_optimizer_state_comes_back_in_the_memory_format_of_the_weights() -> None:
    torch.manual_seed(0)
    model = torch.nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)
    optimizer = stepped(model)
    tensors = {n: t.contiguous() for n, t in training_checkpoint.optimizer_tensors(optimizer).items()}
    fresh = torch.optim.AdamW(model.parameters(), lr=0.1)
    assert training_checkpoint.load_optimizer(fresh, tensors)
    state = fresh.state[model.weight]
    assert state["exp_avg"].stride() == model.weight.stride()
    assert torch.equal(state["exp_avg"], optimizer.state[model.weight]["exp_avg"])
    assert float(state["step"]) == 1


def test_a_shipped_model_has_no_optimizer_state() -> None:
    model = torch.nn.Linear(2, 2)
    assert not training_checkpoint.load_optimizer(
        torch.optim.AdamW(model.parameters()), {"model.weight": model.weight}
    )


def test_a_reader_of_another_vocabulary_is_refused(tmp_path: Path, tiny: NetworkConfig) -> None:
    path = tmp_path / "a.safetensors"
    training_checkpoint.save(
        path, {"model.x": torch.ones(2)}, {"network": tiny.to_json(), "vocabulary": "other"}
    )
    with pytest.raises(InputError, match="another vocabulary"):
        load_weights(path)


def test_something_else_is_refused(tmp_path: Path) -> None:
    training_checkpoint.save(tmp_path / "a.safetensors", {"x": torch.ones(1)}, {})
    with pytest.raises(InputError, match="not a checkpoint of the reader"):
        load_weights(tmp_path / "a.safetensors")
