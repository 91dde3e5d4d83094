"""Pairs of a short text and a passage that goes with it, from dictionaries, manuals and question sets.

Headwords and synonyms with glosses, examples with the word that they use, index phrases and headings with the
text that follows, titles with captions, questions with answers.
"""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from pathlib import Path

from research.meaning.collect import datasets
from research.meaning.collect.datasets import Pair
from research.meaning.collect.packages import DATABASES, DICTIONARIES, GENERAL, SOFTWARE, Places
from research.meaning.collect.text import (
    SKIP,
    clean,
    entries,
    html_sections,
    is_english,
    read_lines,
    read_text,
    sections,
)

LONGEST_QUERY, LONGEST_PASSAGE = 200, 1200
"""Characters."""
MOST_OF_A_PACKAGE = 12_000
_PAGES = (".html", ".xhtml", ".htm", ".docbook", ".page", ".html.gz")
_SENSE = re.compile(r"\n\s+(?=(?:(?:n|v|adj|adv)\s+)?\d+:)|^\s+(?=(?:n|v|adj|adv)\s*\d*:)")


def collect(places: Places) -> list[dict[str, str]]:
    """Rows of ``q``, ``p`` and ``src``, each pair once, in random order."""
    found: dict[tuple[str, str], str] = {}
    parts = (wordnet, thesaurus, dictionaries, libreoffice, training_data, datasets.pairs, headings)
    for part in parts:
        for query, passage, source in part(places):
            query, passage = clean(query), clean(passage)[:LONGEST_PASSAGE]
            different = query.lower() != passage.lower()
            if query and len(query) < LONGEST_QUERY and len(passage.split()) >= 4 and different:
                found.setdefault((query, passage), source)
    rows = [{"q": query, "p": passage, "src": source} for (query, passage), source in found.items()]
    random.Random(0).shuffle(rows)
    return rows


def wordnet(places: Places) -> Iterator[Pair]:
    for head, body in entries(places.dictionary("wn")):
        if not body or head.startswith("00-database"):
            continue
        for sense in map(clean, _SENSE.split(body)):
            gloss = clean(re.sub(r"\[(syn|ant|also):[^\]]*\]", "", sense)).strip(" ;")
            gloss = re.sub(r"^(?:(?:n|v|adj|adv)\b\s*)?\d*\s*:\s*", "", gloss)
            if len(gloss.split()) < 3:
                continue
            yield head, gloss, "wordnet"
            for block in re.findall(r"\[syn:([^\]]*)\]", sense):
                for synonym in re.findall(r"\{([^}]+)\}", block):
                    if synonym.lower() != head.lower():
                        yield synonym.replace("_", " "), gloss, "wordnet"
            short, *examples = re.findall(r'^[^"]+|"[^"]+"', gloss) or [gloss]
            for example in examples:  # a sentence that uses the word, and what the word means
                if len(example.split()) >= 4:
                    yield example.strip('"'), f"{head}: {short.strip(' ;')}", "wordnet-example"


def thesaurus(places: Places) -> Iterator[Pair]:
    word = ""
    for line in read_text(str(places.thesaurus)).split("\n")[1:]:
        if re.search(r"\|\d+$", line) and not line.startswith("("):
            word = line.rsplit("|", 1)[0]
            continue
        kind, *others = line.split("|")
        near = [
            re.sub(r" \((generic|related|similar) term\)", "", other)
            for other in others
            if "(antonym)" not in other
        ]
        if word and len(near) >= 2:
            different = dict.fromkeys(other for other in near if other.lower() != word.lower())
            yield word, f"{kind.strip('()')}: " + ", ".join(different), "mythes"


def dictionaries(places: Places) -> Iterator[Pair]:
    for name in ("gcide", "foldoc", "jargon", "devil", "vera"):
        for head, body in entries(places.dictionary(name)):
            if name == "gcide":  # who wrote what
                body = re.sub(
                    r"\[(1913 Webster|WordNet 1\.5|PJC|Webster 1913 Suppl\.|Century Dict\. 1906)[^\]]*\]",
                    " ",
                    body,
                )
                body = re.sub(r"--[A-Z][\w. ]+\.", " ", body)
            body = clean(re.sub(r"[{}\\]", "", body))
            head = re.sub(r"[^A-Za-z0-9 '\-].*", "", head).strip()
            if head and len(body.split()) >= 5:
                yield head, body, name


def libreoffice(places: Places) -> Iterator[Pair]:
    """The phrases of its index, each with the page that it points to."""
    base = places.debian("libreoffice-help-en-us") / "usr/share/libreoffice/help"
    texts: dict[str, str] = {}
    for line in read_text(str(base / "en-US" / "bookmarks.js")).splitlines():
        entry = re.search(r'url:"([^"?]+)[^"]*", app:"\w+", text:"(.*)"', line)
        if entry is None:
            continue
        url, phrase = entry.groups()
        if url not in texts:
            found = html_sections(read_text(str(base / url))) if (base / url).is_file() else []
            texts[url] = clean(" ".join(f"{head}. {body}" for head, body in found[:2]))
        if texts[url]:
            yield html.unescape(phrase).replace(" -- ", ", ").strip("; "), texts[url], "libreoffice-index"


def training_data(places: Places) -> Iterator[Pair]:
    data = places.data
    for row in read_lines(data / "medquad.jsonl.gz"):
        yield row["query"], row["text"], "medquad"
    tables = {row["_id"]: clean(row["tsv"]) for row in read_lines(data / "wikitables.tables.jsonl.gz")}
    for row in read_lines(data / "wikitables.queries.jsonl.gz"):
        if row["table"] in tables:
            yield row["query"], tables[row["table"]], "wikitables"
    for row in read_lines(data / "charts" / "pairs.jsonl.gz"):
        yield row["query"], row["caption"], "charts"


def headings(places: Places) -> Iterator[Pair]:
    """Of manuals, with the text that follows."""
    seen = set()
    for package in sorted({*DICTIONARIES, *GENERAL, *SOFTWARE, *DATABASES}):
        found = 0
        for path in _manual_pages(places.debian(package)):
            if found > MOST_OF_A_PACKAGE:
                break
            for head, body in sections(path, read_text(path)):
                fits = 1 <= len(head.split()) <= 20 and len(body.split()) >= 20
                if fits and body[:100] not in seen and is_english(body):
                    seen.add(body[:100])
                    found += 1
                    yield head, body, package


def _manual_pages(folder: Path) -> list[str]:
    files = sorted(
        str(path)
        for path in folder.rglob("*")
        if path.name.endswith(_PAGES)
        and not SKIP.search(f"/{path.relative_to(folder)}")
        and path.is_file()
        and not path.is_symlink()
        and path.stat().st_size <= 1_000_000
    )
    random.Random(0).shuffle(files)
    return files
