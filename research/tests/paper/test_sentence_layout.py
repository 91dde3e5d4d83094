"""sentence-transformers' layout: written, read back, and loaded by that library itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from safetensors.torch import load_file, save_file
from tests.encode.modernvbert import tiny

from research.command import run_step
from research.paper import sentence_layout
from research.paper.options import LayoutOptions
from research.paper.sentence_layout import write_layout
from vsplade.encode.modernvbert import checkpoint
from vsplade.encode.modernvbert.encoder import ModernVBertEncoder, ModernVBertOptions
from vsplade.errors import InputError
from vsplade.types import Page


def test_sentence_transformers_layout_reads_and_writes(released: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load(released)
    sentence_layout.save(loaded, tmp_path / "st")
    for name in ("modules.json", "router_config.json", "config_sentence_transformers.json"):
        assert json.loads((tmp_path / "st" / name).read_text())
    again = checkpoint.load(tmp_path / "st")  # no model.safetensors at the top: the routes are read
    ids, mask = torch.tensor([[591, 5, 6, 7, 592]]), torch.ones(1, 5, dtype=torch.long)
    with torch.no_grad():
        assert torch.allclose(again.model(ids, mask).weights, loaded.model(ids, mask).weights, atol=1e-5)
        assert torch.allclose(again.model.query_table(), loaded.model.query_table(), atol=1e-6)
    again.source = tmp_path / "st" / sentence_layout.DOCUMENT
    sentence_layout.save(again, tmp_path / "st2")
    for part in (sentence_layout.DOCUMENT, sentence_layout.QUERY):
        first = load_file(tmp_path / "st" / part / "model.safetensors")
        second = load_file(tmp_path / "st2" / part / "model.safetensors")
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    del first["weight"]
    save_file(
        first | {"other": torch.zeros(3)}, tmp_path / "st2" / sentence_layout.QUERY / "model.safetensors"
    )
    with pytest.raises(InputError, match="static embedding"):
        checkpoint.load(tmp_path / "st2")


TEMPLATE = (
    "<|begin_of_text|>{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


@pytest.mark.parametrize("prompt", ["", "Describe the image."])
@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("norm_bias", [False, True])
def test_sentence_transformers_itself_agrees(
    tmp_path: Path, prompt: str, template: str | None, norm_bias: bool
) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    tensors = tiny.released_tensors()
    if norm_bias:
        tensors["encoder.mlm_head.norm.bias"] = torch.linspace(-1, 1, tiny.WIDTH)
    released = tiny.write_folder(tmp_path / "model", tensors)
    if template:
        (released / "chat_template.jinja").write_text(template)
    loaded = checkpoint.load(released)
    sentence_layout.save(loaded, tmp_path / "st", prompt=prompt)
    encoder = library.SparseEncoder(str(tmp_path / "st"), device="cpu", trust_remote_code=True)
    texts = ["red page total", "green", " red red page red green page"]
    theirs = encoder.encode_query(texts, convert_to_tensor=True, convert_to_sparse_tensor=False)
    ours = ModernVBertEncoder(ModernVBertOptions(str(released), prompt=prompt))
    pages = [tiny.noise(70, 50), tiny.noise(20, 90, 1), tiny.noise(30, 30, 2)]
    seen = encoder.encode_document(pages, convert_to_tensor=True, convert_to_sparse_tensor=False)
    vectors = [ours.encode_query(text) for text in texts]
    vectors += ours.encode_pages([Page(str(n), image, "") for n, image in enumerate(pages)])
    for row, vector in zip([*theirs, *seen], vectors, strict=True):
        dense = np.zeros(len(row), np.float32)
        dense[vector.terms] = vector.weights
        assert len(vector) > 0
        assert np.abs(dense - row.numpy()).max() < 1e-4
    again = checkpoint.load(tmp_path / "st").model
    ids, mask = torch.tensor([[591, 5, 6, 7, 592]]), torch.ones(1, 5, dtype=torch.long)
    with torch.no_grad():
        assert torch.allclose(again(ids, mask).weights, loaded.model(ids, mask).weights, atol=1e-5)


def test_a_stock_static_embedding_needs_no_trust(released: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    sentence_layout.save(checkpoint.load(released), tmp_path / "st", count_repeats=False)
    assert not list((tmp_path / "st").glob("*.py"))
    encoder = library.SparseEncoder(str(tmp_path / "st"), device="cpu")
    once, twice = encoder.encode_query(
        [" red page", " red red page"], convert_to_tensor=True, convert_to_sparse_tensor=False
    )
    assert torch.equal(once, twice)


def test_a_folder_in_that_layout_serves_too(released: Path, tmp_path: Path) -> None:
    sentence_layout.save(checkpoint.load(released), tmp_path / "st")
    ours, theirs = (ModernVBertEncoder(ModernVBertOptions(str(p))) for p in (released, tmp_path / "st"))
    assert np.allclose(
        ours.encode_query(" red page").weights, theirs.encode_query(" red page").weights, atol=1e-6
    )
    (one,), (other,) = (each.encode_pages([Page("p", tiny.noise(60, 80), "")]) for each in (ours, theirs))
    assert np.array_equal(one.terms, other.terms)
    assert np.allclose(one.weights, other.weights, atol=1e-5)


def test_the_command_writes_it(released: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run_step([str(released), "--out", str(out), "--once"], write_layout, LayoutOptions) == 0
    assert not list(out.glob("*.py"))
    assert checkpoint.load(out).model.query_table().max() > 0
