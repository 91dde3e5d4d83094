"""Pages and the query table learn from made-up teachers; several runs become one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
import torch.nn.functional as F
from safetensors.torch import load_file

from research.meaning.centroids import centroids
from research.meaning.export import load_runs
from research.meaning.learn import Pages, Table, Taught, learn, rarity
from research.meaning.mpnet import WIDTH
from research.meaning.options import CentroidsOptions, LearnOptions
from research.meaning.query_words import LAST_SPECIAL
from research.meaning.tokens import padded, write_tokens
from research.tests.meaning.conftest import LETTERS, PAD, plain_tokens

TEXTS, DIMENSIONS = 150, 16


@pytest.fixture
def taught(work: Path, minilm: Path) -> Path:
    """What teachers say is a sum over letters: passages of twelve, queries of three of them."""
    rng = np.random.default_rng(0)
    passages = [" ".join(rng.choice(list(LETTERS), 12)) for _ in range(TEXTS)]
    queries = [" ".join(text.split()[:3]) for text in passages]
    arrays: dict[str, Any] = {"own": np.arange(TEXTS), "kinds": np.array([TEXTS, 0, 0])}
    arrays["queries"], arrays["query_sizes"] = plain_tokens(minilm, queries, 48)
    arrays["passages"], arrays["passage_sizes"] = plain_tokens(minilm, passages, 48)
    np.savez(work / "texts.npz", **arrays)
    (work / "words.txt").write_text("")
    marks = rng.normal(size=(PAD, WIDTH + 384)).astype(np.float32)

    def said(some: list[str]) -> torch.Tensor:
        sums = [sum(marks[104 + LETTERS.index(letter)] for letter in text.split()) for text in some]
        parts = torch.from_numpy(np.stack(sums)).split([WIDTH, 384], dim=1)
        return torch.cat([F.normalize(part, dim=-1) for part in parts], 1)

    found = {"passages": said(passages), "queries": said(queries)}
    rows = torch.zeros(PAD, WIDTH + 384)
    rows[104 : 104 + 26] = said(list(LETTERS))
    near = found["passages"] @ torch.cat([found["passages"], found["queries"]]).T
    folder = work / "taught"
    folder.mkdir()
    for name, value in (found | {"rows": rows}).items():
        np.save(folder / f"{name}.npy", value.half().numpy())
    for name, part in zip(("near_passages", "near_queries"), near.split(TEXTS, dim=1), strict=True):
        np.save(folder / f"{name}.npy", part.topk(5, dim=1).indices.int().numpy())
    write_tokens(work, minilm)
    return work


def options(work: Path, minilm: Path, **given: Any) -> LearnOptions:
    small = {
        "dimensions": DIMENSIONS,
        "pages": 24,
        "neighbours": 2,
        "natural": 16,
        "others": 8,
        "bank": 40,
        "read": 8,
    }
    return LearnOptions(work, minilm, seconds=600, rate=1e-3, table_rate=0.05, **(small | given))


def first_places(work: Path, minilm: Path) -> float:
    """How often the passage that a query was made of comes first."""
    taught = Taught.load(work, minilm, 0.5)
    page, table = load_runs(work, minilm)
    pages = Pages(page.to(taught.query_rows.device).eval(), taught, 0.0).all(TEXTS).cpu()
    rows = torch.cat([torch.from_numpy(table), torch.zeros(1, DIMENSIONS)])
    asked = F.embedding(taught.query_rows.cpu(), rows).sum(1)
    return float(((asked @ pages.T).argmax(1) == torch.arange(TEXTS)).float().mean())


def test_pages_and_table_learn_together(taught: Path, minilm: Path) -> None:
    first = learn(options(taught, minilm, steps=1, wear=0))
    before = first_places(taught, minilm)
    told = learn(options(taught, minilm, steps=40, wear=0))
    assert told["steps"] == 40
    assert told["loss"] < 0.9 * first["loss"]
    assert first_places(taught, minilm) > before + 0.05
    centred = centroids(CentroidsOptions(taught, minilm, count=8, passages=100))
    assert centred["vectors"] == 100
    assert np.load(taught / "centroids.npy").shape == (8, DIMENSIONS)


def test_several_runs_are_their_mean(taught: Path, minilm: Path) -> None:
    tables = []
    for name, seed in (("one", 1), ("two", 2)):
        learn(options(taught, minilm, steps=2, name=name, seed=seed))
        tables.append(load_file(str(taught / "runs" / f"{name}.safetensors"))["table"].float())
    assert (tables[0] - tables[1]).abs().max() > 1e-3
    _, table = load_runs(taught, minilm)
    np.testing.assert_allclose(table, torch.stack(tables).mean(0).numpy(), atol=1e-6)


def test_special_tokens_and_the_padding_say_nothing(taught: Path, minilm: Path) -> None:
    given = Taught.load(taught, minilm, 0.5)
    table = Table(given, torch.randn(WIDTH + 384, 4, device=given.of_rows.device))
    assert not table.rows()[: LAST_SPECIAL + 1].any()
    rows = torch.tensor([[105, PAD, PAD], [105, 101, PAD], [105, 106, PAD]], device=given.of_rows.device)
    found = table(rows)
    torch.testing.assert_close(found[0], found[1])
    assert (found[0] @ found[2]).item() < 0.999


def test_rare_words_weigh_more() -> None:
    rows = torch.tensor([[104, 105 + number % 10] for number in range(100)])
    idf = rarity(rows, 115)
    assert idf[104] < idf[105]
    assert padded(np.array([7, 8, 9]), np.array([1, 2]), 0).tolist() == [[7, 0], [8, 9]]
