"""The judge of a run: the numbers of ``vsplade eval``, and the paper's model over texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.encode.modernvbert import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from research.experiments.lexicon import encode_text, stop_terms
from research.paper.judge import dataset_judge
from vsplade.encode import load_encoder
from vsplade.encode.modernvbert import checkpoint
from vsplade.encode.modernvbert.processor import PageProcessor
from vsplade.errors import InputError
from vsplade.evaluate import evaluate_dataset, load_dataset

from .conftest import WORDS, picture


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for n, _ in enumerate(WORDS):
        (folder / "images" / f"p{n}.png").write_bytes(picture(n))
    queries = [json.dumps({"_id": f"q{n}", "text": f" {word} page a"}) for n, word in enumerate(WORDS)]
    (folder / "queries.jsonl").write_text("\n".join(queries) + "\n")
    qrels = ["query-id\tcorpus-id\tscore", *(f"q{n}\tp{n}\t1" for n in range(len(WORDS)))]
    (folder / "qrels.tsv").write_text("\n".join(qrels) + "\n")
    return folder


def test_it_says_what_eval_says(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    folder = tiny.write_folder(tmp_path / "m", tiny.released_tensors(), longest_edge=64)
    model = checkpoint.load(folder).model
    judge = dataset_judge(load_dataset(dataset), folder)
    found = judge(model, PageProcessor(folder), torch.device("cpu"))
    report = evaluate_dataset(dataset, str(folder))
    assert found["ndcg@5"] == pytest.approx(report.measures["ndcg@5"], abs=1e-4)
    assert found["flops"] == pytest.approx(report.flops, abs=0.1)
    assert found["active"] == pytest.approx(report.active_terms, abs=1)
    assert 0 < found["stop_share"] < 1  # "a" is in every query


def test_texts_through_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    tensors = tiny.released_tensors()
    encoder = load_encoder(str(tiny.write_folder(tmp_path / "m", tensors, longest_edge=64)))
    ids = [tiny.SPECIAL[1], *encoder.vocabulary.terms("red page"), tiny.SPECIAL[2]]  # type: ignore[attr-defined]
    wanted = tiny.plain_vector(tensors, ids, None).numpy()
    found = encode_text(encoder, "red page")
    dense = np.zeros(tiny.TERMS, np.float32)
    dense[found.terms] = found.weights
    assert np.allclose(dense, wanted, atol=1e-4)


def test_a_plain_backbone_reads_pages_and_texts(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no query table: every word weighs 1, where that is asked for."""
    monkeypatch.setenv("VSPLADE_CACHE", str(tmp_path / "cache"))
    folder = tiny.write_folder(tmp_path / "m", tiny.upstream_tensors(), released=False, longest_edge=64)
    with pytest.raises(InputError, match="plain backbone cannot answer queries"):
        load_encoder(str(folder))
    encoder = load_encoder(f"{folder}:bag=true")
    assert encoder.encode_query(" red red").weights.tolist() == [2.0]
    assert len(encode_text(encoder, "red page")) > 0
    assert len(stop_terms(encoder)) == 3
    assert evaluate_dataset(dataset, encoder).pages == len(WORDS)
    again = load_encoder(encoder.name)
    assert again.fingerprint == encoder.fingerprint
    assert encoder.fingerprint.endswith("-bag")
    released = tiny.write_folder(tmp_path / "r", tiny.released_tensors(), longest_edge=64)
    plain, bag = load_encoder(str(released)), load_encoder(f"{released}:bag=true")
    assert plain.fingerprint != bag.fingerprint
    assert plain.encode_query(" red").weights[0] != bag.encode_query(" red").weights[0] == 1.0
