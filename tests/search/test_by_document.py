"""What a page's document adds to its score, against a plain computation over all pages."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.test_meaning import TERMS, Corpus, plain

from vsplade import Index, index_paths
from vsplade.search.by_document import FEW_PAGES, MOST, TIMES, AskedNames, Documents, document_of, name_terms
from vsplade.search.by_meaning import DEPTH
from vsplade.store.identity import EncoderIdentity
from vsplade.store.writer import IndexWriter
from vsplade.types import BY_DOCUMENT, SparseVector, Windows

EXAMPLES = Path(__file__).parents[2] / "examples"


def metadata(number: int, documents: int) -> dict[str, Any]:
    """Document 0 has one page only; of every seventh page nobody knows the document."""
    if number % 7 == 3:
        return {}
    name = number % documents
    return {"doc_id": f"d{name}", "pages": 1 if name == 0 else 3 + name}


def written(folder: Path, corpus: Corpus, documents: int, engine: str) -> Index:
    """In two commits, so that documents lie in several segments."""
    for half in (0, 1):
        with IndexWriter(folder, EncoderIdentity("test", "1", TERMS)) as writer:
            for number, vector in enumerate(corpus.vectors):
                if (number >= len(corpus.vectors) // 2) == half:
                    writer.add(f"p{number}", vector, metadata(number, documents))
    return Index.open(folder, engine=engine)


def with_documents(corpus: Corpus, query: SparseVector, documents: int) -> dict[str, float]:
    """Every page scored as the first lines of ``by_document`` say."""
    scores = plain(corpus.vectors, query, len(corpus.vectors))
    of = {f"p{number}": document_of(metadata(number, documents)) for number in range(len(corpus.vectors))}
    has_word = {
        f"p{number}": bool(np.isin(query.terms, vector.terms).any())
        for number, vector in enumerate(corpus.vectors)
    }
    if not any(of[page] for page in of if has_word[page]):
        return scores
    seen = [
        page
        for page, vector in zip(of, corpus.vectors, strict=True)
        if has_word[page] or (isinstance(vector.meaning, Windows) and len(vector.meaning))
    ]
    own = {page: scores.get(page, 0.0) for page in seen}
    least, most = min(own.values()), max(own.values())
    known = dict.fromkeys(seen, 0.0)
    others = {page: document[1] - 1 if (document := of[page]) else 0 for page in seen}
    for page in seen:
        if others[page]:
            excess = sum(own[other] - least for other in seen if of[other] == of[page] and other != page)
            support = min(TIMES * excess / others[page], MOST * most)
            known[page] = support * others[page] / (others[page] + FEW_PAGES)
    best = max(known.values())
    lifted = {page: own[page] + known[page] + best * FEW_PAGES / (others[page] + FEW_PAGES) for page in seen}
    return {page: score for page, score in lifted.items() if score > 0}


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    pages=st.integers(2, DEPTH),
    documents=st.integers(1, 8),
    k=st.integers(1, 20),
    engine=st.sampled_from(["numpy", "numba"]),
)
def test_equals_a_plain_computation(
    seed: int, pages: int, documents: int, k: int, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    corpus = Corpus(seed, pages)
    index = written(tmp_path_factory.mktemp("index"), corpus, documents, engine)
    for _ in range(3):
        query = corpus.query()
        expected = with_documents(corpus, query, documents)
        hits = index.search(query, k)
        best = sorted(expected.values(), reverse=True)[:k]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-3)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.id], abs=1e-3)
            added = sum(match.product for match in hit.explain())
            assert added == pytest.approx(hit.score, abs=1e-3)
            assert sum(match.product for match in index.explain(query, hit.id)) == pytest.approx(
                added, abs=1e-3
            )


def test_words_alone_are_not_changed(tmp_path: Path) -> None:
    corpus = Corpus(5, 40)
    index = written(tmp_path, corpus, 4, "numpy")
    query = corpus.query()
    (hits,) = index.search_batch([query], 40, words_only=True)
    for hit in hits:
        weights = dict(zip(query.terms.tolist(), query.weights.tolist(), strict=True))
        page = index.vector(hit.id)
        score = sum(
            weights.get(t, 0) * w for t, w in zip(page.terms.tolist(), page.weights.tolist(), strict=True)
        )
        assert hit.score == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"doc_id": "a"},
        {"pages": 5},
        {"doc_id": "a", "pages": 1},
        {"doc_id": "a", "pages": "5"},
        {"doc_id": "a", "pages": 2.5},
        {"doc_id": "a", "pages": True},
        {"doc_id": "a", "pages": -3},
        {"doc_id": 7, "pages": 5},
        {"doc_id": ["a"], "pages": 5},
    ],
)
def test_what_is_no_document(given: Mapping[str, Any]) -> None:
    assert document_of(given) is None
    assert not Documents.in_metadata([given])


def test_a_page_is_found_by_the_company_that_others_name(tmp_path: Path) -> None:
    """Two reports with the same table; only the other pages of each say whose it is."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(40)

    def page(*lines: str) -> Image.Image:
        image = Image.new("L", (1000, 1200), 255)
        for row, line in enumerate(lines):
            ImageDraw.Draw(image).text((80, 80 + 90 * row), line, font=font, fill=0)
        return image

    for number, company in enumerate(("Northgate Lighthouse", "Southern Railway")):
        pages = [
            page(f"{company} annual report", f"{company} was founded in 1901", company) for _ in range(3)
        ]
        pages.insert(
            1 + number, page("Statement of cash flows", "Capital expenditure 512", "Total assets 90")
        )
        pages[0].save(tmp_path / f"r{number}.pdf", save_all=True, append_images=pages[1:])
    index_paths([tmp_path], tmp_path / "index", "reader")
    index = Index.open(tmp_path / "index")
    for company, answer in (("Northgate Lighthouse", "r0_2"), ("Southern Railway", "r1_3")):
        query = f"capital expenditure of {company}"
        scores = {hit.id: hit for hit in index.search(query)}
        other = "r1_3" if answer == "r0_2" else "r0_2"
        assert scores[answer].score > scores[other].score
        lifts = {
            page: [m for m in scores[page].explain() if m.term == BY_DOCUMENT] for page in (answer, other)
        }
        assert lifts[answer][0].product > sum(match.product for match in lifts[other])
        assert all(mark.text.lower() != "document" for mark in scores[answer].boxes())


def test_names_are_read_as_people_write_them() -> None:
    seen: list[str] = []

    def encode(text: str) -> list[int]:
        seen.append(text)
        return [{"weis": 1, "markets": 2, "10k": 3, "2022": 4}.get(word, 9) for word in text.lower().split()]

    terms = name_terms(encode)
    asked = AskedNames(SparseVector.from_dict({1: 3.0, 4: 1.0, 7: 4.0}), terms)
    for name in ("WeisMarkets_2022_10K", "weis-markets 2022 (10k)", "2022.Weis.Markets.10K"):
        assert terms(name) == {1, 2, 3, 4}
        assert asked.share(name) == pytest.approx(0.5)
    asked.share("WeisMarkets_2022_10K")
    assert len(seen) == 3, "a name is read once"
    assert asked.share("") == 0
    assert AskedNames(SparseVector.from_dict({}), terms).share("weis") == 0


def test_a_document_is_found_by_its_name(tmp_path: Path) -> None:
    """The same pages in two files; only the names tell them apart."""
    for name in ("LighthouseTrust_2021", "LighthouseTrust_2022"):
        shutil.copy(EXAMPLES / "report.pdf", tmp_path / f"{name}.pdf")
    index_paths([tmp_path], tmp_path / "index", "reader")
    index = Index.open(tmp_path / "index")
    for year in ("2021", "2022"):
        hits = index.search(f"maintenance of the turbine {year}")
        assert hits[0].id.startswith(f"LighthouseTrust_{year}_")
        for hit in hits:
            assert sum(match.product for match in hit.explain()) == pytest.approx(hit.score, rel=1e-4)
