"""The head without its silent units: the same logits, and rounding that is fitted to what units say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("onnx", reason="the windows come from the export, which needs onnx")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.command import command
from research.reader.export import export
from research.reader.fold_head import STEP, fold_head, folded, rounded
from research.reader.options import ExportOptions, FoldOptions
from research.reader.revive import living, word_features
from research.tests.reader.test_export import run
from research.tests.reader.test_narrow import EXAMPLES, windows
from research.tests.reader.test_revive import ALIVE, half_asleep
from vsplade.cli.common import note
from vsplade.encode.gpu.detect_torch import load_network
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.train import training_checkpoint


@torch.no_grad()
def test_it_reads_as_before() -> None:
    old = half_asleep()
    seen = word_features(old, windows(16))
    new = folded(old, living(old.head, seen))
    assert (new.config.hidden, new.config.rank) == (STEP, 0)
    torch.testing.assert_close(new.head(seen), old.head(seen), rtol=1e-4, atol=1e-4)
    size = new.size(new.head.look(seen))
    torch.testing.assert_close(size, old.size(old.head.look(seen)), rtol=1e-4, atol=1e-4)


def test_rounding_is_fitted_to_units_that_fire_together() -> None:
    rng = np.random.default_rng(0)
    seen = np.maximum(rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 24)) + 2, 0)
    weight = rng.normal(size=(200, 24))
    whole, step = rounded(weight, seen)
    assert np.abs(whole.astype(int)).max() <= 127
    nearest = np.round(weight / step[:, None]) * step[:, None]

    def missed(kept: np.ndarray) -> float:
        return float((seen @ (weight - kept).T).std(0).mean())

    assert missed(whole * step[:, None]) < 0.6 * missed(nearest)


def test_an_exported_folder_becomes_a_smaller_one(tmp_path: Path) -> None:
    reader = half_asleep()
    header = {"network": reader.config.to_json(), "vocabulary": Tokenizer.load().fingerprint}
    tensors = {f"model.{name}": tensor for name, tensor in reader.state_dict().items()}
    training_checkpoint.save(tmp_path / "one.safetensors", tensors, header)
    pdfs, model, out = tmp_path / "pdfs", tmp_path / "model", tmp_path / "out"
    pdfs.mkdir()
    shutil.copy(EXAMPLES / "report.pdf", pdfs)
    export(ExportOptions(checkpoint=tmp_path / "one.safetensors", pdfs=pdfs, out=model, windows=4))
    line = [str(model), "--pdfs", str(pdfs), "--out", str(out), "--windows", "8", "--json"]
    ran = CliRunner().invoke(command(fold_head, FoldOptions, say=note), line)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["units"] == ALIVE
    settings = json.loads((out / "reader.json").read_text("utf-8"))
    assert settings["network"]["rank"] == 0
    with torch.no_grad():
        seen = word_features(reader, windows(8))[:60]
        chance = torch.softmax(load_network(out, settings).head(seen), 1)
        exact = torch.softmax(reader.head(seen), 1)
    assert float((chance - exact).abs().sum(1).mean()) < 0.05
    probability, term, _ = run(out / "head.onnx", features=seen.numpy())
    there = chance.gather(1, torch.from_numpy(term).long()).numpy()
    assert np.abs(probability - there).max() < 0.05
    again = CliRunner().invoke(command(fold_head, FoldOptions, say=note), [str(out), *line[1:]])
    assert isinstance(again.exception, InputError)
