"""Make a data set from PDFs alone: pages that somebody has seen before and wants back.

    python -m research.experiments.knownitem FOLDER FILE.pdf... --queries 500

A query is a run of content words of one page's text layer, as somebody would remember them, in their order
but without the small words between; that page is the one right answer. A query whose words all stand on
another page too is dropped, since that page would answer it as well. Texts are only used to write the
queries: what a system reads of the pages is its own affair. Such queries repeat the words of the text
layer, so they are kind to BM25 over that layer; compare systems with that in mind.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from research.command import main, option
from research.experiments.hub import write_questions
from research.experiments.stopwords import LUCENE
from vsplade.encode.tokenizer import Tokenizer, normalise, split_words
from vsplade.errors import InputError
from vsplade.pages import SourceFile, render, usable

LENGTHS = (3, 4, 5, 6, 7)
_SENTENCE = re.compile(r"[.!?]\s+|\n\s*\n")


def page_texts(files: Iterable[Path]) -> dict[str, str]:
    """Page id -> text layer, for every page of PDFs; a page without one has an empty text."""
    sources = [SourceFile(str(file.resolve()), file.stem) for file in files]
    return {result.page.id: result.page.text or "" for result in usable(render(sources, longest_edge=0))}


def known_items(texts: Mapping[str, str], count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Up to ``count`` (query, page id) pairs, at most a few a page, the same for the same seed."""
    tokenizer, rng = Tokenizer.load(), random.Random(seed)
    bags = {page: set(tokenizer.encode(text)) for page, text in texts.items()}
    pages = sorted(page for page, bag in bags.items() if len(bag) >= 40)
    if not pages:
        raise InputError("No page has a text layer with enough words to make queries of.")
    rng.shuffle(pages)
    found: list[tuple[str, str]] = []
    for attempt in range(20 * count):
        if len(found) == count:
            break
        page = pages[attempt % len(pages)]
        query = _remember(texts[page], rng)
        wanted = set(tokenizer.encode(query))
        if query and not any(wanted <= bag for other, bag in bags.items() if other != page):
            found.append((query, page))
    return found


def _remember(text: str, rng: random.Random) -> str:
    """A few neighbouring content words of one sentence; nothing where the sentence has too few."""
    sentence = rng.choice(_SENTENCE.split(text))
    words = [word for word in split_words(normalise(sentence)) if len(word) > 1 and word not in LUCENE]
    length = rng.choice(LENGTHS)
    if len(words) < length:
        return ""
    start = rng.randrange(len(words) - length + 1)
    return " ".join(words[start : start + length])


def write_known_items(folder: Path, files: Iterable[Path], count: int, seed: int = 0) -> int:
    """Write the data set's folder: copies of the PDFs, their text layers, queries and judgements. Returns the
    number of queries.
    """
    files = list(files)
    stems = [file.stem for file in files]
    if len(set(stems)) != len(stems):
        raise InputError("Two PDFs have the same name; pages are named after their file, so rename one.")
    texts = page_texts(files)
    pairs = known_items(texts, count, seed)
    (folder / "pdfs").mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, folder / "pdfs" / file.name)
    layers = [json.dumps({"_id": page, "text": text}, ensure_ascii=False) for page, text in texts.items()]
    (folder / "texts.jsonl").write_text("\n".join(layers) + "\n", encoding="utf-8")
    judged = ((f"q{n}", page, 1) for n, (_, page) in enumerate(pairs))
    write_questions(folder, {f"q{n}": query for n, (query, _) in enumerate(pairs)}, judged)
    return len(pairs)


@dataclass(frozen=True)
class KnownitemOptions:
    folder: Path = option("The folder of the new data set.", argument=True)
    files: tuple[Path, ...] = option("PDFs with a text layer.", argument=True)
    queries: int = option("Queries, at most.", 500)
    seed: int = option("Of the choice of pages and words.", 0)


def known_item_set(options: KnownitemOptions) -> str:
    """Make a data set from PDFs alone: pages that somebody has seen before and wants back."""
    made = write_known_items(options.folder, options.files, options.queries, options.seed)
    return f"{options.folder}: {made} queries on {len(options.files)} PDFs"


if __name__ == "__main__":
    main(known_item_set, KnownitemOptions)
