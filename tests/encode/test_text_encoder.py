"""The text encoder gives BM25: checked against the formula written out longhand."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from vsplade.encode import default_encoder, load_encoder
from vsplade.encode.text import TextEncoder, TextOptions
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.types import Encoder, Page, SparseVector


class Corpus:
    """Term statistics of a handful of vectors, counted the slow way."""

    def __init__(self, vectors: list[SparseVector]) -> None:
        self._vectors = vectors

    @property
    def pages(self) -> int:
        return len(self._vectors)

    def document_frequency(self, terms: NDArray[np.uint32]) -> NDArray[np.int64]:
        return np.array([sum(t in v.terms for v in self._vectors) for t in terms], dtype=np.int64)


def page(text: str | None, number: int = 1) -> Page:
    return Page(id=f"p_{number}", image=Image.new("L", (1, 1)), path="p.pdf", number=number, text=text)


def dot(query: SparseVector, vector: SparseVector) -> float:
    held = dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))
    pairs = zip(query.terms.tolist(), query.weights.tolist(), strict=True)
    return sum(weight * held.get(term, 0.0) for term, weight in pairs)


def terms(text: str) -> list[object]:
    """Pieces, and rare words as they are spelled (the texts below hold no numbers)."""
    tokenizer = Tokenizer.load()
    words = re.findall("[a-z]+", text.lower())
    return [*tokenizer.encode(text), *(word for word in words if tokenizer.term(word) is None)]


def bm25(query: str, texts: list[str], k1: float, b: float, average: float) -> list[float]:
    """Lucene's BM25 with its (k1 + 1) factor kept and a fixed average length."""
    pages = [Counter(terms(text)) for text in texts]
    scores = []
    for counts, text in zip(pages, texts, strict=True):
        length, score = len(Tokenizer.load().encode(text)), 0.0
        for term in terms(query):
            df = sum(term in other for other in pages)
            idf = math.log(1 + (len(pages) - df + 0.5) / (df + 0.5))
            tf = counts[term]
            score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average)) if tf else 0.0
        scores.append(score)
    return scores


TEXTS = [
    "The turbine blade cracked near the root of the blade.",
    "Annual report: revenue grew, and the turbine business grew with it. " * 5,
    "Minutes of the meeting about the canteen.",
    "blade blade blade",
]


@pytest.mark.parametrize(
    "options", [{}, {"k1": 0.9, "b": 0.4, "average_length": 40.0}, {"b": 0.0}, {"k1": 0.0}]
)
@pytest.mark.parametrize("query", ["turbine blade", "the canteen the", "blade", "report of revenue growth"])
def test_scores_are_bm25(options: dict[str, float], query: str) -> None:
    encoder = TextEncoder(TextOptions(**options))
    vectors = list(encoder.encode_pages(page(text, n) for n, text in enumerate(TEXTS)))
    weights = encoder.encode_query(query, Corpus(vectors))
    wanted = bm25(query, TEXTS, encoder.options.k1, encoder.options.b, encoder.options.average_length)
    assert [dot(weights, vector) for vector in vectors] == pytest.approx(wanted, rel=5e-4)
    assert max(wanted) > 0


def test_vectors_are_well_formed() -> None:
    (vector,) = TextEncoder().encode_pages([page(TEXTS[1])])
    assert vector.terms.dtype == np.uint32
    assert vector.weights.dtype == np.float32
    assert (np.diff(vector.terms.astype(np.int64)) > 0).all()
    assert (vector.weights > 0).all()


def test_pages_without_text_are_empty_and_keep_their_place() -> None:
    vectors = list(TextEncoder().encode_pages([page(None), page("blade"), page("  \n "), page("...")]))
    assert [len(vector) > 0 for vector in vectors] == [False, True, False, False]


def test_pages_are_streamed() -> None:
    taken: list[int] = []

    def pages() -> object:
        for number in range(100):
            taken.append(number)
            yield page("blade", number)

    next(iter(TextEncoder().encode_pages(pages())))  # type: ignore[arg-type]
    assert len(taken) == 1


def test_common_terms_still_count_for_something() -> None:
    encoder = TextEncoder()
    vectors = list(encoder.encode_pages(page("blade") for _ in range(9)))
    assert (encoder.encode_query("blade", Corpus(vectors)).weights > 0).all()


def test_queries_without_statistics_count_words() -> None:
    query = TextEncoder().encode_query("blade blade turbine")
    assert sorted(set(query.weights.tolist())) == [1.0, 2.0]
    assert len(TextEncoder().encode_query("")) == 0


def test_name_and_fingerprint_follow_the_options() -> None:
    plain, tuned = TextEncoder(), load_encoder("text", k1=0.9)
    assert isinstance(plain, Encoder)
    assert plain.name == "text"
    assert tuned.name == "text:k1=0.9"
    assert load_encoder(tuned.name).fingerprint == tuned.fingerprint != plain.fingerprint
    assert load_encoder("text:b=0.5").fingerprint != load_encoder("text:average_length=100").fingerprint


def test_fingerprint_follows_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TextEncoder().fingerprint
    encoder = TextEncoder()

    class OtherTokenizer:
        fingerprint = "another vocabulary"

    monkeypatch.setattr(encoder, "_tokenizer", OtherTokenizer())
    assert encoder.fingerprint != before


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("txet", {}, "choose one of: .*text"),
        ("text", {"k": 1}, "it accepts: k1, b, average_length"),
        ("text:k2=1", {}, "no option 'k2'"),
        ("text:k1", {}, "name:key=value"),
        ("text:k1=1,k1=2", {}, "given twice"),
        ("text:k1=high", {}, "'high' is not a number"),
        ("text", {"k1": True}, "True is not a number"),
        ("text:k1=1", {"k1": 2}, "keep one"),
        ("text", {"b": 1.5}, "between 0 and 1"),
        ("text", {"k1": -1}, "at least 0"),
        ("text", {"k1": float("nan")}, "at least 0"),
        ("text", {"average_length": 0}, "above 0"),
    ],
)
def test_mistakes_are_explained(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_encoder(name, **options)


def test_the_default_encoder_can_be_loaded() -> None:
    assert load_encoder().name == load_encoder(default_encoder()).name
