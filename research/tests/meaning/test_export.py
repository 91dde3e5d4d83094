"""The graph in 8 bits against the model in torch, on a small BERT with random weights."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("safetensors")
import torch.nn.functional as F

from research.meaning import teach
from research.meaning.centroids import centroids, k_means
from research.meaning.export import export, page_graph, trained_page
from research.meaning.model import HIDDEN, Bert, mean, page_encoder
from research.meaning.options import CentroidsOptions, ExportOptions, TeachOptions, TrainOptions
from research.meaning.train import Wear, train
from research.tests.meaning.conftest import plain_tokens
from vsplade.encode.meaning.meaning_model import MeaningModel
from vsplade.encode.meaning.wordpiece import WordPiece

SPECIAL = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]


@pytest.fixture(scope="module")
def bert() -> Bert:
    torch.manual_seed(0)
    model = Bert(len(VOCABULARY), padding=0, layers=2)
    for value in model.parameters():  # wide enough that layers differ from the identity
        torch.nn.init.normal_(value, std=0.08)
    for name, value in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            torch.nn.init.ones_(value)
    return model.eval()


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


@pytest.fixture
def minilm(bert: Bert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the published model."""
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    for module in ("export", "teach", "train"):
        monkeypatch.setattr(f"research.meaning.{module}.load_minilm", lambda _: bert)
    return folder


def test_the_teacher_sorts_by_length_and_back(bert: Bert, minilm: Path, tmp_path: Path) -> None:
    teacher = teach.Teacher(minilm, tmp_path / "minilm.onnx", threads=2)
    tokens = tokens_of(np.random.default_rng(1), [20, 3, 15, 4, 9])
    found = teacher.vectors(tokens, batch=2).astype(np.float32)
    with torch.no_grad():
        wanted = F.normalize(mean(*bert(torch.from_numpy(tokens))), dim=-1).numpy()
    assert ((found * wanted).sum(axis=1) > 0.98).all()
    assert teacher.vectors(teacher.single_tokens()).shape == (len(VOCABULARY), HIDDEN)


def test_teaching_goes_on_where_it_stopped(minilm: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teach, "teacher_tokens", plain_tokens)
    monkeypatch.setattr(teach, "PART", 20)
    options = TeachOptions(work, minilm, passages=6, spans=40, headwords=4, glosses=4)
    told = teach.teach(options)
    parts = sorted((work / "teacher").glob("queries-*.npz"))
    assert len(parts) == -(-told["queries"] // 20) >= 2
    first, last = np.load(parts[0]), np.load(parts[1])
    wanted, kept = last["vectors"], parts[0].stat().st_mtime_ns
    assert first["vectors"].shape == (20, HIDDEN)
    parts[1].unlink()
    assert teach.teach(options) == told
    assert parts[0].stat().st_mtime_ns == kept
    np.testing.assert_array_equal(np.load(parts[1])["vectors"], wanted)


def test_what_is_exported_can_be_used(minilm: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(HIDDEN, 16)))[0].astype(np.float32)
    table = rng.normal(size=(len(VOCABULARY), 16)).astype(np.float32)
    np.savez(tmp_path / "table.npz", axes=axes, table=table)
    own = rng.normal(size=(1, 16)).astype(np.float32)
    np.savez(tmp_path / "ranked.npz", axes=axes, table=np.concatenate([table, own]), words=["abc"])
    np.save(tmp_path / "centroids.npy", rng.integers(-127, 127, (8, 16)).astype(np.int8))
    out = tmp_path / "out"
    first = export(ExportOptions(tmp_path, out, minilm))
    model = MeaningModel(out)
    windows, query = model.encode_text("abc xyz"), model.encode_query("abc")
    assert windows is not None
    assert query is not None
    assert windows.codes.shape == (1, 16)
    np.testing.assert_allclose(model.vectors([110])[0], table[110], atol=0.02)
    np.testing.assert_allclose(model.word_vectors(["abc"]), own, atol=0.02)
    np.testing.assert_allclose(model.word_vectors(["b"])[0], table[VOCABULARY.index("b")], atol=0.02)
    np.savez(tmp_path / "ranked.npz", axes=axes, table=-np.concatenate([table, own]), words=["abc"])
    assert export(ExportOptions(tmp_path, out, minilm)) == first  # another table serves the same pages
    np.save(tmp_path / "centroids.npy", rng.integers(-127, 127, (8, 16)).astype(np.int8))
    assert export(ExportOptions(tmp_path, out, minilm))["weights"] != first["weights"]
    assert json.loads((out / "meaning.json").read_text())["dimensions"] == 16


def test_pages_and_table_learn_together(bert: Bert, minilm: Path, tmp_path: Path) -> None:
    """A made-up teacher that turns every vector of MiniLM's: both must follow it."""
    rng = np.random.default_rng(0)
    folder, pieces = tmp_path / "teacher", WordPiece.load(minilm / "vocab.txt")
    folder.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = [" ".join(rng.choice(list(letters), 12)) for _ in range(150)]
    queries = [" ".join(text.split()[:3]) for text in texts]
    marks = rng.normal(size=(26, HIDDEN))
    said = [np.sum([marks[letters.index(c)] for c in text.split()], axis=0) for text in texts + queries]
    vectors = np.stack(said) / np.linalg.norm(said, axis=1, keepdims=True)
    np.savez(folder / "passages.npz", vectors=vectors[:150], tokens=teach.as_read(texts, pieces))
    np.savez(folder / "queries-000.npz", tokens=np.zeros((150, 1)), vectors=vectors[150:])
    np.save(folder / "own.npy", np.arange(150))
    with gzip.open(folder / "queries.json.gz", "wt", encoding="utf-8") as file:
        json.dump(queries, file)
    axes = np.linalg.qr(rng.normal(size=(HIDDEN, 16)))[0].astype(np.float32)
    table = rng.normal(size=(len(VOCABULARY), 16)).astype(np.float32)
    np.savez(tmp_path / "ranked.npz", axes=axes, table=table, words=[])
    options = TrainOptions(
        tmp_path, minilm, seconds=600, steps=40, frozen=0, rate=1e-3, table_rate=0.1, tokens=450, queries=60,
        bank=50, wear=0,
    )  # fmt: skip
    told = train(options)
    assert told["steps"] == 40
    trained = np.load(tmp_path / "trained.npz")
    found = {}
    for name, given in (("before", table), ("after", trained["table"])):
        page = trained_page(tmp_path if name == "after" else minilm, minilm, axes)
        read = Wear.of(pieces)(
            torch.from_numpy(teach.as_read(texts, pieces)[:, :12].astype(np.int64)), much=0
        )
        with torch.no_grad():
            pages = page(read, torch.ones(read.shape)).numpy()
        asked = np.stack(
            [given[[VOCABULARY.index(c) for c in query.split()]].sum(axis=0) for query in queries]
        )
        found[name] = float(((asked @ pages.T).argmax(axis=1) == np.arange(150)).mean())
    assert found["after"] > found["before"] + 0.1
    centred = centroids(CentroidsOptions(tmp_path, minilm, count=8))
    assert centred["vectors"] == 150


def test_k_means_finds_bunches() -> None:
    torch.manual_seed(0)
    middles = F.normalize(torch.randn(5, 16), dim=-1)
    vectors = F.normalize(middles.repeat_interleave(30, 0) + 0.05 * torch.randn(150, 16), dim=-1)
    nearest = (vectors @ k_means(vectors, 12).T).amax(1)
    assert nearest.min() > 0.9
