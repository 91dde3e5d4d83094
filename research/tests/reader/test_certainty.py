"""Certainty: counted as it should be, and the score of a page does not depend on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from research.reader.certainty import kinds, measure_certainty, shares
from research.reader.options import CertaintyOptions
from vsplade.encode.reader.reader import ReaderEncoder
from vsplade.encode.reader.reader_queries import MODEL, ReaderOptions
from vsplade.encode.tokenizer import Tokenizer
from vsplade.errors import InputError
from vsplade.pages import FileProblem, name_files, render

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_term_takes_the_share_of_its_kind_until_it_is_known() -> None:
    seen, true = np.array([0.0, 10_000, 100, 100]), np.array([0.0, 1000, 90, 50])
    never, known, first, second = shares(seen, true, np.array([0, 0, 1, 1]))
    assert known == pytest.approx(0.1, abs=0.001)
    assert never == pytest.approx(known, abs=0.01)
    assert 0.8 < first < 0.9
    assert 0.5 < second < 0.6


def test_kinds_tell_pieces_words_and_digits_apart() -> None:
    tokenizer = Tokenizer.load()
    kind = kinds(tokenizer)
    tokens = ("a", "harbour", "lighthouse", "123", "##123", "q##", "##q", "tox##", "##icol##")
    numbers = [kind[tokenizer.term(token)] for token in tokens]
    assert numbers[1] == numbers[2]
    assert len(set(numbers)) == len(tokens) - 1


def model_with(folder: Path, certainty: np.ndarray) -> ReaderEncoder:
    shutil.copytree(MODEL, folder)
    np.save(folder / "certainty.npy", certainty.astype(np.float16))
    return ReaderEncoder(ReaderOptions(model=str(folder)))


def test_scores_do_not_depend_on_it(tmp_path: Path) -> None:
    size = len(Tokenizer.load())
    readers = [
        model_with(tmp_path / "one", np.ones(size)),
        model_with(tmp_path / "other", np.random.default_rng(0).uniform(0.1, 1, size)),
    ]
    result = next(
        iter(render(name_files([str(sorted(EXAMPLES.rglob("*.pdf"))[0])]), readers[0].longest_edge))
    )
    assert not isinstance(result, FileProblem)
    words = " ".join((result.page.text or "").split()[:30])
    scores, heaviest = [], []
    for reader in readers:
        (vector,) = reader.encode_pages([result.page])
        query = reader.encode_query(words)
        weights = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
        found = zip(vector.terms.tolist(), vector.weights.tolist(), strict=True)
        scores.append(sum(weights.get(term, 0.0) * weight for term, weight in found))
        heaviest.append(set(vector.top(30).terms.tolist()))
    assert scores[0] > 0
    assert scores[0] == pytest.approx(scores[1], rel=1e-4)
    assert heaviest[0] != heaviest[1]
    assert readers[0].fingerprint != readers[1].fingerprint


def test_it_is_measured_on_real_pages(tmp_path: Path) -> None:
    out = tmp_path / "certainty.npy"
    result = measure_certainty(CertaintyOptions(MODEL, EXAMPLES, out, pages=1))
    table = np.load(out)
    assert len(table) == len(Tokenizer.load())
    assert result["pages"] >= 1
    assert 0.7 < result["true"] <= 1
    assert ((table > 0) & (table <= 1)).all()


def test_pages_without_text_are_no_measure(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="text layer"):
        measure_certainty(CertaintyOptions(MODEL, tmp_path / "empty", tmp_path / "c.npy"))
