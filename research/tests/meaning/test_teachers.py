"""MPNet against the library's own, and what both teachers say of small texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from research.meaning import teachers
from research.meaning.model import HIDDEN, Bert, mean
from research.meaning.mpnet import WIDTH, MPNet
from research.meaning.options import TeachersOptions, TextsOptions
from research.meaning.teachers import Teachers, joined, nearest, read_all, teach
from research.meaning.texts import texts
from research.tests.meaning.conftest import LETTERS, VOCABULARY
from vsplade.encode.meaning.wordpiece import WordPiece

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


def test_it_is_the_librarys_mpnet(mpnet: Path, minilm: Path) -> None:
    model = transformers.MPNetModel(transformers.MPNetConfig.from_pretrained(mpnet)).eval()
    model.load_state_dict(load_file(str(mpnet / "model.safetensors")))
    pieces, found = WordPiece.load(minilm / "vocab.txt"), []
    reader = MPNet(mpnet, pieces)
    for text in ("a b c", "abc xyz q", " ".join(LETTERS * 6), "b"):
        tokens = [pieces.start, *pieces.encode(text), pieces.end]
        found.append(reader.read(torch.tensor([tokens], device=teachers.DEVICE))[0].cpu().numpy())
        own = [0, *(OWN.index(pieces.token(n)) for n in pieces.encode(text)), 2]
        with torch.no_grad():
            wanted = model(torch.tensor([own])).last_hidden_state.mean(1)[0].numpy()
        assert found[-1] @ wanted / np.linalg.norm(wanted) > 0.999
    assert (np.stack(found) @ np.stack(found).T)[0, 1:].max() < 0.99  # or the line above would say nothing


def test_texts_of_one_length_go_together_and_back(bert: Bert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teachers, "BUDGET", 8)
    rng, sizes = np.random.default_rng(1), [6, 3, 5, 3, 4, 3, 3]
    rows = [[101, *rng.integers(104, len(VOCABULARY), size - 2), 102] for size in sizes]

    def read(tokens: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return F.normalize(mean(*bert.to(teachers.DEVICE)(tokens)), dim=-1)

    found = read_all(np.concatenate(rows), np.array(sizes), read, HIDDEN).cpu()
    for vector, row in zip(found, rows, strict=True):
        assert (
            vector.float() - read(torch.tensor([row], device=teachers.DEVICE))[0].cpu()
        ).abs().max() < 1e-3


def test_the_cosine_of_joined_vectors_is_the_mean_of_both() -> None:
    torch.manual_seed(0)
    parts = [F.normalize(torch.randn(5, width), dim=-1) for width in (WIDTH, HIDDEN)]
    both = joined(torch.cat(parts, 1), 0.3)
    wanted = 0.3 * parts[0] @ parts[0].T + 0.7 * parts[1] @ parts[1].T
    torch.testing.assert_close(both @ both.T, wanted)


def test_both_teachers_write_vectors_and_neighbours(mpnet: Path, minilm: Path, work: Path) -> None:
    texts(TextsOptions(work, minilm, words=3))
    told = teach(TeachersOptions(work, minilm, mpnet))
    found = {path.stem: np.load(path) for path in (work / "taught").glob("*.npy")}
    given = np.load(work / "texts.npz")
    assert found["passages"].shape == (told["passages"], WIDTH + HIDDEN)
    assert 20 < told["passages"] < 40  # some a second time, as scraps of a page
    assert len(found["queries"]) == len(given["query_sizes"]) == given["kinds"].sum()
    assert len(found["rows"]) == len(VOCABULARY) + 3
    for part in np.split(found["queries"].astype(np.float32), [WIDTH], axis=1):
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=2e-3)
    queries, passages = (
        joined(torch.from_numpy(found[name].astype(np.float32)), 0.5) for name in ("queries", "passages")
    )
    assert ((passages * passages[found["near_passages"][:, 0]]).sum(1) > 0.999).all()  # itself, or its like
    chosen = (passages * queries[found["near_queries"][:, 0]]).sum(1)
    assert ((passages @ queries.T).amax(1) - chosen).max() < 2e-3


@pytest.mark.parametrize("known", [9, 128, 1000])
def test_the_nearest_are_found_part_by_part(known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("research.meaning.teachers.COMPARED", 3000)
    torch.manual_seed(0)
    these, others = F.normalize(torch.randn(7, 4), dim=1), F.normalize(torch.randn(known, 4), dim=1)
    wanted = (these @ others.T).argsort(1, descending=True)
    assert nearest(these, others, 3).tolist() == wanted[:, :3].tolist()
    assert nearest(these, others, 70).tolist() == wanted[:, :70].tolist()


def test_single_tokens_are_read_between_a_start_and_an_end(mpnet: Path, minilm: Path) -> None:
    models = Teachers(minilm, mpnet)
    rows = models.of_rows(minilm, ["abc"]).cpu()
    alone = models.vectors(np.array([101, VOCABULARY.index("b"), 102]), np.array([3])).cpu()
    assert (rows[VOCABULARY.index("b")] - alone[0]).abs().max() < 2e-2
