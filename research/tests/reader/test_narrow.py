"""Narrower blocks: channels that add nothing go first, and what is left leads to the same stream."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="the windows come from the export, which needs onnx")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.command import command
from research.reader.narrow import narrow, narrowed
from research.reader.options import NarrowOptions
from research.reader.probe import load_reader
from research.tests.reader.test_export import lively
from vsplade.cli.common import note
from vsplade.encode.gpu.network import NetworkConfig, Reader, ResidualBlock
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint

EXAMPLES = Path(__file__).parents[3] / "examples"


def wide() -> Reader:
    sizes = {"stem": 8, "fine": 8, "middle": 16, "coarse": 16, "hidden": 16, "rank": 8}
    return lively(NetworkConfig(vocabulary=300, middle_blocks=2, coarse_blocks=1, **sizes))


def windows(count: int) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.nn.functional.interpolate((torch.rand(count, 1, 32, 32) < 0.3).float(), scale_factor=4.0)[
        :, 0
    ]


def difference(a: Reader, b: Reader, pictures: torch.Tensor) -> float:
    with torch.no_grad():
        one, other = a.trunk(pictures[:, None])[1], b.trunk(pictures[:, None])[1]
    return float((one - other).square().mean() / one.square().mean())


def test_channels_that_say_the_same_go_without_loss() -> None:
    reader = wide()
    with torch.no_grad():
        for block in reader.modules():
            if isinstance(block, ResidualBlock):  # the second half of its channels repeats the first
                half = block.first[0].out_channels // 2
                block.first[0].weight[half:] = block.first[0].weight[:half]
                for name in ("weight", "bias", "running_mean", "running_var"):
                    getattr(block.first[1], name)[half:] = getattr(block.first[1], name)[:half]
    smaller = narrowed(reader, 0.5, windows(16), say=lambda _: None)
    assert smaller.trunk.join.first[0].out_channels == 8
    assert difference(reader, smaller, windows(24)[16:]) < 1e-3


def test_the_channels_left_are_fitted_anew() -> None:
    """Better than leaving the same channels out and the others as they were."""
    reader = wide()
    smaller = narrowed(reader, 0.5, windows(16), say=lambda _: None)
    crude = Reader(smaller.config).eval()
    held, kept = smaller.state_dict(), reader.state_dict()
    crude.load_state_dict({n: kept[n] if kept[n].shape == t.shape else t for n, t in held.items()})
    with torch.no_grad():
        for name, block in reader.trunk.named_modules():
            if isinstance(block, ResidualBlock):
                small = crude.trunk.get_submodule(name)
                rows = [
                    next(i for i, w in enumerate(block.first[0].weight) if torch.equal(w, v))
                    for v in small.first[0].weight
                ]
                small.second[0].weight.copy_(block.second[0].weight[:, rows])
                small.second[1].load_state_dict(block.second[1].state_dict())
    fresh = windows(24)[16:]
    assert difference(reader, smaller, fresh) < 0.5 * difference(reader, crude, fresh)


def test_a_checkpoint_becomes_a_narrower_one(tmp_path: Path) -> None:
    reader = wide()
    tensors = {f"model.{name}": tensor for name, tensor in reader.state_dict().items()}
    header = {"network": reader.config.to_json(), "vocabulary": Tokenizer.load().fingerprint, "step": 7}
    training_checkpoint.save(tmp_path / "wide.safetensors", tensors, header)
    (tmp_path / "pdfs").mkdir()
    shutil.copy(EXAMPLES / "report.pdf", tmp_path / "pdfs")
    line = [str(tmp_path / "wide.safetensors"), "--pdfs", str(tmp_path / "pdfs")]
    line += ["--out", str(tmp_path / "narrow.safetensors"), "--windows", "4", "--json"]
    ran = CliRunner().invoke(command(narrow, NarrowOptions, say=note), line)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["network"]["inner"] == 0.5
    assert load_reader(tmp_path / "narrow.safetensors", torch.device("cpu")).config.inner == 0.5
    options = NarrowOptions(tmp_path / "narrow.safetensors", tmp_path / "pdfs", tmp_path / "x", inner=0.5)
    with pytest.raises(InputError, match=r"below 0\.5"):
        narrow(options)
    with pytest.raises(InputError, match="above 0"):
        narrow(replace(options, inner=0.0))
