"""Export: the ONNX files say what torch says, in float nearly exactly and in 8 bits nearly."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="export needs onnx: pip install 'vsplade[train]'")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")
onnxruntime = pytest.importorskip("onnxruntime")

from research.reader.export import OPSET, best_terms, export, fold_norms
from research.reader.options import ExportOptions
from vsplade.encode.gpu.detect_torch import load_network
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.encode.reader.detect import fold
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

EXAMPLES = Path(__file__).parents[3] / "examples"


def lively(config: NetworkConfig) -> Reader:
    """A network whose norms do something, so that treating them wrongly would show."""
    torch.manual_seed(0)
    model = Reader(config)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.2, 0.2)
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    torch.nn.init.normal_(model.size.weight, std=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def reader() -> Reader:
    sizes = {"stem": 8, "fine": 12, "middle": 24, "coarse": 32, "hidden": 32, "rank": 16}
    return lively(NetworkConfig(vocabulary=500, middle_blocks=1, coarse_blocks=1, **sizes))


@pytest.fixture(scope="module")
def exported(reader: Reader, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    tensors = {f"model.{n}": t for n, t in reader.state_dict().items()}
    training_checkpoint.save(
        folder / "last.safetensors",
        tensors,
        {"network": reader.config.to_json(), "vocabulary": Tokenizer.load().fingerprint},
    )
    (folder / "pdfs").mkdir()
    shutil.copy(EXAMPLES / "report.pdf", folder / "pdfs")
    options = ExportOptions(
        checkpoint=folder / "last.safetensors", pdfs=folder / "pdfs", out=folder / "model", windows=4
    )
    result = export(options)
    assert result["bytes"]["trunk.onnx"] == (folder / "model" / "trunk.onnx").stat().st_size
    return folder / "model"


def pictures(height: int, width: int) -> torch.Tensor:
    torch.manual_seed(4)
    blocks = (torch.rand(1, 1, height // 4, width // 4) < 0.2).float()
    return torch.nn.functional.interpolate(blocks, scale_factor=4.0)


def run(path: Path, **inputs: np.ndarray) -> list[np.ndarray]:
    return list(onnxruntime.InferenceSession(str(path)).run(None, inputs))


def test_folding_the_norms_changes_nothing(reader: Reader) -> None:
    folded = Reader(reader.config).eval()
    folded.load_state_dict(reader.state_dict())
    fold_norms(folded)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in folded.modules())
    with torch.no_grad():
        for a, b in zip(reader.trunk(pictures(64, 96)), folded.trunk(pictures(64, 96)), strict=True):
            assert torch.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (96, 208)])
def test_float_trunk_agrees_at_any_size(reader: Reader, exported: Path, height: int, width: int) -> None:
    x = pictures(height, width)
    with torch.no_grad():
        expected = reader.trunk(x)[:3]
    for a, b in zip(expected, run(exported / "trunk.float.onnx", picture=fold(x[0, 0].numpy())), strict=True):
        assert np.abs(a.numpy() - b).max() < 1e-3


def test_trunk_in_8_bits_stays_near(reader: Reader, exported: Path) -> None:
    x = pictures(256, 256)
    with torch.no_grad():
        expected = reader.trunk(x)[:3]
    for a, b in zip(expected, run(exported / "trunk.onnx", picture=fold(x[0, 0].numpy())), strict=True):
        assert a.shape == b.shape
        assert np.abs(a.numpy() - b).mean() < 0.15 * float(a.std()) + 0.01
    assert (exported / "trunk.onnx").stat().st_size < (exported / "trunk.float.onnx").stat().st_size


def test_head_names_what_torch_names(reader: Reader, exported: Path) -> None:
    torch.manual_seed(1)
    features = torch.rand(40, 24 + 32) * 3
    with torch.no_grad():
        expected = torch.softmax(reader.head(features), 1)
    probability, term, _ = run(exported / "head.float.onnx", features=features.numpy())
    assert np.array_equal(term[:, 0], expected.argmax(1).numpy())
    assert np.abs(probability - expected.topk(4, 1).values.numpy()).max() < 1e-5
    rounded, named, _ = run(exported / "head.onnx", features=features.numpy())
    at_named = expected.gather(1, torch.from_numpy(named.astype(np.int64))).numpy()
    assert np.abs(rounded - at_named).max() < 0.2 * float(expected.max())


@pytest.mark.parametrize("terms", [640, 130, 31])
def test_best_terms_are_those_of_a_stable_sort(tmp_path: Path, terms: int) -> None:
    class Best(torch.nn.Module):
        def forward(self, chance: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return best_terms(chance, terms)

    torch.onnx.export(
        Best(), (torch.rand(3, terms),), str(tmp_path / "best.onnx"), input_names=["chance"],
        dynamic_axes={"chance": {0: "cells"}}, opset_version=OPSET, dynamo=False,
    )  # fmt: skip
    for levels in (3, 50, 10_000):  # few levels: most of the best are equal to others
        chance = np.random.default_rng(levels).integers(0, levels, (60, terms)).astype(np.float32)
        values, places = run(tmp_path / "best.onnx", chance=chance)
        expected = np.argsort(-chance, axis=1, kind="stable")[:, :4]
        assert np.array_equal(places, expected)
        assert np.array_equal(values, np.take_along_axis(chance, expected, 1))


def test_head_tells_the_size_of_type(reader: Reader, exported: Path) -> None:
    torch.manual_seed(2)
    features = torch.rand(40, 24 + 32) * 3
    with torch.no_grad():
        expected = torch.exp2(reader.size(reader.head.look(features)))[:, 0].numpy()
    assert expected.std() > 0.1 * expected.mean()  # it differs, so mistaking one cell for another would show
    exact, rounded = (
        run(exported / name, features=features.numpy())[2] for name in ("head.float.onnx", "head.onnx")
    )
    assert np.allclose(exact, expected, rtol=1e-4)
    assert np.allclose(rounded, expected, rtol=0.1)


def test_the_size_comes_to_torch_as_it_was(reader: Reader, exported: Path) -> None:
    config = {"network": reader.config.to_json()}
    loaded = load_network(exported, config)
    torch.manual_seed(2)
    features = torch.rand(40, 24 + 32) * 3
    (_, _, em) = run(exported / "head.onnx", features=features.numpy())
    with torch.no_grad():
        through_torch = torch.exp2(loaded.size(loaded.head.look(features)))[:, 0].numpy()
    assert np.allclose(through_torch, em, rtol=0.1)
    assert np.corrcoef(through_torch, em)[0, 1] > 0.98


def test_export_without_real_pages_is_refused(exported: Path, tmp_path: Path) -> None:
    options = ExportOptions(
        checkpoint=exported.parent / "last.safetensors", pdfs=tmp_path, out=tmp_path / "out", windows=2
    )
    with pytest.raises(InputError, match="text layer"):
        export(options)


def test_a_file_that_is_no_checkpoint_of_the_reader_is_refused(exported: Path, tmp_path: Path) -> None:
    training_checkpoint.save(tmp_path / "other.safetensors", {"x": torch.zeros(1)}, {})
    options = ExportOptions(checkpoint=exported, pdfs=EXAMPLES, out=tmp_path / "out")
    with pytest.raises(InputError, match="not a checkpoint of the reader"):
        export(replace(options, checkpoint=tmp_path / "other.safetensors"))
