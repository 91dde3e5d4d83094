from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsplade.encode import load_encoder
from vsplade.encode.text import WHOLE, TextEncoder
from vsplade.encode.tokenizer import Tokenizer
from vsplade.encode.with_text import PairedEncoder
from vsplade.errors import InputError
from vsplade.search.fused_search import fused_search, text_layer, whole
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import Page, SparseVector, shown

from .sighted import Sighted, paired

PAGES = {
    "born": ("green apples", "green apples and pears, green and ripe apples"),
    "garbled": ("gren aples", "green apples"),
    "scan": ("green green apples apples", None),
    "other": ("steam engine", "steam engine"),
}


@pytest.fixture
def index(tmp_path: Path) -> Index:
    encoder = paired()
    pages = [
        Page(id=name, image=Image.new("L", (8, 8)), path=f"{name}.pdf", text=text, metadata={"seen": seen})
        for name, (seen, text) in PAGES.items()
    ]
    with IndexWriter(tmp_path / "x", encoder) as writer:
        for page, vector in zip(pages, encoder.encode_pages(pages), strict=True):
            writer.add(page.id, vector, {"doc_id": page.id})
    return Index.open(tmp_path / "x", encoder)


def test_plain_search_is_the_first_encoder_alone(index: Index) -> None:
    assert [hit.id for hit in index.search("green apples")] == ["scan", "born"]


def test_text_half_scores_as_a_text_index_does(index: Index, tmp_path: Path) -> None:
    encoder = TextEncoder()
    with IndexWriter(tmp_path / "text", encoder) as writer:
        for name, (_, text) in PAGES.items():
            writer.add(name, encoder.encode_text(text or ""))
    alone = Index.open(tmp_path / "text", encoder).search("green apples")
    half = text_layer(index).search("green apples", 10, None)
    assert [(hit.id, hit.score) for hit in half] == [(hit.id, hit.score) for hit in alone]


def test_fused_hits_join_both_and_are_fair_to_scans(index: Index) -> None:
    hits = fused_search([whole(index), text_layer(index)], "green apples", weights=(0.6, 0.4))
    by_id = {hit.id: hit for hit in hits}
    # The reader ranks scan 1, born 0; the text layers born or garbled 1. The scan has no text layer, so the
    # reader alone decides about it: 0.6 * 1 / 0.6 = 1, the top.
    assert hits[0].id == "scan"
    assert hits[0].score == pytest.approx(1.0)
    assert set(by_id) == {"scan", "born", "garbled"}
    assert by_id["scan"].parts[1] is None
    assert by_id["born"].parts[0] is not None
    assert {match.token for match in by_id["born"].explain()} >= {"green", "text:green"}


def test_without_any_text_layer_fusion_is_the_reader(tmp_path: Path) -> None:
    encoder = paired()
    pages = [
        Page(
            id=f"p{n}", image=Image.new("L", (8, 8)), path="x", metadata={"seen": "word " * n + "more words"}
        )
        for n in range(6)
    ]
    with IndexWriter(tmp_path / "x", encoder) as writer:
        for page, vector in zip(pages, encoder.encode_pages(pages), strict=True):
            writer.add(page.id, vector)
    index = Index.open(tmp_path / "x", encoder)
    alone = [hit.id for hit in index.search("word more")]
    fused = fused_search([whole(index), text_layer(index)], "word more", weights=(0.3, 0.7))
    assert [hit.id for hit in fused] == alone


def test_two_indexes_side_by_side(index: Index, tmp_path: Path) -> None:
    encoder = TextEncoder()
    with IndexWriter(tmp_path / "notes", encoder) as writer:
        writer.add("other", encoder.encode_text("green apples are fuel"))
    notes = Index.open(tmp_path / "notes", encoder)
    hits = fused_search([whole(index), whole(notes)], "green apples", method="rrf")
    assert {hit.id for hit in hits} == {"scan", "born", "other"}
    # "scan" is not in the notes: the first index alone speaks for it, at rank 1.
    assert hits[0].id == "scan"
    assert hits[0].score == pytest.approx(1 / 61)


def test_an_index_without_text_layers_says_what_to_do(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "x", TextEncoder()):
        pass
    with pytest.raises(InputError, match=r"\+text"):
        text_layer(Index.open(tmp_path / "x"))


def test_names() -> None:
    encoder = paired()
    size = len(Tokenizer.load())
    assert encoder.name == "sighted+text"
    assert len(encoder.vocabulary) == 2 * size + WHOLE
    assert encoder.vocabulary.token(size + 5) == "text:" + Tokenizer.load().token(5)
    assert encoder.fingerprint != PairedEncoder(Sighted(), load_text(k1=0.9)).fingerprint
    with pytest.raises(InputError, match=r"reader\+text"):
        load_encoder("text+text")


def test_pairs_of_words_are_shown_as_words_beside_a_text_layer() -> None:
    encoder = load_encoder("reader+text")
    (pair,) = (
        int(term)
        for term in encoder.encode_query("interest rate").terms
        if encoder.vocabulary.token(int(term)).startswith("~")
    )
    assert shown(encoder.vocabulary, pair) == "interest rate"
    assert shown(encoder.vocabulary, len(encoder.vocabulary) - 1).startswith("text:")


def load_text(**options: float) -> TextEncoder:
    encoder = load_encoder("text", **options)
    assert isinstance(encoder, TextEncoder)
    return encoder


def test_has_text() -> None:
    encoder = paired()
    split = len(Tokenizer.load())
    assert not encoder.has_text(SparseVector.from_dict({split - 1: 1.0}))
    assert encoder.has_text(SparseVector(np.array([3, split], np.uint32), np.ones(2, np.float32)))
    assert not encoder.has_text(SparseVector.from_dict({}))
