"""The probe: what is kept of each cell, and at which place of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="training needs torch: pip install 'vsplade[train]'")
pytest.importorskip("safetensors", reason="checkpoints need safetensors: pip install 'vsplade[train]'")

from research.reader.options import ProbeOptions
from research.reader.probe import BEST, picture, probe, pyramid, read_cells
from vsplade.encode.gpu.network import NetworkConfig, Reader
from vsplade.encode.tokenizer import Tokenizer
from vsplade.train import training_checkpoint


@pytest.fixture
def reader(tiny: NetworkConfig) -> Reader:
    torch.manual_seed(0)
    model = Reader(tiny).eval()
    torch.nn.init.constant_(model.trunk.word.bias, 1.0)  # every cell fires
    return model


def test_cells_are_kept_with_their_page_and_place(tmp_path: Path, reader: Reader) -> None:
    (tmp_path / "pages").mkdir()
    for name, size in (("a", (96, 64)), ("b", (64, 160))):
        Image.effect_noise(size, 80).convert("L").save(tmp_path / "pages" / f"{name}.png")
    tensors = {f"model.{n}": t for n, t in reader.state_dict().items()}
    training_checkpoint.save(
        tmp_path / "last.safetensors",
        tensors,
        {"network": reader.config.to_json(), "vocabulary": Tokenizer.load().fingerprint},
    )
    options = ProbeOptions(tmp_path / "last.safetensors", tmp_path / "pages", tmp_path / "cells.npz")
    result = probe(options)
    with np.load(tmp_path / "cells.npz") as cells:
        assert result == {"out": str(options.out), "pages": 2, "cells": len(cells["page"])}
        assert cells["ids"].tolist() == ["a", "b"]
        assert set(cells["page"].tolist()) == {0, 1}
        assert cells["term"].shape == cells["log_probability"].shape == (len(cells["page"]), BEST)
        first = cells["place"][cells["page"] == 0]
        assert 0 < first[:, 0].min() < first[:, 0].max() < 96 + 40
        assert bool((np.diff(cells["log_probability"].astype(float), axis=1) <= 0).all()), "best first"


def test_a_page_on_which_nothing_fires_gives_no_cells(reader: Reader) -> None:
    torch.nn.init.constant_(reader.trunk.word.bias, -99.0)
    assert read_cells(reader, torch.full((64, 64), 255, dtype=torch.uint8), (1.0,)) == []


def test_pages_are_scaled_down_and_padded(tmp_path: Path) -> None:
    Image.new("RGB", (300, 100), "white").save(tmp_path / "wide.png")
    grey = picture(tmp_path / "wide.png", 150)
    assert grey.shape == (50, 150)
    assert picture(tmp_path / "wide.png", 1000).shape == (100, 300), "never scaled up"
    sizes = [
        (scale, tuple(x.shape[-2:])) for scale, x in pyramid(torch.from_numpy(grey.copy()), (1.0, 0.8, 0.4))
    ]
    assert sizes == [(1.0, (64, 160)), (0.8, (48, 128))], "a copy of under 32 px holds nothing to read"
