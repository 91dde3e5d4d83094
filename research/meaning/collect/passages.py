"""Passages of 40 to 200 words in English: manuals, reports, stories, medicine, tables, dictionaries.

Every kind of file has a function that finds the text in it. A file that cannot be read is named and passed
over. Passages about software are thinned to a little over a third of the whole.
"""

from __future__ import annotations

import json
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path

import pypdfium2

from research.meaning.collect import wide
from research.meaning.collect.datasets import long_texts
from research.meaning.collect.packages import GENERAL, SOFTWARE, WIDE_MANUALS, Places
from research.meaning.collect.text import (
    FEWEST,
    MOST,
    SKIP,
    clean,
    entries,
    is_english,
    passages_of,
    read_lines,
    read_text,
    sections,
    without_markup,
)

MOST_OF_A_PACKAGE, MOST_OF_A_PDF = 20_000, 4_000
LARGEST_FILE, MOST_CHARACTERS = 20_000_000, 5_000_000
ROWS_OF_A_TABLE = 12
PROCESSES = 2
_NO_TEXT = (".png", ".svg", ".dat", ".ogg", ".jpg", ".u8", ".mo", ".wav", ".so")
_PLAIN = ("/fortunes/", "/games/", "/doc/", "/misc/", "/ktouch/", "/dict/")
_WESNOTH = re.compile(r'(?:message|story|description|help_text|text)\s*=\s*_\s*"((?:[^"]|"")+)"')
_CATACLYSM = re.compile(r'"(?:description|text|str|dynamic_line)":\s*"((?:[^"\\]|\\.){60,})"')
_QUOTED = re.compile(r'[`"\[]((?:[A-Z])[^`"\[\]<>{}]{60,})[`"\]]')
_BETWEEN_TAGS = re.compile(r">([^<>]{100,})<")


def collect(places: Places) -> list[dict[str, str]]:
    """Rows of ``t`` and ``src``, each passage once, in random order."""
    parts = {"reports": [], **_of_data(places), **_of_dictionaries(places), **_of_datasets(places)}
    added: dict[str, list[str]] = {}
    with Pool(PROCESSES) as pool:
        for found in pool.imap(of_pdf, sorted(map(str, (places.data / "reports").glob("*.pdf")))):
            parts["reports"].extend(found)
        packages = sorted((*GENERAL, *SOFTWARE, *WIDE_MANUALS))
        folders = [(name, places.debian(name)) for name in packages]
        for name, found in zip(packages, pool.imap(of_package, folders), strict=True):
            (added if name in WIDE_MANUALS else parts)[name] = found
            print(f"{name}: {len(found):,} passages", file=sys.stderr)
    for passage, source in wide.passages(places):
        added.setdefault(source, []).append(passage)
    rows = _once(parts, added, random.Random(0))
    random.Random(0).shuffle(rows)
    return rows


def _once(
    parts: dict[str, list[str]], added: dict[str, list[str]], rng: random.Random
) -> list[dict[str, str]]:
    """Without repetitions, and with less about software: how much less is told by ``parts`` alone."""
    general = sum(len(found) for name, found in parts.items() if name not in SOFTWARE)
    software = sum(len(found) for name, found in parts.items() if name in SOFTWARE)
    kept = min(1.0, 0.65 * general / max(software, 1))
    seen, rows = set(), []
    for name, found in {**parts, **added}.items():
        for passage in found:
            key = re.sub(r"\W+", "", passage.lower())[:120]
            if (name in SOFTWARE and rng.random() > kept) or key in seen:
                continue
            seen.add(key)
            rows.append({"t": passage, "src": name})
    return rows


# -- packages -----------------------------------------------------------------------------------------------


def of_package(named: tuple[str, Path]) -> list[str]:
    package, folder = named
    out: list[str] = []
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    random.Random(0).shuffle(files)
    for path in files:
        if len(out) > MOST_OF_A_PACKAGE:
            break
        inside = path.removeprefix(str(folder))
        find = None if SKIP.search(inside) else _finder(package, inside)
        if find is None or Path(path).stat().st_size > LARGEST_FILE:
            continue
        try:
            out += find(path)
        except (OSError, EOFError, zlib.error, json.JSONDecodeError) as error:
            print(f"passed over: {inside}: {error}", file=sys.stderr)
    return [passage for passage in dict.fromkeys(out) if is_english(passage)][:MOST_OF_A_PACKAGE]


def _finder(package: str, path: str) -> Callable[[str], list[str]] | None:
    """How text is found in this file; None: there is none to find."""
    if path.lower().endswith(".pdf"):
        return of_pdf
    name = path.lower().removesuffix(".gz")
    if name.endswith((".html", ".htm", ".xhtml", ".docbook", ".page")):
        return partial(_of_sections, kind=name)
    if package.startswith("wesnoth") and name.endswith(".cfg"):
        return lambda file: passages_of(" ".join(_WESNOTH.findall(read_text(file))))
    if package == "cataclysm-dda-data" and name.endswith(".json"):
        return _of_cataclysm
    stories = package in ("endless-sky-data", "freeorion-data")
    if stories and name.endswith((".txt", ".lua", ".xml", ".dialog")):
        return partial(_of_strings, package=package)
    plain = name.endswith(".txt") or any(part in path for part in _PLAIN)
    return (
        _of_plain if package in (*GENERAL, *WIDE_MANUALS) and plain and not name.endswith(_NO_TEXT) else None
    )


def of_pdf(path: str) -> list[str]:
    out: list[str] = []
    for text in _pdf_pages(path):
        text = re.sub(r"(\w)[-\ufffe\u00ad]\r?\n(\w)", r"\1\2", text)
        if is_english(text):
            out += [passage for passage in passages_of(text) if is_english(passage)]
        if len(out) > MOST_OF_A_PDF:
            break
    return out


def _pdf_pages(path: str) -> Iterator[str]:
    try:
        document = pypdfium2.PdfDocument(path)
        for number in range(len(document)):
            yield document[number].get_textpage().get_text_range()
    except pypdfium2.PdfiumError as error:
        print(f"passed over: {Path(path).name}: {error}", file=sys.stderr)


def _of_sections(path: str, kind: str) -> list[str]:
    return [one for head, body in sections(kind, read_text(path)) for one in passages_of(f"{head}. {body}")]


def _of_cataclysm(path: str) -> list[str]:
    strings = _CATACLYSM.findall(read_text(path))
    return passages_of(" ".join(json.loads(f'"{text}"', strict=False) for text in strings))


def _of_strings(path: str, package: str) -> list[str]:
    text = read_text(path)
    found = _QUOTED.findall(text) + _BETWEEN_TAGS.findall(text)
    if package == "freeorion-data":
        found = re.findall(r"'''(.*?)'''", text, re.DOTALL)
    return passages_of(" ".join(map(without_markup, found)))


def _of_plain(path: str) -> list[str]:
    text = read_text(path, MOST_CHARACTERS)
    if "\x00" in text or "\ufffd" in text[:2000]:  # not text after all
        return []
    blocks = re.split(r"\n%\n|\n\s*\n\s*\n", text)
    return [passage for block in blocks for passage in passages_of(without_markup(block))]


# -- everything else ----------------------------------------------------------------------------------------


def _of_data(places: Places) -> dict[str, list[str]]:
    data = places.data
    medical = [one for row in read_lines(data / "medquad.jsonl.gz") for one in passages_of(row["text"])]
    charts = [
        clean(f"{row['query']}. {row['caption']}")
        for row in read_lines(data / "charts" / "pairs.jsonl.gz")
        if FEWEST <= len(row["caption"].split()) <= MOST
    ]
    tables = []
    for row in read_lines(data / "wikitables.tables.jsonl.gz"):
        head, *lines = row["tsv"].split("\n")
        for first in range(0, len(lines) + 1, ROWS_OF_A_TABLE):  # the head counts as a row
            part = lines[max(first - 1, 0) : first + ROWS_OF_A_TABLE - 1]
            words = clean(f"{head} {' '.join(part)}").split()
            if len(words) >= FEWEST:
                tables.append(" ".join(words[:MOST]))
    return {"medquad": medical, "charts": charts, "wikitables": tables}


def _of_dictionaries(places: Places) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for name in ("gcide", "foldoc", "jargon", "devil"):
        found = out.setdefault(f"dict-{name}", [])
        for head, body in entries(places.dictionary(name)):
            found += passages_of(re.sub(r"[{}]|\\[^\\]*\\|\[[^\]]*\]", " ", f"{head}\n{body}"))
    return out


def _of_datasets(places: Places) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for text, source in long_texts(places):
        out.setdefault(source, []).extend(passages_of(text))
    return out
