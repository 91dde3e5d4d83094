"""The graph in 8 bits against the model in torch, on a small BERT with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
import torch.nn.functional as F
from safetensors.torch import save_file

from research.meaning.centroids import k_means
from research.meaning.export import export, page_graph
from research.meaning.model import HIDDEN, Bert, mean, page_encoder
from research.meaning.options import ExportOptions
from research.tests.meaning.conftest import SPECIAL, VOCABULARY
from vsplade.encode.meaning.meaning_model import MeaningModel
from vsplade.errors import InputError


def tokens_of(rng: np.random.Generator, sizes: list[int]) -> np.ndarray:
    tokens = np.zeros((len(sizes), max(sizes)), np.int64)
    for row, size in enumerate(sizes):
        tokens[row, :size] = [101, *rng.integers(len(SPECIAL), len(VOCABULARY), size - 2), 102]
    return tokens


def test_the_graph_is_the_model(bert: Bert) -> None:
    head = torch.randn(32, HIDDEN) / HIDDEN**0.5
    page = page_encoder(bert, head)
    tokens = tokens_of(np.random.default_rng(0), [3, 12, 40, 7])
    own = torch.from_numpy(np.where(tokens == 0, len(VOCABULARY), tokens))
    with torch.no_grad():
        wanted = page(own, torch.ones(own.shape)).numpy()
        published = F.normalize(mean(*bert(torch.from_numpy(tokens))) @ head.T, dim=-1).numpy()
    np.testing.assert_allclose(wanted, published, atol=1e-4)
    session = onnxruntime.InferenceSession(
        page_graph(page).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {"tokens": own.numpy().astype(np.int32), "certainty": np.ones(own.shape, np.float32)}
    found = session.run(None, given)[0]
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-4)
    assert ((found * wanted).sum(axis=1) > 0.98).all()
    assert (found @ found.T)[~np.eye(4, dtype=bool)].max() < 0.98  # or the line above would say nothing


def test_what_is_exported_can_be_used(bert: Bert, minilm: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    runs = tmp_path / "runs"
    with pytest.raises(InputError, match=r"research\.meaning\.learn"):
        export(ExportOptions(tmp_path, tmp_path / "out", minilm))
    runs.mkdir()
    table = torch.from_numpy(2 * rng.normal(size=(len(VOCABULARY) + 1, 16)).astype(np.float32))
    table[-1] *= 3  # it tells more than the words of a question do
    state = {"head.weight": torch.randn(16, HIDDEN), "table": table}
    save_file(state, str(runs / "run.safetensors"))
    (tmp_path / "words.txt").write_text("abc\n")
    np.save(tmp_path / "centroids.npy", rng.integers(-127, 127, (8, 16)).astype(np.int8))
    out = tmp_path / "out"
    first = export(ExportOptions(tmp_path, out, minilm))
    model = MeaningModel(out)
    windows, query = model.encode_text("abc xyz"), model.encode_query("abc")
    assert windows is not None
    assert query is not None
    assert windows.codes.shape == (1, 16)
    np.testing.assert_allclose(model.vectors([110])[0], table[110], atol=0.25)
    np.testing.assert_allclose(model.word_vectors(["abc"]), table[-1:], atol=0.75)
    np.testing.assert_allclose(model.word_vectors(["b"])[0], table[VOCABULARY.index("b")], atol=0.25)
    save_file(state | {"table": -table}, str(runs / "run.safetensors"))
    assert export(ExportOptions(tmp_path, out, minilm)) == first  # another table serves the same pages
    np.save(tmp_path / "centroids.npy", rng.integers(-127, 127, (8, 16)).astype(np.int8))
    assert export(ExportOptions(tmp_path, out, minilm))["weights"] != first["weights"]
    assert json.loads((out / "meaning.json").read_text())["dimensions"] == 16


def test_k_means_finds_bunches() -> None:
    torch.manual_seed(0)
    middles = F.normalize(torch.randn(5, 16), dim=-1)
    vectors = F.normalize(middles.repeat_interleave(30, 0) + 0.05 * torch.randn(150, 16), dim=-1)
    nearest = (vectors @ k_means(vectors, 12).T).amax(1)
    assert nearest.min() > 0.9
