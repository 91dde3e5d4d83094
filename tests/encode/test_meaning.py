"""What pages are about: the model that ships, as a user meets it."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from vsplade.encode import as_built, load_encoder
from vsplade.encode.meaning.meaning_model import MOST_WINDOWS, WINDOW, MeaningModel, page_windows, rounded
from vsplade.encode.meaning.wordpiece import WordPiece, words
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.errors import InputError
from vsplade.search.index import Index
from vsplade.store.writer import IndexWriter
from vsplade.types import MeaningEncoder, Windows

PAGES = {
    "stomach": "Treatment of acute abdominal pain in adults. The patient reports cramps after meals.",
    "engine": "The turbine was overhauled in March. New bearings were fitted to the main shaft.",
    "money": "Net income of the group rose by nine percent, mostly from interest on deposits.",
    "garden": "Tulips are planted in autumn, three times as deep as the bulb is high.",
    "court": "The judge dismissed the appeal and ordered the plaintiff to pay all costs.",
}
ASKED = {
    "remedy for a bellyache": "stomach",
    "repair of machinery": "engine",
    "how much profit did the bank make": "money",
    "when to put flowers in the soil": "garden",
    "lawsuit that was lost": "court",
}


@pytest.fixture(scope="module")
def model() -> MeaningModel:
    return MeaningModel.load()


def test_what_tells_nothing_has_no_direction(model: MeaningModel) -> None:
    """A made-up word is near nothing: its shreds would say that it is."""
    for query in ("xyzzyq", "what is xyzzyq", "4077010.89", "2018", "how many of the", "!!!", ""):
        assert model.encode_query(query) is None, query
        assert model.encode_query(query, network=True) is None, query
    for query in ("bellyaches", "remedy for xyzzyq", "immunohistochemical", "chart"):
        assert model.encode_query(query) is not None, query


@pytest.mark.parametrize(
    ("name", "has"), [("reader", True), ("reader:meaning=false", False), ("reader+text", True)]
)
def test_an_encoder_says_whether_it_has_meaning(name: str, has: bool) -> None:
    encoder = load_encoder(name)
    assert isinstance(encoder, MeaningEncoder)
    assert encoder.has_meaning is has
    assert (encoder.encode_meaning("lighthouse") is not None) is has


def test_a_query_lies_near_the_page_that_answers_in_other_words(model: MeaningModel) -> None:
    windows = {name: model.encode_text(text) for name, text in PAGES.items()}
    for query, wanted in ASKED.items():
        direction = model.encode_query(query)
        assert direction is not None

        def nearness(name: str, vector: np.ndarray = direction.vector) -> float:
            found = windows[name]
            assert found is not None
            codes = found.codes.astype(np.float32)
            return float((codes @ vector / np.linalg.norm(codes, axis=1)).max())

        assert max(PAGES, key=nearness) == wanted


def test_an_index_finds_them_and_tells_why(model: MeaningModel, tmp_path: Path) -> None:
    encoder = load_encoder("reader")
    with IndexWriter(tmp_path, encoder) as writer:
        for name, text in PAGES.items():
            vector = encoder.weigh_text(text)  # type: ignore[attr-defined]
            writer.add(name, type(vector)(vector.terms, vector.weights, model.encode_text(text)))
    index = Index.open(tmp_path, encoder)
    for query, wanted in ASKED.items():
        (hit,) = index.search(query, 1)
        assert hit.id == wanted
        assert hit.score == pytest.approx(sum(match.product for match in hit.explain()), rel=1e-3)
    (hit,) = index.search("remedy for a bellyache", 1)
    meaning = hit.explain()[-1]
    assert (meaning.token, meaning.term) == ("meaning", -1)
    assert {"abdominal", "pain"} & set(dict(meaning.meant_by)["bellyache"])
    assert not index.search("bellyache", 5, words_only=True)
    # a word that stands there comes first, whatever the rest is about
    assert index.search("tulips bellyache", 1)[0].id == "garden"


def test_no_network_is_loaded_for_a_query(tmp_path: Path) -> None:
    with IndexWriter(tmp_path, load_encoder("reader")) as writer:
        windows = MeaningModel.load().encode_text(PAGES["stomach"])
        vector = load_encoder("reader").weigh_text("abdominal pain")  # type: ignore[attr-defined]
        writer.add("page", type(vector)(vector.terms, vector.weights, windows))
    code = (
        "import sys; from vsplade import Index\n"
        f"assert [hit.id for hit in Index.open({str(tmp_path)!r}).search('bellyache')] == ['page']\n"
        "assert not {'onnxruntime', 'torch', 'transformers', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_network_may_read_the_query_instead(model: MeaningModel, tmp_path: Path) -> None:
    """`reader+dense`: over the same index, with the vector that the page's text model gives."""
    encoder = load_encoder("reader+dense")
    assert encoder.name == "reader:dense=true"
    assert encoder.fingerprint == load_encoder("reader").fingerprint
    text = "remedy for a bellyache"
    windows, direction = model.encode_text(text), model.encode_query(text, network=True)
    assert windows is not None
    assert direction is not None
    assert rounded(direction.vector[None]).tolist() == windows.codes.tolist()
    with IndexWriter(tmp_path, load_encoder("reader")) as writer:
        for name, words_of_page in PAGES.items():
            vector = load_encoder("reader").weigh_text(words_of_page)  # type: ignore[attr-defined]
            writer.add(name, type(vector)(vector.terms, vector.weights, model.encode_text(words_of_page)))
    index = Index.open(tmp_path, encoder)
    assert {query: index.search(query, 1)[0].id for query in ASKED} == ASKED
    np.testing.assert_array_equal(index.encode_query(text).meaning.vector, direction.vector)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="meaning"):
        load_encoder("reader:meaning=false,dense=true")


def test_windows_cover_a_page_evenly() -> None:
    assert page_windows(0) == [(0, 0)]
    for count in (1, WINDOW, WINDOW + 1, 5 * WINDOW - 3):
        spans = page_windows(count)
        assert (spans[0][0], spans[-1][1]) == (0, count)
        assert all(last - first <= WINDOW for first, last in spans)
        assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert len(page_windows(100 * WINDOW)) == MOST_WINDOWS


def test_pages_without_words_have_no_windows(model: MeaningModel) -> None:
    assert model.encode_page([]) is None
    assert model.encode_query("") is None


def test_rounding_keeps_the_direction() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 64)).astype(np.float32)
    codes = rounded(vectors).astype(np.float32)
    lengths = np.linalg.norm(codes, axis=1) * np.linalg.norm(vectors, axis=1)
    assert ((codes * vectors).sum(1) / lengths).min() > 0.999


def test_wordpiece_takes_the_longest_piece() -> None:
    tokens = ["[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "##a", "table", "!", "na"]
    pieces = WordPiece(tokens)
    assert pieces.encode("Unaffable table!") == [3, 4, 5, 7, 8]
    assert pieces.encode("nä") == [9]
    assert pieces.encode("xyz") == [0]
    assert words("a-b c_d") == ["a", "-", "b", "c", "_", "d"]


def test_a_page_has_windows_of_the_models_size(model: MeaningModel) -> None:
    found = model.encode_text(" ".join(["word"] * 450))
    assert isinstance(found, Windows)
    assert found.codes.shape == (3, model.dimensions)
    assert found.codes.any(axis=1).all()


def test_expansions_are_words_that_the_page_does_not_hold(model: MeaningModel) -> None:
    windows = model.encode_text(PAGES["court"])
    assert windows is not None
    held = {"judge", "appeal", "plaintiff", "costs"}
    found = [word for word, _ in model.expansions(windows, held, 20)]
    assert not held & set(found)
    assert {"lawsuit", "court", "verdict", "trial"} & set(found)


def test_a_word_that_the_text_model_cuts_is_known_whole(model: MeaningModel) -> None:
    """Its row says more than the sum of its pieces' rows."""
    for word, meant in {"tweet": "twitter", "bellyache": "stomach", "vaccinate": "vaccine"}.items():
        whole, other = model.word_vectors([word, meant])
        pieces = model.vectors(model._wordpiece.word(word)).sum(axis=0)
        assert len(model._wordpiece.word(word)) > 1
        lengths = np.linalg.norm([whole, pieces], axis=1) * np.linalg.norm(other)
        near, before = np.array([whole, pieces]) @ other / lengths
        assert near > max(before, 0.5)


def test_indexes_of_an_earlier_page_model_are_of_another_encoder() -> None:
    """Their directions say nothing to queries of today; without meaning they are read as they were."""
    made_before = "reader-52c06ec05fa0ab49"
    assert as_built(load_encoder("reader"), made_before).fingerprint != made_before
    plain = load_encoder("reader:meaning=false")
    assert isinstance(plain, ReaderEncoder)
    for former in plain.former():
        assert former.fingerprint != plain.fingerprint
        assert as_built(plain, former.fingerprint).fingerprint == former.fingerprint
