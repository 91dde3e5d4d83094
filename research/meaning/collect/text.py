"""Files to clean English text: sections of HTML and DocBook, PDF pages, passages cut at sentence ends."""

from __future__ import annotations

import gzip
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

WORDS_OF_PASSAGE, FEWEST, MOST = 110, 40, 200
_LANGUAGES = (
    "de|fr|es|it|ja|ru|pt|pt_BR|pt-br|zh|zh_CN|ko|nl|pl|ca|cs|da|hu|sk|sl|sv|tr|uk|vi|el|fi|hr|id|eu|gl|sq"
    "|ro|nb|nn|eo|et|fa|oc|be|lt|kk"
)
SKIP = re.compile(
    r"/_sources/|genindex|/search\.html|py-modindex|/_modules/|/_static/|theindex|concordance|changelog"
    r"|copyright|/help/(?!C/|en/)[a-z]{2,3}(_[A-Z]+)?(@\w+)?/|/HTML/(?!en/)[a-z]{2}(_\w+)?/"
    r"|debian-handbook/html/(?!en-US)|/html/(?!en)[a-z]{2}(-[A-Z]{2})?/"
    rf"|[._-]({_LANGUAGES})\.(html|txt|pdf)",
    re.IGNORECASE,
)
"""Paths of indexes, sources, search pages and other languages."""
_FUNCTION_WORDS = frozenset(
    (
        "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "with", "was", "on", "be", "by",
        "are", "this", "or", "from", "at", "which", "an", "not", "have", "his", "you", "can", "if", "their",
        "will", "has",
    )
)  # fmt: skip
_DROPPED = re.compile(
    r"<(script|style|head|nav|pre|footer|programlisting|screen)\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE
)
_NUMBER = re.compile(r"^(Chapter |Appendix )?[\dA-Z]?(\d*[.])+\d*\.?\s+")
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z0-9\"'(•])")
_ENTRY = re.compile(r"\n(?=\S)")


def clean(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\u00ad", "").replace("\u200b", "")).strip()


def without_markup(markup: str) -> str:
    markup = re.sub(r"<!--.*?-->|<[^>]+>", " ", _DROPPED.sub(" ", markup), flags=re.DOTALL)
    return clean(html.unescape(markup).replace("¶", " "))


def sections(path: str, page: str) -> list[tuple[str, str]]:
    """(heading, the text that follows) of an HTML, DocBook or Mallard page."""
    return docbook_sections(page) if path.endswith((".docbook", ".page")) else html_sections(page)


def html_sections(page: str) -> list[tuple[str, str]]:
    body = re.search(r"<body[^>]*>(.*)", page, re.DOTALL | re.IGNORECASE)
    parts = re.split(
        r"<h[1-6][^>]*>(.*?)</h[1-6]\s*>", body[1] if body else page, flags=re.DOTALL | re.IGNORECASE
    )
    return [
        (_NUMBER.sub("", without_markup(head)), without_markup(text))
        for head, text in zip(parts[1::2], parts[2::2], strict=True)
    ]


def docbook_sections(page: str) -> list[tuple[str, str]]:
    page = re.sub(
        r"<(bookinfo|articleinfo|info|legalnotice)\b.*?</\1>", " ", page, flags=re.DOTALL | re.IGNORECASE
    )
    parts = re.split(r"<title[^>]*>(.*?)</title>", page, flags=re.DOTALL | re.IGNORECASE)
    return [
        (without_markup(head), clean(re.sub(r"&[\w.-]+;", "", without_markup(text))))
        for head, text in zip(parts[1::2], parts[2::2], strict=True)
    ]


def is_english(text: str) -> bool:
    """Whether enough of the words are function words of English, and most characters are letters."""
    words = re.findall(r"[a-z']+", text.lower())
    if len(words) < 8:
        return False
    letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
    return sum(word in _FUNCTION_WORDS for word in words) / len(words) > 0.15 and letters / len(text) > 0.8


def passages_of(text: str) -> list[str]:
    """Passages of 40 to 200 words, about 110, cut at the ends of sentences where there are any."""
    out: list[list[str]] = []
    run: list[str] = []
    for sentence in _SENTENCE.split(clean(text)):
        words = sentence.split()
        while len(words) > MOST:
            out.append(run)
            out.append(words[:WORDS_OF_PASSAGE])
            run, words = [], words[WORDS_OF_PASSAGE:]
        if len(run) + len(words) > MOST - 20:
            out.append(run)
            run = []
        run = run + words
        if len(run) >= WORDS_OF_PASSAGE:
            out.append(run)
            run = []
    out.append(run)
    return [" ".join(words) for words in out if FEWEST <= len(words) <= MOST]


def entries(path: Path) -> Iterator[tuple[str, str]]:
    """(headword, what is said of it) of a dictionary in dictd's format."""
    for entry in _ENTRY.split(read_text(str(path))):
        head, _, body = entry.partition("\n")
        yield head.strip(), body


def read_text(path: str, most: int = -1) -> str:
    """A text file, packed or not."""
    opened = gzip.open if path.endswith((".gz", ".dz")) else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        return str(file.read(most))


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """One JSON object a line, whole or not at all; how many lines each source gave."""
    partial = path.with_suffix(".partial")
    counts: Counter[str] = Counter()
    with gzip.open(partial, "wt", encoding="utf-8", compresslevel=6) as file:
        for row in rows:
            counts[row["src"]] += 1
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    os.replace(partial, path)
    return dict(counts.most_common())
