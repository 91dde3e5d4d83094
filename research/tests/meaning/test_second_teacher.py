"""MPNet against the library's own, and the table's way to the space of both teachers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")
from safetensors.torch import save_file

from research.meaning import second_teacher, teach
from research.meaning.export import load_trained
from research.meaning.model import HIDDEN, Bert
from research.meaning.mpnet import WIDTH, MPNet
from research.meaning.options import RemapOptions, SecondTeacherOptions, TeachOptions
from research.meaning.remap import Map, known_of, remap
from research.meaning.table import LAST_SPECIAL
from research.tests.meaning.conftest import plain_tokens
from vsplade.encode.meaning.wordpiece import WordPiece
from vsplade.errors import InputError

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENS = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS)]
OWN = ["<s>", "<pad>", "</s>", "[UNK]", *LETTERS, *(f"##{c}" for c in LETTERS)]


@pytest.fixture(scope="module")
def mpnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stands for the published model: two layers, random weights."""
    folder = tmp_path_factory.mktemp("mpnet")
    torch.manual_seed(0)
    settings = transformers.MPNetConfig(
        vocab_size=len(OWN), hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=12,
        intermediate_size=256, max_position_embeddings=258, relative_attention_num_buckets=32,
        layer_norm_eps=1e-5, initializer_range=0.08,
    )  # fmt: skip
    model = transformers.MPNetModel(settings).eval()
    save_file({name: value.contiguous() for name, value in model.state_dict().items()},
              str(folder / "model.safetensors"))  # fmt: skip
    settings.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(OWN) + "\n")
    return folder


@pytest.fixture
def minilm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    torch.manual_seed(1)
    bert = Bert(len(TOKENS), padding=0, layers=1).eval()
    for module in ("teach", "export"):
        monkeypatch.setattr(f"research.meaning.{module}.load_minilm", lambda _: bert)
    monkeypatch.setattr(teach, "teacher_tokens", plain_tokens)
    monkeypatch.setattr(second_teacher, "teacher_tokens", plain_tokens)
    return folder


def test_it_is_the_librarys_mpnet(mpnet: Path, minilm: Path) -> None:
    model = transformers.MPNetModel(transformers.MPNetConfig.from_pretrained(mpnet)).eval()
    from safetensors.torch import load_file

    model.load_state_dict(load_file(str(mpnet / "model.safetensors")))
    pieces = WordPiece.load(minilm / "vocab.txt")
    texts = ["a b c", "abc xyz q", " ".join(LETTERS * 6), "b"]
    rows = [[pieces.start, *pieces.encode(text), pieces.end] for text in texts]
    tokens = np.zeros((len(rows), max(map(len, rows))), np.uint16)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    found = MPNet(mpnet, pieces).vectors(tokens).astype(np.float32)
    for place, text in enumerate(texts):
        own = [0, *(OWN.index(pieces.token(n)) for n in pieces.encode(text)), 2]
        with torch.no_grad():
            wanted = model(torch.tensor([own])).last_hidden_state.mean(1)[0].numpy()
        assert found[place] @ wanted / np.linalg.norm(wanted) > 0.999
    assert (found @ found.T)[0, 1:].max() < 0.99  # or the line above would say nothing


def test_one_map_serves_every_row() -> None:
    """It is learned from a few rows, and turns the others too."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(LAST_SPECIAL + 61, 8)).astype(np.float32)
    alone = rng.normal(size=(len(table), 5)).astype(np.float32)
    table[: LAST_SPECIAL + 1] = 0
    learner = Map(table, known_of(alone, table))
    np.testing.assert_allclose(learner.table(), table)
    with torch.no_grad():
        learner.map.copy_(torch.from_numpy(rng.normal(size=learner.map.shape).astype(np.float32)))
    found = learner.table()
    assert not found[: LAST_SPECIAL + 1].any()
    rows = torch.tensor([[LAST_SPECIAL + 3, LAST_SPECIAL + 9]])
    wanted = found[rows[0].numpy()].sum(axis=0)
    np.testing.assert_allclose(learner(rows)[0].detach(), wanted / np.linalg.norm(wanted), atol=1e-5)


def test_from_two_teachers_to_a_table(
    mpnet: Path, minilm: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_teacher, "PART", {"queries": 20, "passages": 4})
    options = SecondTeacherOptions(work, minilm, mpnet, queries=36, passages=6)
    teach.teach(TeachOptions(work, minilm, passages=8, spans=60, headwords=4, glosses=4))
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(HIDDEN, 16)))[0].astype(np.float32)
    table = np.random.default_rng(0).normal(size=(len(TOKENS) + 1, 16)).astype(np.float32)
    np.savez(work / "trained.npz", axes=axes, table=table, words=["abc"])
    settings = RemapOptions(work, minilm, seconds=600, steps=1, batch=30, passages=6, learned=1.0)
    with pytest.raises(InputError, match="second_teacher"):
        remap(settings)
    second_teacher.second_teacher(options)
    parts = sorted((work / "both").glob("queries-*.npz"))
    assert [len(np.load(path)["numbers"]) for path in parts] == [20, 16]
    wanted = np.load(parts[1])["vectors"]
    assert wanted.shape[1] == WIDTH + HIDDEN
    np.testing.assert_allclose(np.linalg.norm(wanted.astype(np.float32), axis=1), 1, atol=1e-2)
    parts[1].unlink()
    second_teacher.second_teacher(options)  # goes on where it stopped
    np.testing.assert_array_equal(np.load(parts[1])["vectors"], wanted)
    first = remap(settings)["loss"]
    assert remap(replace(settings, steps=200, rate=1e-2))["loss"] < 0.7 * first
    found = np.load(work / "remapped.npz")
    assert found["table"].shape == table.shape
    assert load_trained(work)["table"].tolist() == found["table"].tolist()
