"""Every experiment as its command runs it, on a public benchmark by its name: with perfect and with random
vectors, in the reader's vocabulary and in a cased one. The answers are known.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

for module in ("tokenizers", "pyarrow", "faiss", "torch"):
    pytest.importorskip(module)

from research.command import run_step
from research.experiments import __main__ as program
from research.experiments import reranking
from research.experiments.benchmarks import repository
from research.experiments.embeddings import Embeddings
from research.experiments.hub import open_dataset
from vsplade.evaluate import PageVectors, evaluate_dataset, write_run
from vsplade.types import Windows

from .conftest import Known

NAME = "visrag:mpdocvqa"
DIRECTION = 320
"""Numbers of a window."""
Ask = Callable[..., Any]


def hub_copy(known: Known, root: Path) -> None:
    """Each page is asked for by its own text."""
    import pyarrow
    from pyarrow import parquet

    stream = io.BytesIO()
    Image.new("L", (8, 8), 255).save(stream, "PNG")
    picture = {"bytes": stream.getvalue(), "path": None}
    tables: dict[str, list[dict[str, Any]]] = {
        "corpus": [{"corpus-id": page, "image": picture} for page in known.pages],
        "queries": [{"query-id": f"q{page}", "query": text} for page, text in known.pages.items()],
        "qrels": [{"query-id": f"q{page}", "corpus-id": page, "score": 1} for page in known.pages],
    }
    for name, rows in tables.items():
        folder = root / repository(NAME) / name
        folder.mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "train-00000-of-00001.parquet")


class Words:
    """A sentence model that knows each word apart."""

    def __init__(self, *_: Any) -> None:
        self._known: dict[str, int] = {}

    def encode(self, texts: list[str], **_: Any) -> list[Any]:
        import torch

        rows = [[self._known.setdefault(word, len(self._known)) for word in text.split()] for text in texts]
        return [torch.eye(64)[row] for row in rows]


@pytest.fixture
def ask(
    known: Known,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ask:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(program, "load_encoder", lambda name: known)
    monkeypatch.setattr(reranking, "sentence_model", Words)
    hub_copy(known, tmp_path / "hub")
    dataset = open_dataset(NAME, tmp_path / "hub")
    known.perfect().save(tmp_path / "perfect.npz")
    known.random().save(tmp_path / "random.npz")
    write_run(tmp_path / "perfect.run", evaluate_dataset(dataset, known, vectors=known.perfect()).run)
    rng = np.random.default_rng(0)
    drawn = {query: dict(zip(known.pages, rng.random(12).tolist(), strict=True)) for query in dataset.judged}
    write_run(tmp_path / "random.run", drawn)
    texts = [json.dumps({"_id": page, "text": " ".join([text] * 60)}) for page, text in known.pages.items()]
    (tmp_path / "texts.jsonl").write_text("\n".join(texts) + "\n")
    pages, eye = tuple(known.pages), np.eye(len(known.pages), dtype=np.float32)
    rows = {"pages": pages, "page_rows": eye, "queries": [f"q{page}" for page in pages], "query_rows": eye}
    np.savez(tmp_path / "dense.npz", query_ms=1.5, **{key: np.array(value) for key, value in rows.items()})
    assert Embeddings.load(tmp_path / "dense.npz").query_ms == 1.5

    def run(experiment: str, vectors: str = "", *more: str) -> Any:
        line = [experiment, NAME, "--data", str(tmp_path / "hub"), *more]
        line += ["--vectors", str(tmp_path / f"{vectors}.npz")] if vectors else []
        assert run_step([*line, "--json"], program.experiment, program.ExperimentOptions) == 0, line
        return json.loads(capsys.readouterr().out)

    return run


def test_all_of_them_are_tested_here() -> None:
    tests = "".join(name for name in globals() if name.startswith("test_"))
    assert [name for name in program.EXPERIMENTS if name not in tests] == []


def test_grounding(ask: Ask, tmp_path: Path) -> None:
    given = ("--reference", str(tmp_path / "texts.jsonl"), "--texts", str(tmp_path / "texts.jsonl"))
    for vectors, right in (("perfect", 2 / 30), ("random", 0.0)):
        table = ask("grounding", vectors, *given)["overlap"]
        assert table["image"]["top-30"] == pytest.approx(right, abs=0.01)
        assert table["gate (image x caption)"]["top-30"] == pytest.approx(right, abs=0.01)
        assert table["text (upper bound)"]["top-30"] >= 2 / 30 - 1e-4


def test_union_and_cases(ask: Ask, tmp_path: Path) -> None:
    texts = ("--texts", str(tmp_path / "texts.jsonl"))
    right, chance = (ask("union", vectors, *texts) for vectors in ("perfect", "random"))
    assert (right["hit@1, image"], right["hit@1, caption"], right["hit@1, union"]) == (1.0, 1.0, 1.0)
    assert chance["hit@1, image"] < 0.5 < chance["hit@1, caption"] == 1.0
    assert ask("cases", "perfect", *texts)["cases"]
    found = ask("cases", "random", *texts)["cases"][0]
    assert found["P*"][0][1] == 0.0 < found["C*"][0][1]
    assert found["picture"].startswith("data:image/jpeg;base64,")


def test_behaviour_and_flops(ask: Ask, tmp_path: Path) -> None:
    texts = ("--texts", str(tmp_path / "texts.jsonl"))
    right, bm25 = ask("behaviour", "perfect", *texts)
    assert (right["ndcg@5"], right["active terms a page"], right["stop words a page"]) == (1.0, 2.0, 1.0)
    assert (bm25["encoder"], ask("behaviour", "random")[0]["ndcg@5"] < 0.5) == ("BM25 on texts", True)
    sparse = ask("flops", "perfect")["per_query"][0]
    assert (sparse["encode"], sparse["score"]) == (0, pytest.approx(1000 * (1 + 1 / 12), abs=1))


def test_growth_and_scale(ask: Ask, tmp_path: Path) -> None:
    dense = ("--embeddings", str(tmp_path / "dense.npz"))
    found = ask("growth", "perfect", "--others", str(tmp_path / "random.npz"), *dense)
    assert [row["pages"] for row in found["rows"]] == [12, 24]
    assert [row["recall@100"] for row in found["rows"]] == [1.0, 1.0]
    assert [row["recall@5"] for row in found["dense rows"]] == [1.0]
    alone = ask("growth", "perfect")  # no other pages: one size, so nothing to extrapolate from
    assert ([row["pages"] for row in alone["rows"]], alone["extrapolation, not measured"]) == ([12], {})
    rows = ask("scale", "perfect", "--threads", "1", *dense)["rows"]
    assert [row["recall@5"] for row in rows] == [1.0] * 5  # full, two kinds of two stages, flat, HNSW
    assert rows[-1]["query_encoding_ms"] == 1.5
    assert all(row["recall@5"] < 0.9 for row in ask("scale", "random", "--threads", "1")["rows"])


def test_subsets_fusion_and_reranking(ask: Ask, tmp_path: Path) -> None:
    runs = [f"--run={name}={tmp_path / name}.run" for name in ("perfect", "random")]
    everything = ask("subsets", "", *runs)["rows"][-1]
    assert everything["perfect"] == 1.0 > everything["random"]
    assert ask("fusion", "", *runs)["rows"][0]["fused"] == 1.0
    right, chance = ask("reranking", "", *runs, "--texts", str(tmp_path / "texts.jsonl"))["rows"]
    assert right["recall@5, reranked"] == 1.0
    assert chance["recall@5"] <= chance["recall@5, reranked"] == chance["recall@100"]


def test_what_pages_are_about_is_left_out(known: Known, ask: Ask, tmp_path: Path) -> None:
    vectors = known.perfect()
    windows = Windows(np.zeros((1, DIRECTION), np.int8), np.zeros(1, np.uint16))
    replace(vectors, windows=(windows,) * len(vectors)).save(tmp_path / "about.npz")
    assert PageVectors.load(tmp_path / "about.npz").windows
    folder = str(open_dataset(NAME, tmp_path / "hub").path)
    options = program.ExperimentOptions("behaviour", folder, vectors=tmp_path / "about.npz")
    assert program._inputs(options)[2].windows == ()
    assert ask("behaviour", "about") == ask("behaviour", "perfect")


def test_other_questions_over_the_same_pages(ask: Ask, known: Known, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"_id": "x", "text": "1 nothing"}\n{"_id": "y", "text": "else"}\n')
    (tmp_path / "more.tsv").write_text("query-id\tcorpus-id\tscore\nx\tp0\t1\ny\tp1\t1\n")
    write_run(tmp_path / "more.run", {"x": {"p0": 1.0}})
    given = ["--queries", str(tmp_path / "more.jsonl"), "--qrels", str(tmp_path / "more.tsv")]
    rows = {
        row["subset"]: row
        for row in ask("subsets", "", *given, f"--run=mine={tmp_path / 'more.run'}")["rows"]
    }
    assert (rows["has digit"]["share"], rows["has digit"]["mine"]) == (0.5, 1.0)
    assert rows["both"]["mine"] is None  # nobody asks so
    line = ["subsets", NAME, "--data", str(tmp_path / "hub"), *given[:2]]
    assert run_step(line, program.experiment, program.ExperimentOptions) == 2
